package snapshot

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
)

const (
	problemEarlyEnd = "the value ends too early"
	problemDepth    = "nesting deeper than 1000 levels"

	// maxPointer bounds the JSON pointers of errors, in bytes.
	maxPointer = 1024
)

// scanner checks JSON values in one pass over the bytes. It keeps open arrays
// and objects on a stack of its own, so that nesting costs no goroutine stack,
// and reuses that stack from value to value. The zero value is ready.
type scanner struct {
	// maxDepth is how many arrays and objects may be open at once.
	maxDepth int
	// inside tells that nobody asks for the members of the value.
	inside bool

	src    []byte
	levels []level
	names  nameSet
	// lastSpace is the place of the last white space seen inside the value, -1
	// where there is none and compact has nothing to do.
	lastSpace int
	// members are the first members of the value, if it is an object.
	members []memberSpan
}

// maxMembers is how many members of an outermost object a scanner remembers:
// one more than the line of an upload, or what AppendFields is for, may have.
const maxMembers = 6

// memberSpan is where a member of the outermost object stands: its name without
// quotes at nameStart:nameEnd, its value at start:end.
type memberSpan struct {
	nameStart, nameEnd int32
	start, end         int32
	// escaped and spaced tell what the name and the value have inside.
	escaped, spaced bool
}

// level is an open array or object.
type level struct {
	// scope is the object's share of the names.
	scope nameScope
	// at is the current member of an object, as nameSet knows it, or the place of
	// the current element of an array.
	at     uint32
	object bool
}

// value scans the value that begins at or after pos and returns where it ends.
// White space after the value is left alone.
func (s *scanner) value(src []byte, pos int) (int, error) {
	// Before anything is blamed: the last text may have ended with levels open.
	s.src, s.levels, s.members, s.lastSpace = src, s.levels[:0], s.members[:0], -1
	if len(src) > math.MaxInt32 {
		return 0, s.fail(0, "the value is longer than 2 GiB")
	}
	s.names.reset(src)
	pos = skipSpace(src, pos)
	for {
		// A value starts at pos.
		if pos >= len(src) {
			return 0, s.fail(pos, problemEarlyEnd)
		}
		var problem string
		switch c := src[pos]; c {
		case '{', '[':
			if len(s.levels) >= s.maxDepth {
				return 0, s.fail(pos, problemDepth)
			}
			s.push(c == '{')
			pos = s.skip(pos + 1)
			if pos < len(src) && src[pos] == c+2 { // '}' is '{'+2, ']' is '['+2
				s.pop()
				pos++
				break
			}
			if c == '{' {
				var err error
				if pos, err = s.memberName(pos); err != nil {
					return 0, err
				}
			}
			continue
		case '"':
			if end := shortString(src, pos+1); end >= 0 {
				pos = end + 1
			} else if pos, _, problem = scanString(src, pos+1); problem == "" {
				pos++ // the closing quote
			}
		case 't':
			pos, problem = scanLiteral(src, pos, "true")
		case 'f':
			pos, problem = scanLiteral(src, pos, "false")
		case 'n':
			pos, problem = scanLiteral(src, pos, "null")
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			pos, problem = scanNumber(src, pos)
		default:
			problem = unexpected(src, pos, "where a value should begin")
		}
		if problem != "" {
			return 0, s.fail(pos, problem)
		}

		// A value ends at pos: close what it closes, or go on to the next.
		next, err := s.afterValue(pos)
		if err != nil || len(s.levels) == 0 {
			return next, err
		}
		pos = next
	}
}

// afterValue goes from the end of a value to the start of the next one. At the
// end of the outermost value no level is left.
func (s *scanner) afterValue(pos int) (int, error) {
	for len(s.levels) > 0 {
		if len(s.levels) == 1 {
			s.endMember(pos)
		}
		pos = s.skip(pos)
		if pos >= len(s.src) {
			return 0, s.failAtParent(pos, problemEarlyEnd)
		}
		top := &s.levels[len(s.levels)-1]
		switch c := s.src[pos]; {
		case c == ',' && top.object:
			return s.memberName(s.skip(pos + 1))
		case c == ',':
			top.at++
			return s.skip(pos + 1), nil
		case c == '}' && top.object, c == ']' && !top.object:
			s.pop()
			pos++
		case top.object:
			return 0, s.failAtParent(pos, unexpected(s.src, pos, "where a comma or } should be"))
		default:
			return 0, s.failAtParent(pos, unexpected(s.src, pos, "where a comma or ] should be"))
		}
	}
	return pos, nil
}

// memberName scans a name and its colon and returns where the value starts.
func (s *scanner) memberName(pos int) (int, error) {
	src := s.src
	if pos >= len(src) {
		return 0, s.failAtParent(pos, problemEarlyEnd)
	}
	if src[pos] != '"' {
		return 0, s.failAtParent(pos, unexpected(src, pos, "where a member name should begin"))
	}
	end, escaped := shortString(src, pos+1), false
	if end < 0 {
		var problem string
		if end, escaped, problem = scanString(src, pos+1); problem != "" {
			return 0, s.failAtParent(end, problem)
		}
	}
	top := &s.levels[len(s.levels)-1]
	ref, fresh := s.names.add(&top.scope, pos+1, end, escaped)
	top.at = uint32(ref)
	if !fresh {
		return 0, s.fail(pos, duplicateName(s.names.text(ref)))
	}
	colon := s.skip(end + 1)
	if colon >= len(src) {
		return 0, s.fail(colon, problemEarlyEnd)
	}
	if src[colon] != ':' {
		return 0, s.fail(colon, unexpected(src, colon, "where a colon should be"))
	}
	start := s.skip(colon + 1)
	if len(s.levels) == 1 && len(s.members) < maxMembers && !s.inside {
		s.addMember(pos+1, end, start, escaped)
	}
	return start, nil
}

// addMember notes where a member of the outermost object begins.
func (s *scanner) addMember(nameStart, nameEnd, start int, escaped bool) {
	n := len(s.members)
	if n == cap(s.members) {
		s.members = slices.Grow(s.members, maxMembers)
	}
	s.members = s.members[:n+1]
	m := &s.members[n]
	m.nameStart, m.nameEnd, m.start, m.escaped = int32(nameStart), int32(nameEnd), int32(start), escaped
	m.end, m.spaced = 0, false
}

// endMember notes where the current member of the outermost object ends, if it
// is one of those that are remembered.
func (s *scanner) endMember(pos int) {
	if n := len(s.members); n > 0 && n == int(s.levels[0].scope.count) {
		s.members[n-1].end = int32(pos)
		s.members[n-1].spaced = s.lastSpace > int(s.members[n-1].start)
	}
}

func (s *scanner) push(object bool) {
	// Written in place: to make a level and copy it takes twice as long.
	n := len(s.levels)
	if n == cap(s.levels) {
		s.levels = slices.Grow(s.levels, 1)
	}
	s.levels = s.levels[:n+1]
	top := &s.levels[n]
	s.names.open(&top.scope)
	top.at, top.object = 0, object
}

func (s *scanner) pop() {
	top := &s.levels[len(s.levels)-1]
	s.names.close(&top.scope)
	s.levels = s.levels[:len(s.levels)-1]
}

// skip passes white space inside a value and remembers that there was some.
func (s *scanner) skip(pos int) int {
	if pos < len(s.src) && s.src[pos] <= ' ' {
		next := skipSpace(s.src, pos)
		if next > pos {
			s.lastSpace = pos
		}
		return next
	}
	return pos
}

// release forgets the last text and what memory only an unusual one needed.
func (s *scanner) release() {
	s.src = nil
	s.names.release()
}

// fail blames the value or member that is being scanned.
func (s *scanner) fail(pos int, problem string) error {
	return &SyntaxError{Pointer: s.pointer(len(s.levels)), Offset: int64(pos), Detail: problem}
}

// failAtParent blames the innermost open array or object, because no element
// of it is to blame.
func (s *scanner) failAtParent(pos int, problem string) error {
	return &SyntaxError{Pointer: s.pointer(len(s.levels) - 1), Offset: int64(pos), Detail: problem}
}

// pointer is the JSON pointer through the given number of levels.
func (s *scanner) pointer(levels int) string {
	pointer := make([]byte, 0, 64)
	for i := range s.levels[:levels] {
		l := &s.levels[i]
		var token []byte
		if l.object {
			token = pointerToken(s.names.text(nameRef(l.at)))
		} else {
			token = strconv.AppendUint(nil, uint64(l.at), 10)
		}
		if len(pointer)+1+len(token) > maxPointer {
			break
		}
		pointer = append(append(pointer, '/'), token...)
	}
	return string(pointer)
}

// pointerToken escapes a member name for a JSON pointer.
func pointerToken(name []byte) []byte {
	if len(name) > maxPointer {
		return name // too long to be shown, whatever its escapes are
	}
	name = bytes.ReplaceAll(name, []byte("~"), []byte("~0"))
	return bytes.ReplaceAll(name, []byte("/"), []byte("~1"))
}

func duplicateName(name []byte) string {
	return "member name " + quoted(name) + " appears twice"
}

// unexpected describes the character at pos.
func unexpected(src []byte, pos int, where string) string {
	switch c := src[pos]; {
	case bytes.HasPrefix(src[pos:], byteOrderMark):
		return "a byte-order mark " + where
	case c > ' ' && c < 0x7f:
		return fmt.Sprintf("unexpected character %c %s", c, where)
	default:
		return fmt.Sprintf("unexpected byte 0x%02x %s", c, where)
	}
}
