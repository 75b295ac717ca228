package snapshot

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckKey reports whether key can name an entry: 1 to 1024 bytes of valid
// UTF-8, any characters. The error is a *NameError.
func CheckKey(key string) error {
	if problem := nameProblem("key", len(key), MaxKey, utf8.ValidString(key)); problem != "" {
		return &NameError{Detail: problem}
	}
	return nil
}

// CheckTaskID reports whether id can name a task: 1 to 1024 bytes of valid
// UTF-8 without control characters and without white space around it, and none
// of ".", "..", which clients rewrite in paths, and "-", which is the shared
// state in a manifest. The error is a *NameError.
func CheckTaskID(id string) error {
	problem := nameProblem("taskId", len(id), MaxTaskID, utf8.ValidString(id))
	switch {
	case problem != "":
	case strings.ContainsFunc(id, unicode.IsControl):
		problem = "a taskId must not contain control characters"
	case strings.TrimSpace(id) != id:
		problem = "a taskId must not begin or end with white space"
	case id == "." || id == ".." || id == Shared:
		problem = `a taskId must not be ".", ".." or "-"`
	}
	if problem != "" {
		return &NameError{Detail: problem}
	}
	return nil
}

// keyProblem says why a key that is known to be UTF-8 is none, "" where it is
// one.
func keyProblem(key []byte) string {
	return nameProblem("key", len(key), MaxKey, true)
}

func nameProblem(what string, length, limit int, valid bool) string {
	switch {
	case length == 0:
		return "a " + what + " must not be empty"
	case length > limit:
		return "a " + what + " must not be longer than " + strconv.Itoa(limit) + " bytes"
	case !valid:
		return "a " + what + " must be valid UTF-8"
	}
	return ""
}
