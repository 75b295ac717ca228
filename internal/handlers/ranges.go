package handlers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// byteRange is a part of a stream.
type byteRange struct{ offset, length int64 }

// contentRange is the range as Content-Range has it.
func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.offset, r.offset+r.length-1, size)
}

// parseRange reads a Range header for a stream of size bytes. ok is false when everything
// is to be sent: for other units, several ranges and what is no range at all, which RFC
// 9110 has a server ignore, and for an empty stream, of which nothing else can be sent.
// The error is CodeRangeNotSatisfiable.
func parseRange(header string, size int64) (r byteRange, ok bool, err error) {
	unit, spec, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || size == 0 {
		return byteRange{}, false, nil
	}
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return byteRange{}, false, nil
	}
	if first == "" {
		length, valid := position(last)
		if !valid {
			return byteRange{}, false, nil
		}
		length = min(length, size)
		return satisfiable(byteRange{offset: size - length, length: length}, size)
	}
	begin, valid := position(first)
	if !valid {
		return byteRange{}, false, nil
	}
	end := size - 1
	if last != "" {
		if end, valid = position(last); !valid || end < begin {
			return byteRange{}, false, nil
		}
	}
	return satisfiable(byteRange{offset: begin, length: min(end, size-1) - begin + 1}, size)
}

// position reads digits. A number beyond int64 is as good as the largest one.
func position(digits string) (int64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, _ := strconv.ParseInt(digits, 10, 64) // the only error left is the range, which gives the largest
	return n, true
}

func satisfiable(r byteRange, size int64) (byteRange, bool, error) {
	if r.length <= 0 {
		return byteRange{}, false, &coordinator.Error{
			Code:   coordinator.CodeRangeNotSatisfiable,
			Detail: fmt.Sprintf("The stream has %d bytes and the range has none of them. Ask for a range that begins before its end, or for everything.", size),
			Fields: []coordinator.FieldError{{Parameter: "Range", Detail: "It lies outside of the stream."}},
		}
	}
	return r, true, nil
}
