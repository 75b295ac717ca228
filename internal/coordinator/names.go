package coordinator

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ViolationError is a finished sentence about a name or number that breaks a rule.
type ViolationError string

// Error gives the sentence.
func (v ViolationError) Error() string { return string(v) }

var jobPattern = regexp.MustCompile(JobPattern)

// CheckJob tells whether job is a well-formed name; its error is a [ViolationError]. Job
// names become parts of store keys and file names, hence the narrow alphabet.
func CheckJob(job string) error {
	if len(job) > MaxJobNameBytes || !jobPattern.MatchString(job) {
		return ViolationError(fmt.Sprintf("A job name is 1 to %d characters, of letters, digits, '.', '_' and '-', and begins with a letter or digit.", MaxJobNameBytes))
	}
	return nil
}

// CheckTaskID tells whether id is a well-formed task id; its error is a [ViolationError].
// Control characters would break the manifest's lines and "-" is the shared state there;
// clients rewrite "." and ".." in paths.
func CheckTaskID(id string) error {
	switch {
	case isPlainWord(id): // which thousands are a second
		return nil
	case id == "":
		return ViolationError("A task id must not be empty.")
	case len(id) > MaxTaskIDBytes:
		return ViolationError(fmt.Sprintf("A task id has at most %d bytes; this one has %d.", MaxTaskIDBytes, len(id)))
	case !utf8.ValidString(id):
		return ViolationError("A task id must be valid UTF-8.")
	case id == "." || id == ".." || id == "-":
		return ViolationError(fmt.Sprintf("%q cannot be a task id.", id))
	case strings.TrimSpace(id) != id:
		return ViolationError("A task id must not begin or end with white space.")
	case strings.ContainsFunc(id, unicode.IsControl):
		return ViolationError("A task id must not contain control characters.")
	}
	return nil
}

// isPlainWord tells whether text is of visible ASCII and neither short nor long: a name whatever
// the rules are.
func isPlainWord(text string) bool {
	if len(text) < len("...") || len(text) > 255 {
		return false
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// CheckKey tells whether key is a well-formed key of an entry; its error is a [ViolationError].
func CheckKey(key string) error {
	switch {
	case key == "":
		return ViolationError("A key must not be empty.")
	case len(key) > MaxKeyBytes:
		return ViolationError(fmt.Sprintf("A key has at most %d bytes; this one has %d.", MaxKeyBytes, len(key)))
	case !utf8.ValidString(key):
		return ViolationError("A key must be valid UTF-8.")
	}
	return nil
}

// CheckIdempotencyKey tells whether key may be an Idempotency-Key: 1 to 255 visible
// ASCII characters; its error is a [ViolationError].
func CheckIdempotencyKey(key string) error {
	visible := func(r rune) bool { return r > ' ' && r < 0x7f }
	if key == "" || len(key) > MaxIdempotencyKeyBytes || strings.ContainsFunc(key, func(r rune) bool { return !visible(r) }) {
		return ViolationError(fmt.Sprintf("An Idempotency-Key is 1 to %d visible ASCII characters.", MaxIdempotencyKeyBytes))
	}
	return nil
}

// CheckCounter tells whether n can be an id, an epoch or an attempt: 0 to 2^53−1; its
// error is a [ViolationError].
func CheckCounter(n int64) error {
	if n < 0 || n > MaxID {
		return ViolationError(fmt.Sprintf("The number must be between 0 and %d.", int64(MaxID)))
	}
	return nil
}
