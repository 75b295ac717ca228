package snapshot

import (
	"bytes"
	"sync"
)

// scanners keeps the stacks of scanners for the next value.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Canonical checks that raw is exactly one JSON value, strictly, and returns it
// without insignificant white space; numbers, escapes and the order of members
// stay as written. It refuses member names that appear twice in an object (by
// what they stand for, not by how they are escaped), bytes that are not UTF-8,
// lone surrogates, more data after the value, a byte-order mark, and nesting
// deeper than MaxDepth. The error is a *SyntaxError.
//
// Where raw has no such white space inside, the result is a part of raw itself.
func Canonical(raw []byte) ([]byte, error) {
	return canonical(raw, MaxDepth)
}

func canonical(raw []byte, maxDepth int) ([]byte, error) {
	s, _ := scanners.Get().(*scanner)
	defer func() {
		s.release()
		scanners.Put(s)
	}()
	s.maxDepth = maxDepth

	start := skipSpace(raw, 0)
	if problem := noValue(raw, start); problem != "" {
		return nil, &SyntaxError{Offset: int64(start), Detail: problem}
	}
	end, err := s.value(raw, start)
	if err != nil {
		return nil, err
	}
	if rest := skipSpace(raw, end); rest < len(raw) {
		return nil, &SyntaxError{Offset: int64(rest), Detail: "there is more after the end of the value"}
	}
	if s.lastSpace >= 0 {
		return compact(make([]byte, 0, end-start), raw[start:end]), nil
	}
	return raw[start:end:end], nil
}

// noValue says why no value can begin at pos at all.
func noValue(src []byte, pos int) string {
	switch {
	case pos == len(src):
		return "there is no value, only an empty text"
	case bytes.HasPrefix(src[pos:], byteOrderMark):
		return "a byte-order mark before the value; send plain UTF-8"
	}
	return ""
}

// Type names the type of a canonical value: string, number, boolean, object,
// array or null.
func Type(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		return "number"
	}
}
