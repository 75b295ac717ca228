package engine

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Hashes that are equal, wholly or in all but the last bits, are too rare to wait for.
func TestATrieKeepsKeysOfEqualHashesApart(t *testing.T) {
	t.Parallel()
	for name, hash := range map[string]func(int) uint64{
		"all equal":            func(int) uint64 { return 1 },
		"equal in pairs":       func(key int) uint64 { return uint64(key/2) << 58 },
		"different at the end": func(key int) uint64 { return uint64(key) << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				tr, model := newTrie[int, int](), map[int]int{}
				tr.hash = hash
				frozen, was := tr.freeze(), map[int]int{}
				for range rapid.IntRange(1, 60).Draw(r, "steps") {
					key := rapid.IntRange(0, 12).Draw(r, "key")
					switch rapid.IntRange(0, 4).Draw(r, "what") {
					case 0, 1:
						model[key] = rapid.Int().Draw(r, "value")
						tr.set(key, model[key])
					case 2:
						delete(model, key)
						tr.remove(key)
					case 3:
						frozen, was = tr.freeze(), maps.Clone(model)
					case 4:
						tr, model = frozen.thaw(), maps.Clone(was)
					}
					for i := range 13 {
						got, ok := tr.get(i)
						if want, has := model[i]; ok != has || got != want {
							r.Fatalf("%d is %d, %v; want %d, %v", i, got, ok, want, has)
						}
					}
					for of, pair := range map[string]struct {
						tr   *trie[int, int]
						want map[int]int
					}{"now": {&tr, model}, "frozen": {&frozen, was}} {
						if diff := cmp.Diff(pair.want, maps.Collect(pair.tr.all)); diff != "" || pair.tr.len() != len(pair.want) {
							r.Fatalf("%s, of length %d:\n%s", of, pair.tr.len(), diff)
						}
					}
				}
				for key := range model {
					tr.remove(key)
				}
				if tr.root != nil {
					r.Fatal("an empty trie keeps nodes")
				}
			})
		})
	}
}

func TestAnEmptiedTrieFreesItsNodes(t *testing.T) {
	t.Parallel()
	tr := newTrie[int, int]()
	for i := range 10_000 {
		tr.set(i, i)
	}
	for i := range 10_000 {
		tr.remove(i)
	}
	if tr.root != nil || tr.len() != 0 {
		t.Error("an empty trie keeps nodes")
	}
}
