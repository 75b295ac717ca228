package snapshot

import (
	"fmt"
	"io"
	"strconv"
)

// Member is one member of a JSON object.
type Member struct {
	// Name is the unescaped name.
	Name string
	// Value is canonical.
	Value []byte
}

// Object splits a JSON object into its members, in the order they are written.
// It is as strict as Canonical, with MaxDepth counted inside each value, and
// takes only names that CheckKey takes. The error is a *SyntaxError or, for
// well-formed JSON that is no such object, an *EntryError.
//
// Values may be parts of raw.
func Object(raw []byte) ([]Member, error) {
	entries, err := NewObjectReader(raw, len(raw))
	if err != nil {
		return nil, err
	}
	var members []Member
	for {
		entry, err := entries.Next()
		if err == io.EOF {
			return members, nil
		}
		if err != nil {
			return nil, err
		}
		members = append(members, Member{Name: string(entry.Key), Value: entry.Value})
	}
}

// ObjectReader reads the members of a JSON object as entries, in the order they
// are written.
type ObjectReader struct {
	// rest begins at the brace or comma before the next member.
	rest     []byte
	maxValue int
	key      []byte
	count    int
}

// NewObjectReader checks a whole JSON object, as Object does, and returns a
// reader of its members. The longest value may have maxValue bytes when
// canonical. The error is a *SyntaxError or an *EntryError. The reader refers
// to body.
func NewObjectReader(body []byte, maxValue int) (*ObjectReader, error) {
	object, err := canonical(body, MaxDepth+1)
	if err != nil {
		return nil, err
	}
	if t := Type(object); t != "object" {
		return nil, &EntryError{Detail: "the value must be an object, and is " + withArticle(t)}
	}
	return &ObjectReader{rest: object, maxValue: maxValue}, nil
}

// Next returns the next member, with its 1-based place as Line, and io.EOF
// after the last. The error is otherwise an *EntryError or a *TooLargeError,
// after which the reader is of no use any more.
func (r *ObjectReader) Next() (Entry, error) {
	if len(r.rest) <= len("{}") { // shorter than any member
		return Entry{}, io.EOF
	}
	r.count++
	nameEnd := stringEnd(r.rest, len(`,"`))
	r.key = appendUnescaped(r.key[:0], r.rest[len(`,"`):nameEnd])
	valueStart := nameEnd + len(`":`)
	valueEnd := valueEnd(r.rest, valueStart)
	value := r.rest[valueStart:valueEnd:valueEnd]
	r.rest = r.rest[valueEnd:]

	if problem := keyProblem(r.key); problem != "" {
		return Entry{}, &EntryError{Pointer: memberPointer(r.key), Detail: problem}
	}
	if len(value) > r.maxValue {
		return Entry{}, valueTooLarge(r.maxValue, 0)
	}
	return Entry{Key: r.key, Value: value, Line: r.count}, nil
}

// valueEnd is where the value at pos of a valid, compact object ends.
func valueEnd(src []byte, pos int) int {
	for depth := 0; ; pos++ {
		switch src[pos] {
		case '"':
			pos = stringEnd(src, pos+1)
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return pos
			}
			depth--
		case ',':
			if depth == 0 {
				return pos
			}
		}
	}
}

// memberPointer is the JSON pointer to a member of the root, or to the root
// where the name is too long to be shown.
func memberPointer(name []byte) string {
	token := pointerToken(name)
	if len(token) >= maxPointer {
		return ""
	}
	return "/" + string(token)
}

func valueTooLarge(limit, line int) error {
	return &TooLargeError{
		What: "value", Max: int64(limit), Line: line,
		Detail: "one value is larger than " + strconv.Itoa(limit) + " bytes",
	}
}

// withArticle puts a type's name into a sentence.
func withArticle(name string) string {
	switch name {
	case "null":
		return name
	case "object", "array", "integer":
		return "an " + name
	}
	return fmt.Sprintf("a %s", name)
}
