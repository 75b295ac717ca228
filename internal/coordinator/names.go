package coordinator

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Violation is a finished sentence about a name or number that breaks a rule.
type Violation string

// Error gives the sentence.
func (v Violation) Error() string { return string(v) }

var jobPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckJob tells whether job is a well-formed name; its error is a [Violation]. Job
// names become parts of store keys and file names, hence the narrow alphabet.
func CheckJob(job string) error {
	if !jobPattern.MatchString(job) {
		return Violation(fmt.Sprintf("A job name is 1 to %d characters, of letters, digits, '.', '_' and '-', and begins with a letter or digit.", MaxJobNameBytes))
	}
	return nil
}

// CheckTaskID tells whether id is a well-formed task id; its error is a [Violation].
// Control characters would break the manifest's lines and "-" is the shared state there;
// clients rewrite "." and ".." in paths.
func CheckTaskID(id string) error {
	switch {
	case id == "":
		return Violation("A task id must not be empty.")
	case len(id) > MaxTaskIDBytes:
		return Violation(fmt.Sprintf("A task id has at most %d bytes; this one has %d.", MaxTaskIDBytes, len(id)))
	case !utf8.ValidString(id):
		return Violation("A task id must be valid UTF-8.")
	case id == "." || id == ".." || id == "-":
		return Violation(fmt.Sprintf("%q cannot be a task id.", id))
	case strings.TrimSpace(id) != id:
		return Violation("A task id must not begin or end with white space.")
	case strings.ContainsFunc(id, unicode.IsControl):
		return Violation("A task id must not contain control characters.")
	}
	return nil
}

// CheckKey tells whether key is a well-formed key of an entry; its error is a [Violation].
func CheckKey(key string) error {
	switch {
	case key == "":
		return Violation("A key must not be empty.")
	case len(key) > MaxKeyBytes:
		return Violation(fmt.Sprintf("A key has at most %d bytes; this one has %d.", MaxKeyBytes, len(key)))
	case !utf8.ValidString(key):
		return Violation("A key must be valid UTF-8.")
	}
	return nil
}

// CheckIdempotencyKey tells whether key may be an Idempotency-Key: 1 to 255 visible
// ASCII characters; its error is a [Violation].
func CheckIdempotencyKey(key string) error {
	visible := func(r rune) bool { return r > ' ' && r < 0x7f }
	if key == "" || len(key) > MaxIdempotencyKeyBytes || strings.ContainsFunc(key, func(r rune) bool { return !visible(r) }) {
		return Violation(fmt.Sprintf("An Idempotency-Key is 1 to %d visible ASCII characters.", MaxIdempotencyKeyBytes))
	}
	return nil
}

// CheckCounter tells whether n can be an id, an epoch or an attempt: 0 to 2^53−1; its
// error is a [Violation].
func CheckCounter(n int64) error {
	if n < 0 || n > MaxID {
		return Violation("The number must be between 0 and 9007199254740991.")
	}
	return nil
}
