package snapshot

// Field is a member of a JSON object as it stands in the text: the name without its
// quotes, the value with its white space.
type Field struct{ Name, Value []byte }

// MaxFields is how many members AppendFields reads at most.
const MaxFields = maxMembers - 1

// AppendFields appends the members of a small JSON object in the order in which they are
// written. ok is false for whatever it does not read: a text that Canonical would refuse,
// with maxDepth instead of MaxDepth, another value than an object, more than MaxFields
// members, and a name with an escape. It is for the one who asks often and can ask again
// in another way, as it does not say why. What it appends are parts of raw.
func AppendFields(dst []Field, raw []byte, maxDepth int) (fields []Field, ok bool) {
	fields, rest, ok := CutFields(dst, raw, maxDepth)
	return fields, ok && skipSpace(rest, 0) == len(rest)
}

// CutFields is AppendFields for the object that raw begins with, and gives what follows it.
func CutFields(dst []Field, raw []byte, maxDepth int) (fields []Field, rest []byte, ok bool) {
	s, _ := scanners.Get().(*scanner)
	defer func() {
		s.release()
		scanners.Put(s)
	}()
	s.maxDepth = maxDepth
	start := skipSpace(raw, 0)
	if start == len(raw) || raw[start] != '{' {
		return dst, nil, false
	}
	end, err := s.value(raw, start)
	if err != nil || len(s.members) > MaxFields {
		return dst, nil, false
	}
	for _, m := range s.members {
		if m.escaped {
			return dst, nil, false
		}
		dst = append(dst, Field{Name: raw[m.nameStart:m.nameEnd], Value: raw[m.start:m.end:m.end]})
	}
	return dst, raw[end:], true
}
