package redisson

import (
	"strings"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// classMember is the member in which Jackson names the class of an object.
const classMember = "@class"

// Plain gives a value of the library's state map as plain JSON, without the class names:
//
//	["java.lang.Long",11]                       11, with every digit
//	["[B","AQID"]                               "AQID", base64 as the library wrote it
//	{"@class":"java.util.HashMap","3":1}        {"3":1}
//	["java.util.ArrayList",["x",2]]             ["x",2]
//	["java.util.Date",1700000000000]            1700000000000
//
// The value is checked as strictly as any other, and its numbers and strings stay as written. The
// error is an [UnreadableError].
//
// In the map, in the collections of java.util and between them, every value that is no object is
// named by its class, so an array there that holds a string and one thing more is always such a
// pair. Inside an object of another class Jackson leaves the names out where a field is of a
// final type: ["a","b"] may be a String[]. There it is a pair if only that can be meant: its
// second element is no string, or its first looks like the name of a class.
func Plain(value []byte) ([]byte, error) {
	canonical, err := snapshot.Canonical(value)
	if err != nil {
		return nil, unreadable(InvalidJSON, "%v", err)
	}
	w := walker{src: canonical, out: make([]byte, 0, len(canonical))}
	if err := w.value(true); err != nil {
		return nil, err
	}
	return w.out, nil
}

// walker copies one canonical value and leaves the class names out. src is valid and has no
// white space, so it need not look out for mistakes, nor for its end.
type walker struct {
	src []byte
	pos int
	out []byte
}

// value copies the value at pos. exact tells that Jackson has named its class.
func (w *walker) value(exact bool) error {
	switch w.src[w.pos] {
	case '{':
		return w.object(exact)
	case '[':
		return w.array(exact)
	}
	w.out = append(w.out, w.scalar()...)
	return nil
}

// scalar passes over a string, a number or a word.
func (w *walker) scalar() []byte {
	start := w.pos
	if w.src[start] == '"' {
		for w.pos++; w.src[w.pos] != '"'; w.pos++ {
			if w.src[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
		return w.src[start:w.pos]
	}
	for w.pos < len(w.src) && !strings.ContainsRune(",]}", rune(w.src[w.pos])) {
		w.pos++
	}
	return w.src[start:w.pos]
}

// object copies an object without its first member where that names the class.
func (w *walker) object(exact bool) error {
	w.pos++
	w.out = append(w.out, '{')
	for first := true; w.src[w.pos] != '}'; {
		if w.src[w.pos] == ',' {
			w.pos++
		}
		name := w.scalar()
		w.pos++ // the colon
		if first && unquoted(name) == classMember && w.src[w.pos] == '"' {
			exact = strings.HasPrefix(unquoted(w.scalar()), "java.util.") && exact
			first = false
			continue
		}
		first = false
		if w.out[len(w.out)-1] != '{' {
			w.out = append(w.out, ',')
		}
		w.out = append(append(w.out, name...), ':')
		if err := w.value(exact); err != nil {
			return err
		}
	}
	w.pos++
	w.out = append(w.out, '}')
	return nil
}

// array copies what a pair is about, or an array that is none.
func (w *walker) array(exact bool) error {
	if w.src[w.pos+1] != '"' {
		return w.elements(exact)
	}
	w.pos++
	start := len(w.out)
	name := w.scalar()
	if w.src[w.pos] == ']' || !isClass(name, w.src[w.pos+1], exact) {
		w.out = append(append(w.out, '['), name...)
		return w.rest(exact)
	}
	w.pos++ // the comma
	kind := w.src[w.pos]
	if err := w.content(unquoted(name), exact); err != nil {
		return err
	}
	if w.src[w.pos] == ']' {
		w.pos++
		return nil
	}
	// Not a pair after all. Only strings may stand together like this, in a String[].
	if kind != '"' {
		return unreadable(UnexpectedShape, "an array begins with %.100s and is no pair of a class and a value", name)
	}
	second := string(w.out[start:])
	w.out = append(append(append(w.out[:start], '['), name...), ',')
	w.out = append(w.out, second...)
	return w.rest(exact)
}

// elements copies an array, the bracket of which is at pos.
func (w *walker) elements(exact bool) error {
	w.pos++
	w.out = append(w.out, '[')
	if w.src[w.pos] != ']' {
		if err := w.value(exact); err != nil {
			return err
		}
	}
	return w.rest(exact)
}

// rest copies what follows an element of an array, up to its end.
func (w *walker) rest(exact bool) error {
	for w.src[w.pos] == ',' {
		w.pos++
		w.out = append(w.out, ',')
		if err := w.value(exact); err != nil {
			return err
		}
	}
	w.pos++
	w.out = append(w.out, ']')
	return nil
}

// content copies the value of a pair. An array is what a collection or an array of Java holds,
// and never a pair itself, whatever its elements are.
func (w *walker) content(class string, exact bool) error {
	if w.src[w.pos] != '[' {
		return w.value(exact)
	}
	if inner, nested := strings.CutPrefix(class, "["); nested && strings.HasPrefix(inner, "[") {
		return w.arrays(inner)
	}
	return w.elements(exact && (strings.HasPrefix(class, "java.util.") || class == "[Ljava.lang.Object;"))
}

// arrays copies an array of arrays of the class inner. Those of final types have no names.
func (w *walker) arrays(inner string) error {
	w.pos++
	w.out = append(w.out, '[')
	for w.src[w.pos] != ']' {
		if w.src[w.pos] == ',' {
			w.pos++
			w.out = append(w.out, ',')
		}
		var err error
		if w.src[w.pos] == '[' && !w.namesArray() {
			err = w.content(inner, false)
		} else {
			err = w.value(false)
		}
		if err != nil {
			return err
		}
	}
	w.pos++
	w.out = append(w.out, ']')
	return nil
}

// namesArray tells whether the array at pos begins with the name of a class of arrays.
func (w *walker) namesArray() bool {
	return w.src[w.pos+1] == '"' && w.src[w.pos+2] == '['
}

// isClass tells whether the string that an array begins with can be the class of what follows,
// which begins with next.
func isClass(name []byte, next byte, exact bool) bool {
	return exact || next != '"' || looksLikeClass(unquoted(name))
}

// looksLikeClass takes names as people give them in Java: packages begin with a small letter,
// classes with a capital one, and arrays have signs of their own. A name of a host is none.
func looksLikeClass(name string) bool {
	if strings.HasPrefix(name, "[") {
		return true
	}
	name, _, _ = strings.Cut(name, "<") // Jackson adds the types of an EnumMap's keys
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || dot+1 == len(name) || name[dot+1] < 'A' || name[dot+1] > 'Z' {
		return false
	}
	for part := range strings.SplitSeq(name[:dot], ".") {
		if part == "" || part[0] < 'a' || part[0] > 'z' {
			return false
		}
	}
	return true
}

// unquoted is the text of a string as far as it may be a name of Java's, which has no escapes.
func unquoted(text []byte) string { return string(text[1 : len(text)-1]) }
