package redisson_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/redisson"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// Whatever lies in a Redis, the reader refuses it or gives JSON that every other door takes.
func FuzzARecordIsReadStrictlyOrRefused(f *testing.F) {
	f.Add([]byte(written(7, true, "1", `"offsets":{"@class":"java.util.HashMap","p0":["java.lang.Long",11]}`)))
	f.Add([]byte(written(7, true, "", `"a":["[[I",[[1],[2,3]]],"b":{"@class":"x.Y","c":["d","e"]}`)))
	f.Add([]byte(kryo(checkpointClass)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		record, err := redisson.Parse(7, raw)
		if err != nil {
			if _, is := errors.AsType[*redisson.UnreadableError](err); !is {
				t.Fatalf("refused with %T", err)
			}
		}
		for i, entry := range record.State {
			if i > 0 && record.State[i-1].Key >= entry.Key {
				t.Fatalf("the keys %q and %q are not in order", record.State[i-1].Key, entry.Key)
			}
			demandCanonical(t, entry.Value)
		}
		if plain, err := redisson.Plain(raw); err == nil {
			demandCanonical(t, plain)
		}
	})
}

func demandCanonical(t *testing.T, value []byte) {
	t.Helper()
	if again, err := snapshot.Canonical(value); err != nil || string(again) != string(value) {
		t.Fatalf("%q is not canonical: %q, %v", value, again, err)
	}
}

// What the codec makes of plain values comes back as them.
func TestEveryValueOfTheCodecComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plain, typed := valueOfJava(t, 4)
		if got, err := redisson.Plain([]byte(typed)); err != nil || string(got) != plain {
			t.Fatalf("%s became %s, %v; want %s", typed, got, err, plain)
		}
	})
}

// valueOfJava draws a value of a map's, and gives it plain and as Jackson writes it.
func valueOfJava(t *rapid.T, depth int) (plain, typed string) {
	kinds := 4
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		word := rapid.SampledFrom([]string{`"java.lang.Long"`, `"[B"`, `"a\"]},["`, `true`, `1.0`, `-0`, `""`}).Draw(t, "word")
		return word, word
	case 1:
		n := rapid.SampledFrom([]string{"0", "9223372036854775807"}).Draw(t, "long")
		return n, `["java.lang.Long",` + n + `]`
	case 2:
		return `"AQID"`, `["[B","AQID"]`
	case 3:
		return `["x.Y","b"]`, `["[Ljava.lang.String;",["x.Y","b"]]`
	case 4:
		var p, q []string
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			name := `"` + strings.Repeat("k", i) + `":`
			plain, typed := valueOfJava(t, depth-1)
			p, q = append(p, name+plain), append(q, ","+name+typed)
		}
		return "{" + strings.Join(p, ",") + "}", `{"@class":"java.util.HashMap"` + strings.Join(q, "") + "}"
	case 5:
		plain, typed := valueOfJava(t, depth-1)
		return `{"f":` + plain + `,"n":1}`, `{"@class":"x.Pojo","f":` + typed + `,"n":1}`
	default:
		class := rapid.SampledFrom([]string{"java.util.ArrayList", "[Ljava.lang.Object;", "java.util.ImmutableCollections$ListN"}).Draw(t, "class")
		var p, q []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			plain, typed := valueOfJava(t, depth-1)
			p, q = append(p, plain), append(q, typed)
		}
		return "[" + strings.Join(p, ",") + "]", `["` + class + `",[` + strings.Join(q, ",") + "]]"
	}
}
