package worker

import "testing"

// FuzzWireKey sees that no two places of an engine's state have the same key.
func FuzzWireKey(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "/a", "/a/b", "a%2Fb/c", "a%252F", "a%2fb", "%", "%25/", "/", "", "//", "a//", "é/\x00"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, source, key string) {
		if k, err := parseWireKey(source); err == nil && k.String() != source {
			t.Errorf("%q is read as %+v, which is written %q", source, k, k)
		}
		for _, want := range []wireKey{{source: source}, {source: source, empty: true}, {source: source, key: key, keyed: true}} {
			got, err := parseWireKey(want.String())
			if ok := err == nil && got == want; ok != (source != "") {
				t.Errorf("%+v is written %q, which is read as %+v, %v", want, want, got, err)
			}
		}
	})
}
