package snapshot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError says why bytes are not one strict JSON value.
type SyntaxError struct {
	// Pointer is the RFC 6901 JSON pointer to the value that is wrong, "" for
	// the root. Where it would exceed 1024 bytes it names the deepest
	// enclosing value that fits, because names are the client's and may be
	// megabytes long.
	Pointer string
	// Line is the 1-based line of an NDJSON body, 0 outside of NDJSON.
	Line int
	// Offset counts the bytes before the mistake, from the start of the body.
	Offset int64
	// Detail is a sentence for the client, without a full stop.
	Detail string
}

func (e *SyntaxError) Error() string {
	return located("invalid JSON", e.Line, e.Pointer) + " (offset " + strconv.FormatInt(e.Offset, 10) + "): " + e.Detail
}

// EntryError says why well-formed JSON is not an entry: an unknown or a missing
// member, a bad key, the taskId of another task.
type EntryError struct {
	// Pointer is the RFC 6901 JSON pointer to the member, "" for the whole.
	Pointer string
	// Line is the 1-based line of an NDJSON body, 0 outside of NDJSON.
	Line int
	// Detail is a sentence for the client, without a full stop.
	Detail string
}

func (e *EntryError) Error() string {
	return located("invalid entry", e.Line, e.Pointer) + ": " + e.Detail
}

// TooLargeError says that a size limit was hit. Nothing was cut short: what was
// too large is refused as a whole.
type TooLargeError struct {
	// What is "value", "line" or "part".
	What string
	// Max is the limit in bytes.
	Max int64
	// Line is the 1-based line of an NDJSON body, 0 outside of NDJSON.
	Line int
	// Detail is a sentence for the client that names the limit, without a full
	// stop.
	Detail string
}

func (e *TooLargeError) Error() string {
	return located(e.What+" too large", e.Line, "") + ": " + e.Detail
}

// DuplicateKeyError says that two entries of one part have the same key.
type DuplicateKeyError struct {
	// Key is the key, unescaped.
	Key string
	// Line is the later line and FirstLine the earlier one, both 1-based and
	// as given to KeySet.Add.
	Line, FirstLine int
}

func (e *DuplicateKeyError) Error() string {
	return "line " + strconv.Itoa(e.Line) + ": " + e.Detail()
}

// Detail is a sentence for the client, without a full stop.
func (e *DuplicateKeyError) Detail() string {
	return fmt.Sprintf("key %s was already on line %d", quoted([]byte(e.Key)), e.FirstLine)
}

// TypeError says that a value cannot be read as the wanted type without loss.
type TypeError struct {
	// Actual is the type of the value, as Type names it; Wanted is the type
	// that was asked for.
	Actual, Wanted string
	// Detail is a sentence for the client, without a full stop.
	Detail string
}

func (e *TypeError) Error() string {
	return "a " + e.Actual + " is not readable as " + e.Wanted + ": " + e.Detail
}

func located(what string, line int, pointer string) string {
	var b strings.Builder
	b.WriteString(what)
	if line > 0 {
		b.WriteString(" on line ")
		b.WriteString(strconv.Itoa(line))
	}
	if pointer != "" {
		b.WriteString(" at ")
		b.WriteString(pointer)
	}
	return b.String()
}

// maxQuoted bounds the client's own text in a sentence to it, in bytes.
const maxQuoted = 64

// quoted shows a name in a sentence: in JSON quotes, cut off where it is long.
func quoted(name []byte) string {
	more := ""
	if len(name) > maxQuoted {
		cut := maxQuoted
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name, more = name[:cut], "…"
	}
	return `"` + string(appendEscaped(nil, name)) + more + `"`
}
