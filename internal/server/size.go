package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as "512", "512B", "64KiB", "16MiB" or "4GiB".
type Size int64

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}

// UnmarshalText parses a size; it refuses fractions, unknown units and overflow.
func (s *Size) UnmarshalText(text []byte) error {
	digits, shift := string(text), uint(0)
	for _, unit := range sizeUnits {
		if rest, found := strings.CutSuffix(digits, unit.suffix); found {
			digits, shift = rest, unit.shift
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a size such as 64KiB, 16MiB or 4GiB", text)
	}
	*s = Size(n << shift)
	return nil
}

// String writes the size in its largest whole unit.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && s%(1<<unit.shift) == 0 {
			return strconv.FormatInt(int64(s)>>unit.shift, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
