package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
)

// Every value of several fields is JSON that begins with a checksum of what follows it. A disk that turns
// one bit leaves JSON that can be read more often than not, in which a number is another or a field has
// lost its name. Servers before this one wrote none, and leave it out of what they write again.

const (
	sumHead  = `{"crc":"`
	sumBytes = len(sumHead) + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errChanged = errors.New("its checksum does not fit")

// encode writes a struct.
func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	rest := append([]byte(`"`), text[1:]...)
	if len(text) > len("{}") {
		rest = append([]byte(`",`), text[1:]...)
	}
	return append(fmt.Appendf(nil, "%s%08x", sumHead, crc32.Checksum(rest, castagnoli)), rest...), nil
}

// decode reads what encode has written, or a server before this one. Nothing reads a value in another way.
func decode(text []byte, value any) error {
	if bytes.HasPrefix(text, []byte(sumHead)) {
		if len(text) < sumBytes || string(text[len(sumHead):sumBytes]) != fmt.Sprintf("%08x", crc32.Checksum(text[sumBytes:], castagnoli)) {
			return errChanged
		}
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

var fileName = regexp.MustCompile(`[0-9a-f]{32}`)

// fileOf gives the name of the file that a part has, "" for none. Of a part that cannot be read it gives
// what looks like the name, so that the file does not stay for ever when the part goes.
func fileOf(text []byte) string {
	var p part
	switch err := decode(text, &p); {
	case err == nil && p.File:
		return p.Upload
	case err == nil:
		return ""
	}
	return string(fileName.Find(text))
}
