package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestFieldsAreTheMembersAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	got, ok := snapshot.AppendFields(nil, []byte(` { "a" : [1, 2] ,"é":"\u0041", "" : {} } `), snapshot.MaxDepth)
	want := []snapshot.Field{{[]byte("a"), []byte("[1, 2]")}, {[]byte("é"), []byte(`"\u0041"`)}, {[]byte(""), []byte("{}")}}
	if !ok || !cmp.Equal(want, got) {
		t.Errorf("got %q, %t", got, ok)
	}
	if got, ok := snapshot.AppendFields(nil, []byte(`{}`), 1); !ok || len(got) != 0 {
		t.Errorf("an empty object gave %q, %t", got, ok)
	}
	if got, ok := snapshot.AppendFields(nil, []byte(`{"a":1,"b":2,"c":3,"d":4,"e":5}`), 1); !ok || len(got) != snapshot.MaxFields {
		t.Errorf("as many as it reads gave %q, %t", got, ok)
	}
}

func TestFieldsOfUnusualTextsAreNotRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "[]", `"a"`, "1", `{`, `{}x`, `{"a":1}{}`, `{"a":1,"a":2}`, `{"\u0061":1}`, `{"a":[[]]}`, `{"a":01}`, "{\"a\":\"\xff\"}",
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}`, "\xef\xbb\xbf{}",
	} {
		if got, ok := snapshot.AppendFields(nil, []byte(text), 2); ok {
			t.Errorf("%q gave %q", text, got)
		}
	}
}
