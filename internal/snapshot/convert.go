package snapshot

import (
	"bytes"
	"slices"
	"strconv"
)

// types are what Convert converts to.
var types = []string{"string", "integer", "number", "boolean", "object", "array"}

// KnownType reports whether Convert knows the type want: string, integer,
// number, boolean, object or array.
func KnownType(want string) bool { return slices.Contains(types, want) }

// Convert reads a canonical value as the type want, one that KnownType knows,
// where nothing is lost:
//
//   - null is null as every type;
//   - a value of the wanted type stays as written; an integer is a number whose
//     value is a whole one within int64, and comes back as plain digits (1.0
//     and 1e0 give 1, -0 gives 0);
//   - a number or boolean becomes the string of how it is written (1.50 gives
//     "1.50");
//   - a string becomes what it is the exact spelling of: a number as JSON
//     writes numbers, an integer without leading zeros, fraction or exponent
//     ("007" and "1.0" are refused), true or false.
//
// Everything else is refused with a *TypeError. The result may be value itself.
func Convert(value []byte, want string) ([]byte, error) {
	actual := Type(value)
	refuse := func(why string) ([]byte, error) {
		return nil, &TypeError{Actual: actual, Wanted: want, Detail: why}
	}
	if !KnownType(want) {
		return refuse("the type must be one of string, integer, number, boolean, object and array")
	}
	if actual == "null" || actual == want {
		return value, nil
	}
	switch {
	case want == "string" && (actual == "number" || actual == "boolean"):
		return slices.Concat([]byte{'"'}, value, []byte{'"'}), nil
	case want == "integer" && actual == "number":
		digits, problem := wholeNumber(value)
		if problem != "" {
			return refuse(problem)
		}
		return digits, nil
	case actual == "string" && want != "object" && want != "array":
		text := appendUnescaped(nil, value[1:len(value)-1])
		if !spells(text, want) {
			return refuse("the string is not the exact spelling of " + withArticle(want))
		}
		return text, nil
	}
	return refuse(withArticle(actual) + " cannot be read as " + withArticle(want) + " without loss")
}

// spells reports whether text is exactly how a value of type want is written.
func spells(text []byte, want string) bool {
	switch want {
	case "boolean":
		return string(text) == "true" || string(text) == "false"
	case "integer":
		n, err := strconv.ParseInt(string(text), 10, 64)
		return err == nil && strconv.FormatInt(n, 10) == string(text)
	case "number":
		if len(text) == 0 || text[0] != '-' && !isDigit(text[0]) {
			return false
		}
		end, problem := scanNumber(text, 0)
		return problem == "" && end == len(text)
	}
	return false
}

// wholeNumber writes a JSON number as the digits of an int64, or says why that
// would lose something. It works on the digits, because a float64 cannot hold
// every int64, and never expands an exponent beyond the 19 digits of one.
func wholeNumber(number []byte) (digits []byte, problem string) {
	const (
		fraction = "the number has a fraction"
		tooLarge = "the number is outside of the range of a 64-bit integer"
	)
	rest, negative := bytes.CutPrefix(number, []byte("-"))
	exponent := 0
	if at := bytes.IndexAny(rest, "eE"); at >= 0 {
		// The error is that of a number out of range, for which Atoi answers
		// the nearest one it can hold: still far beyond 19 digits.
		exponent, _ = strconv.Atoi(string(rest[at+1:]))
		rest = rest[:at]
	}
	whole, part, _ := bytes.Cut(rest, []byte("."))
	digits = slices.Concat(whole, part)
	significant := bytes.TrimRight(digits, "0")
	zeros := len(digits) - len(significant)
	significant = bytes.TrimLeft(significant, "0")
	if len(significant) == 0 {
		return []byte("0"), ""
	}
	// The value is significant × 10^(exponent + zeros − len(part)); compare
	// without adding, since exponent may be the largest int there is.
	const longest = len("9223372036854775808")
	shift := zeros - len(part)
	switch {
	case exponent < -shift:
		return nil, fraction
	case exponent > longest-len(significant)-shift:
		return nil, tooLarge
	}
	text := make([]byte, 0, longest+1)
	if negative {
		text = append(text, '-')
	}
	text = append(text, significant...)
	text = append(text, bytes.Repeat([]byte("0"), exponent+shift)...)
	if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
		return nil, tooLarge
	}
	return text, ""
}
