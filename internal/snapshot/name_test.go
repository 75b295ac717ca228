package snapshot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestKeysMayHoldAnyCharacters(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a", ".", "..", "-", " ", "\n", "\x00", "a/b", "%2F", `"\`, "😀", "é", "e\u0301", strings.Repeat("k", 1024), strings.Repeat("é", 512)} {
		if err := snapshot.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                              "a key must not be empty",
		strings.Repeat("k", 1025):       "a key must not be longer than 1024 bytes",
		strings.Repeat("é", 512) + "k":  "a key must not be longer than 1024 bytes",
		"a\xff":                         "a key must be valid UTF-8",
		"\xed\xa0\x80":                  "a key must be valid UTF-8",
		strings.Repeat("k", 1023) + "é": "a key must not be longer than 1024 bytes",
	} {
		checkName(t, key, snapshot.CheckKey(key), want)
	}
}

func TestTaskIDsMayBeAwkward(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"task-1", "a/b", "%2F", "a b", "...", "--", `"\`, "😀", "e\u0301", strings.Repeat("t", 1024)} {
		if err := snapshot.CheckTaskID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestTaskIDsAreRefused(t *testing.T) {
	t.Parallel()
	const (
		control  = "a taskId must not contain control characters"
		space    = "a taskId must not begin or end with white space"
		reserved = `a taskId must not be ".", ".." or "-"`
	)
	for id, want := range map[string]string{
		"":                        "a taskId must not be empty",
		strings.Repeat("t", 1025): "a taskId must not be longer than 1024 bytes",
		"t\xff":                   "a taskId must be valid UTF-8",
		"a\nb":                    control,
		"a\n":                     control,
		"a\x7fb":                  control,
		"a\u0085b":                control,
		" a":                      space,
		"a ":                      space,
		"\u00a0a":                 space,
		"a\u3000":                 space,
		" ":                       space,
		".":                       reserved,
		"..":                      reserved,
		"-":                       reserved,
	} {
		checkName(t, id, snapshot.CheckTaskID(id), want)
	}
}

func checkName(t *testing.T, name string, err error, want string) {
	t.Helper()
	var nameErr *snapshot.NameError
	if !errors.As(err, &nameErr) || nameErr.Detail != want || err.Error() != want {
		t.Errorf("%.40q: got %v, want %s", name, err, want)
	}
}
