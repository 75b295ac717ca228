package snapshot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestObjectSplitsIntoMembersInOrder(t *testing.T) {
	t.Parallel()
	got, err := snapshot.Object([]byte(` { "b" : 1.0 , "a":{"x" : [ 1, "}," ] },"\u00e9\n":"\u00e9" , " ":null } `))
	if err != nil {
		t.Fatal(err)
	}
	want := []snapshot.Member{
		{Name: "b", Value: []byte(`1.0`)},
		{Name: "a", Value: []byte(`{"x":[1,"},"]}`)},
		{Name: "é\n", Value: []byte(`"\u00e9"`)},
		{Name: " ", Value: []byte(`null`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong members (-want +got):\n%s", diff)
	}
}

func TestObjectOfNothingHasNoMembers(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"{}", " {\n} "} {
		if got, err := snapshot.Object([]byte(raw)); err != nil || len(got) != 0 {
			t.Errorf("%q: got %v, %v", raw, got, err)
		}
	}
}

func TestObjectRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", coordinator.MaxKeyBytes+1)
	tests := []struct {
		name, raw string
		want      error
	}{
		{"an array", `[]`, &snapshot.EntryError{Detail: "the value must be an object, and is an array"}},
		{"null", `null`, &snapshot.EntryError{Detail: "the value must be an object, and is null"}},
		{"a string", `"a"`, &snapshot.EntryError{Detail: "the value must be an object, and is a string"}},
		{"an empty key", `{"":1}`, &snapshot.EntryError{Pointer: "/", Detail: "a key must not be empty"}},
		{"a key that is too long", `{"a":1,"` + long + `":1}`, &snapshot.EntryError{Detail: "a key must not be longer than 1024 bytes"}},
		{"a repeated key", `{"a":1,"a":1}`, &snapshot.SyntaxError{Pointer: "/a", Offset: 7, Detail: `member name "a" appears twice`}},
		{"a mistake in a later value", `{"a":1,"b":[}`, &snapshot.SyntaxError{Pointer: "/b/0", Offset: 12, Detail: "unexpected character } where a value should begin"}},
		{"nothing", ``, &snapshot.SyntaxError{Detail: "there is no value, only an empty text"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := snapshot.Object([]byte(test.raw))
			if got != nil {
				t.Errorf("got members %v", got)
			}
			if diff := cmp.Diff(test.want, err); diff != "" {
				t.Errorf("wrong error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectCountsDepthInsideEachValue(t *testing.T) {
	t.Parallel()
	object := func(depth int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	if _, err := snapshot.Object(object(snapshot.MaxDepth)); err != nil {
		t.Errorf("a value as deep as allowed: %v", err)
	}
	var syntax *snapshot.SyntaxError
	if _, err := snapshot.Object(object(snapshot.MaxDepth + 1)); !errors.As(err, &syntax) {
		t.Errorf("a value deeper than allowed: %v", err)
	}
}

func TestObjectReaderBoundsEachValue(t *testing.T) {
	t.Parallel()
	entries, err := snapshot.NewObjectReader([]byte(`{"a": "12345678" ,"b":"123456789"}`), 10)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := entries.Next(); err != nil || string(entry.Value) != `"12345678"` || entry.Line != 1 {
		t.Fatalf("a value as long as allowed: %v, %v", entry, err)
	}
	_, err = entries.Next()
	want := &snapshot.TooLargeError{What: "value", Max: 10, Detail: "one value is larger than 10 bytes"}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
}

// TestBothReadersGiveTheSameEntries renders one list of entries as a JSON
// object and as NDJSON.
func TestBothReadersGiveTheSameEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var object, lines strings.Builder
		object.WriteString("{")
		seen := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			key := jsonString().Filter(func(s string) bool { return plain(s) != "" && !seen[plain(s)] }).Draw(t, "key")
			seen[plain(key)] = true
			value := strings.NewReplacer("\n", " ", "\r", " ").Replace(jsonText(2).Draw(t, "value"))
			if object.Len() > 1 {
				object.WriteString(", ")
			}
			fmt.Fprintf(&object, "%s : %s", key, value)
			fmt.Fprintf(&lines, "{%q: %s, %q: %s}\n", "key", key, "value", value)
		}
		object.WriteString("}")

		members, err := snapshot.NewObjectReader([]byte(object.String()), snapshot.MaxValue)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(members)
		if err != nil {
			t.Fatal(err)
		}
		want, err := collect(snapshot.NewLineReader(strings.NewReader(lines.String()), "t", snapshot.MaxValue))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("from the lines (-) and from the object (+):\n%s", diff)
		}
	})
}

// line is an entry that may be kept.
type line struct {
	Key, Value string
	Line       int
}

func collect(entries interface {
	Next() (snapshot.Entry, error)
},
) ([]line, error) {
	var all []line
	for {
		entry, err := entries.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, line{Key: string(entry.Key), Value: string(entry.Value), Line: entry.Line})
	}
}

// FuzzObject: the members of an object, put together again, are the object.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[{"c":null}]}`, ` { "\u0061" : "\n" , "é":{} } `, `{"a":1,"\u0061":2}`, `[]`, `{"":1}`, `{"a":1,}`, `{"a":{"b":"}"}}x`, `{"a\"":"\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole, canonical := snapshot.Canonical(raw)
		members, err := snapshot.Object(raw)
		if err != nil {
			return
		}
		if canonical != nil {
			t.Fatalf("%q is an object and no JSON: %v", raw, canonical)
		}
		again := []byte{'{'}
		for i, member := range members {
			if err := coordinator.CheckKey(member.Name); err != nil {
				t.Fatalf("%q has the key %q: %v", raw, member.Name, err)
			}
			if value, err := snapshot.Canonical(member.Value); err != nil || !bytes.Equal(value, member.Value) {
				t.Fatalf("%q has the value %q: %v", raw, member.Value, err)
			}
			name, err := json.Marshal(member.Name)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				again = append(again, ',')
			}
			again = append(append(append(again, name...), ':'), member.Value...)
		}
		// Names may be escaped in another way: both are compared as encoding/json has them.
		var want, got any
		if err := json.Unmarshal(append(again, '}'), &got); err != nil {
			return // a number beyond float64
		}
		if err := json.Unmarshal(whole, &want); err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%q comes apart as %s: %v", raw, again, err)
		}
	})
}
