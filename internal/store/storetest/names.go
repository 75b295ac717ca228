package storetest

import "strings"

// awkwardNames are names that some layer likes to change or to take for something else:
// paths, separators of storage keys, patterns, numbers, letters that compare equal in a
// locale or after normalisation, and the longest. They are legal as task ids and as keys.
func awkwardNames() []string {
	return []string{
		"a/b", "../x", "%2F", "a b", `"`, `\`, "'", ":", "0", "00", "-1", "1e3", "null",
		"{x}", "*", "[a-z]", "?", "|", "#", "\U0001F600", "\u00e9", "e\u0301", "A", "a", "z", "Z",
		"\uffff", "\U00010000", "acks", "state", "parts", "job", strings.Repeat("\u00e9", 512),
	}
}
