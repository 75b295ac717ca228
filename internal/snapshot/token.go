package snapshot

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// byteOrderMark is U+FEFF in UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

func skipSpace(src []byte, pos int) int {
	for pos < len(src) {
		switch src[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		default:
			return pos
		}
	}
	return pos
}

func scanLiteral(src []byte, pos int, want string) (end int, problem string) {
	for i := range len(want) {
		switch {
		case pos+i >= len(src):
			return pos + i, problemEarlyEnd
		case src[pos+i] != want[i]:
			return pos + i, unexpected(src, pos+i, "in what began like "+want)
		}
	}
	return pos + len(want), ""
}

// scanNumber scans the number that begins at pos. What follows the number is
// the caller's business, which is why 01 is a problem of the byte after 0.
func scanNumber(src []byte, pos int) (end int, problem string) {
	if src[pos] == '-' {
		pos++
	}
	if pos < len(src) && src[pos] == '0' {
		pos++
		if pos < len(src) && isDigit(src[pos]) {
			return pos, "a number must not begin with 0 and go on with digits"
		}
	} else if pos, problem = scanDigits(src, pos); problem != "" {
		return pos, problem
	}
	if pos < len(src) && src[pos] == '.' {
		if pos, problem = scanDigits(src, pos+1); problem != "" {
			return pos, problem
		}
	}
	if pos < len(src) && (src[pos] == 'e' || src[pos] == 'E') {
		pos++
		if pos < len(src) && (src[pos] == '+' || src[pos] == '-') {
			pos++
		}
		return scanDigits(src, pos)
	}
	return pos, ""
}

// scanDigits passes one digit or more.
func scanDigits(src []byte, pos int) (end int, problem string) {
	start := pos
	for pos < len(src) && isDigit(src[pos]) {
		pos++
	}
	switch {
	case pos > start:
		return pos, ""
	case pos == len(src):
		return pos, problemEarlyEnd
	default:
		return pos, unexpected(src, pos, "where a number should have a digit")
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// shortString is the place of the quote that closes a string of less than eight
// plain bytes, which most names are; -1 for any other, which scanString scans. It
// is small enough to be inlined.
func shortString(src []byte, pos int) int {
	if pos+8 <= len(src) {
		if marks := specialBytes(binary.LittleEndian.Uint64(src[pos:])); marks != 0 {
			if end := pos + bits.TrailingZeros64(marks)/8; src[end] == '"' {
				return end
			}
		}
	}
	return -1
}

// scanString scans the string whose first byte after the opening quote is at
// pos. end is the place of the closing quote, or of the mistake.
func scanString(src []byte, pos int) (end int, escaped bool, problem string) {
	for {
		for pos+8 <= len(src) {
			marks := specialBytes(binary.LittleEndian.Uint64(src[pos:]))
			if marks != 0 {
				pos += bits.TrailingZeros64(marks) / 8
				break
			}
			pos += 8
		}
		if pos >= len(src) {
			return pos, escaped, problemEarlyEnd
		}
		switch c := src[pos]; {
		case c == '"':
			return pos, escaped, ""
		case c == '\\':
			escaped = true
			if pos, problem = scanEscape(src, pos); problem != "" {
				return pos, escaped, problem
			}
		case c < ' ':
			return pos, escaped, fmt.Sprintf(`the string has a raw control character; write it as \u%04x`, c)
		case c < utf8.RuneSelf:
			pos++
		default:
			for pos < len(src) && src[pos] >= utf8.RuneSelf {
				_, size := utf8.DecodeRune(src[pos:])
				if size == 1 { // no valid encoding of a rune above U+007F has one byte
					return pos, escaped, "the string has bytes that are not UTF-8"
				}
				pos += size
			}
		}
	}
}

// specialBytes marks the top bit of every byte of w at which a string ends or
// needs a closer look: quote, backslash, control character, non-ASCII. The
// subtractions may borrow into bytes above a hit, so only the lowest mark is
// to be trusted.
func specialBytes(w uint64) uint64 {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	quote := w ^ ones*'"'
	backslash := w ^ ones*'\\'
	return tops & (w |
		(w-ones*' ')&^w |
		(quote-ones)&^quote |
		(backslash-ones)&^backslash)
}

// scanEscape passes the escape whose backslash is at pos, with both halves of
// a surrogate pair.
func scanEscape(src []byte, pos int) (end int, problem string) {
	if pos+1 >= len(src) {
		return len(src), problemEarlyEnd
	}
	switch src[pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return pos + 2, ""
	case 'u':
	default:
		return pos, `the string has a backslash that begins no escape; write \\ for a backslash`
	}
	unit, ok := hexUnit(src, pos)
	switch {
	case !ok && len(src) < pos+6:
		return len(src), problemEarlyEnd
	case !ok:
		return pos, `the string has a \u without four hexadecimal digits`
	case !utf16.IsSurrogate(unit):
		return pos + 6, ""
	}
	if low, ok := hexUnit(src, pos+6); ok && utf16.DecodeRune(unit, low) != utf8.RuneError {
		return pos + 12, ""
	}
	return pos, fmt.Sprintf(`the string has a lone surrogate, \u%04x without its other half`, unit)
}

// hexUnit reads \uXXXX at pos.
func hexUnit(src []byte, pos int) (unit rune, ok bool) {
	if pos+6 > len(src) || src[pos] != '\\' || src[pos+1] != 'u' {
		return 0, false
	}
	for _, c := range src[pos+2 : pos+6] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// appendUnescaped appends what the inside of a valid JSON string stands for.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		switch c := raw[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			unit, _ := hexUnit(raw, i)
			if utf16.IsSurrogate(unit) {
				low, _ := hexUnit(raw, i+6)
				unit = utf16.DecodeRune(unit, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, unit)
			i += 4
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

// compact appends valid JSON without its insignificant white space. dst may be
// the front of src itself.
func compact(dst, src []byte) []byte {
	for pos := 0; pos < len(src); {
		start := pos
		for pos < len(src) && src[pos] > ' ' {
			if src[pos] == '"' {
				pos = stringEnd(src, pos+1)
			}
			pos++
		}
		dst = append(dst, src[start:pos]...)
		pos = skipSpace(src, pos)
	}
	return dst
}

// stringEnd is the place of the quote that closes the valid JSON string whose
// first byte after the opening quote is at pos.
func stringEnd(src []byte, pos int) int {
	for src[pos] != '"' {
		if src[pos] == '\\' {
			pos++
		}
		pos++
	}
	return pos
}
