package server_test

import (
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/server"
)

func TestSizesAreReadAndWrittenInWholeUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]server.Size{
		"512": 512, "0": 0, "1B": 1, "64KiB": 64 << 10, "16MiB": 16 << 20, "4GiB": 4 << 30,
	} {
		var got server.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		var again server.Size
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%d is written as %q, which reads as %d (%v)", got, got, again, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GiB", "1TB", "9223372036854775807KiB", " 1"} {
		var got server.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestSecretsInURLsAreRedacted(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"redis://user:hunter2@host:6379/0", "redis://host/0?password=hunter2", "redis://:hunter2@host", "redis://%zz:hunter2@"} {
		if got := server.RedactURL(raw); strings.Contains(got, "hunter2") {
			t.Errorf("%q became %q", raw, got)
		}
	}
}
