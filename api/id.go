package api

import (
	"errors"
	"strconv"
)

// ID is a checkpoint id in a path, 0 … 2^53−1. It is a type of its own because paths are
// stricter than integers elsewhere: two spellings of one id (7, 007, +7) would be two
// resources to every cache and proxy on the way.
type ID int64

// maxID is the highest id that every JSON reader keeps exactly.
const maxID = 1<<53 - 1

var errID = errors.New("must be an id: decimal digits without sign or leading zeros, at most 9007199254740991")

// UnmarshalText takes what matches 0|[1-9][0-9]{0,15} and is in range.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > maxID || strconv.FormatInt(n, 10) != string(text) {
		return errID
	}
	*id = ID(n)
	return nil
}

// MarshalText writes the id in decimal.
func (id ID) MarshalText() ([]byte, error) {
	return strconv.AppendInt(nil, int64(id), 10), nil
}
