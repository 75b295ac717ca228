package snapshot

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	// quickDepth and quickNames are how many levels may be open in a value that is
	// scanned the quick way, and how many members one of its objects may have.
	quickDepth = 16
	quickNames = 32
	// quickPause is for how many values the quick way is not tried after it did not
	// do, so that data which it never fits is not scanned twice.
	quickPause = 15
)

// quickScanner passes values that are written as nearly all are: without white space, or
// with the single spaces behind commas and colons that Python writes, names without
// escapes, few levels and few members. It keeps no pointers, says nothing about mistakes,
// and answers "not this way" to all it is not sure of, well-formed or not: the scanner has
// the last word then. The zero value is ready.
type quickScanner struct {
	levels [quickDepth]quickLevel
	names  [quickDepth * quickNames]quickName
	pause  int
}

// quickLevel is what there is to remember of an array or object that is around the
// innermost one.
type quickLevel struct {
	seen   uint64 // as in nameScope
	first  int
	object bool
}

// quickName is the place of a name without its quotes.
type quickName struct{ start, end int32 }

// value returns where the value that begins at pos ends, and whether it has white space
// inside. ok is false where the value is not one for the quick way.
func (q *quickScanner) value(src []byte, pos int) (end int, spaced, ok bool) {
	if q.pause > 0 {
		q.pause--
		return 0, false, false
	}
	if end, spaced, ok = q.scan(src, pos); !ok {
		q.pause = quickPause
	}
	return end, spaced, ok
}

//nolint:gocognit // One loop with its state in registers: to cut it up is to lose what it is for.
func (q *quickScanner) scan(src []byte, pos int) (end int, spaced, ok bool) {
	var (
		seen         uint64 // of the innermost object, as in nameScope
		first, count int    // its names are names[first:count]
		depth        int
		object       bool // whether the innermost level is one
		problem      string
	)
	for {
		// A value starts at pos.
		if pos >= len(src) {
			return 0, false, false
		}
		switch c := src[pos]; c {
		case '"':
			if pos = quickString(src, pos+1); pos < 0 {
				return 0, false, false
			}
			pos++
		case '{', '[':
			pos++
			if pos < len(src) && src[pos] == c+2 { // '}' is '{'+2, ']' is '['+2
				pos++
				break
			}
			if depth == quickDepth {
				return 0, false, false
			}
			q.levels[depth] = quickLevel{seen, first, object}
			depth++
			seen, first, object = 0, count, c == '{'
			if !object {
				continue
			}
			goto name
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-':
			if pos = quickNumber(src, pos); pos < 0 {
				return 0, false, false
			}
		case 't':
			if pos, problem = scanLiteral(src, pos, "true"); problem != "" {
				return 0, false, false
			}
		case 'f':
			if pos, problem = scanLiteral(src, pos, "false"); problem != "" {
				return 0, false, false
			}
		case 'n':
			if pos, problem = scanLiteral(src, pos, "null"); problem != "" {
				return 0, false, false
			}
		default:
			return 0, false, false
		}

		// A value ends at pos.
		for {
			if depth == 0 {
				return pos, spaced, true
			}
			if pos >= len(src) {
				return 0, false, false
			}
			c := src[pos]
			pos++
			if c == ',' {
				break
			}
			if c != '}' && c != ']' || object != (c == '}') {
				return 0, false, false
			}
			depth--
			count = first
			level := &q.levels[depth]
			seen, first, object = level.seen, level.first, level.object
		}
		if pos < len(src) && src[pos] == ' ' {
			spaced = true
			pos++
		}
		if !object {
			continue
		}

	name:
		if pos >= len(src) || src[pos] != '"' {
			return 0, false, false
		}
		start := pos + 1
		if pos = plainString(src, start); pos < 0 {
			return 0, false, false
		}
		bit := nameBit(src[start:pos])
		if count-first == quickNames || seen&bit != 0 && q.isAmong(src, first, count, start, pos) {
			return 0, false, false
		}
		seen |= bit
		q.names[count] = quickName{int32(start), int32(pos)} // count is below quickDepth*quickNames
		count++
		pos++
		if pos >= len(src) || src[pos] != ':' {
			return 0, false, false
		}
		pos++
		if pos < len(src) && src[pos] == ' ' {
			spaced = true
			pos++
		}
	}
}

// isAmong tells whether src[start:end] is one of names[first:count].
func (q *quickScanner) isAmong(src []byte, first, count, start, end int) bool {
	for _, other := range q.names[first:count] {
		if int(other.end-other.start) == end-start && bytes.Equal(src[other.start:other.end], src[start:end]) {
			return true
		}
	}
	return false
}

// plainString is the place of the quote that closes the string of ASCII without escapes
// whose first byte is at pos, -1 for any other.
func plainString(src []byte, pos int) int {
	for pos+8 <= len(src) {
		if marks := specialBytes(binary.LittleEndian.Uint64(src[pos:])); marks != 0 {
			pos += bits.TrailingZeros64(marks) / 8
			if src[pos] == '"' {
				return pos
			}
			return -1
		}
		pos += 8
	}
	for ; pos < len(src); pos++ {
		switch c := src[pos]; {
		case c == '"':
			return pos
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return -1
		}
	}
	return -1
}

// quickString is the place of the quote that closes the string whose first byte is at
// pos, -1 where it is not a good one.
func quickString(src []byte, pos int) int {
	if end := plainString(src, pos); end >= 0 {
		return end
	}
	end, _, problem := scanString(src, pos)
	if problem != "" {
		return -1
	}
	return end
}

// quickNumber is where the number that begins at pos ends, -1 where it is not a good one
// or the text ends with it.
func quickNumber(src []byte, pos int) int {
	start := pos
	for pos < len(src) && src[pos]-'0' <= 9 {
		pos++
	}
	if pos == len(src) {
		return -1
	}
	if c := src[pos]; pos == start || c == '.' || c|0x20 == 'e' || src[start] == '0' && pos > start+1 {
		end, problem := scanNumber(src, start)
		if problem != "" {
			return -1
		}
		return end
	}
	return pos
}
