package apitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// raw is a text that stands for a JSON value, which it need not be.
type raw string

// member is one of an object. Objects are lists of them, so that names may come twice.
type member struct {
	name  string // as it is written, quotes included
	value any
}

type (
	object []member
	array  []any
)

// plant makes a tree of a value as a YAML or JSON decoder gives it, where members says no
// other.
func plant(value any, members map[string]any) any {
	switch value := value.(type) {
	case map[string]any:
		var names []string
		for name := range value {
			names = append(names, name)
		}
		slices.Sort(names)
		out := object{}
		for _, name := range names {
			item, other := members[name]
			if !other {
				item = value[name]
			}
			out = append(out, member{strconv.Quote(name), plant(item, members)})
		}
		return out
	case []any:
		out := array{}
		for _, item := range value {
			out = append(out, plant(item, members))
		}
		return out
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("an example of the contract is no JSON: %v", err)) // the contract's own test would have said so
	}
	return raw(text)
}

// appendTree writes a tree.
func appendTree(dst []byte, value any) []byte {
	switch value := value.(type) {
	case object:
		dst = append(dst, '{')
		for i, m := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, m.name...)
			dst = append(dst, ':')
			dst = appendTree(dst, m.value)
		}
		return append(dst, '}')
	case array:
		dst = append(dst, '[')
		for i, item := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTree(dst, item)
		}
		return append(dst, ']')
	case raw:
		return append(dst, value...)
	}
	return dst
}

// place is where a value stands in a tree.
type place struct {
	get any
	set func(any)
}

// places are those of a tree whose root is at root.
func places(root place) []place {
	all := []place{root}
	switch value := root.get.(type) {
	case object:
		for i := range value {
			all = append(all, places(place{value[i].value, func(v any) { value[i].value = v }})...)
		}
	case array:
		for i := range value {
			all = append(all, places(place{value[i], func(v any) { value[i] = v }})...)
		}
	}
	return all
}
