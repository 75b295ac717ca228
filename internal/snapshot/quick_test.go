package snapshot_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// scannersAgree expects that what the quick way takes, the scanner takes too, and sees the same.
func scannersAgree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text []byte,
) {
	t.Helper()
	end, spaced, ok := snapshot.QuickValue(text)
	if !ok {
		return
	}
	wantEnd, wantSpaced, err := snapshot.CarefulValue(text)
	if err != nil || end != wantEnd || spaced != wantSpaced {
		t.Fatalf("%q\nquick: ends at %d, spaced %t\ncareful: ends at %d, spaced %t, %v", text, end, spaced, wantEnd, wantSpaced, err)
	}
}

func TestTheQuickWayTakesUsualValues(t *testing.T) {
	t.Parallel()
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"m%d":%d`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, test := range []struct {
		text   string
		spaced bool
	}{
		{`1`, false},
		{`-12.5e3`, false},
		{`0`, false},
		{`0.1`, false},
		{`true`, false},
		{`false`, false},
		{`null`, false},
		{`""`, false},
		{`"\u00e9 é \n"`, false},
		{`[]`, false},
		{`{}`, false},
		{`[{},[]]`, false},
		{`{"a":{"a":1,"b":[{"a":2}]},"b":{"a":3}}`, false},
		{`{"a": 1, "b": [1, 2]}`, true},
		{members(32), false},
		{strings.Repeat("[", 16) + "1" + strings.Repeat("]", 16), false},
		{`{"a":` + members(32) + `,"b":` + members(32) + `}`, false},
	} {
		text := []byte(test.text + "}")
		if end, spaced, ok := snapshot.QuickValue(text); end != len(test.text) || spaced != test.spaced || !ok {
			t.Errorf("%s: ends at %d, spaced %t, ok %t", test.text, end, spaced, ok)
		}
		scannersAgree(t, text)
	}
}

func TestTheQuickWayLeavesTheRestToTheScanner(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, ` 1`, `01}`, `-}`, `-01}`, `1.}`, `1e}`, `1`, `tru}`, `truE}`, `nul`, `fals`, `"`, `"abc`, "\"a\tb\"", "\"\xff\"", "\"é\xc3\"", `"\ud800"`, `"\x"`, `"abcdefgh\u12"`,
		`[`, `[1`, `[1,]`, `[,1]`, `[1}`, `[1 ]`, `[ 1]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1]`, `{"a":1,}`, `{"a" :1}`, `{"a":  1}`, `{,}`, `{1:1}`, `{"a"}`, `{"a",1}`,
		`{"a":1,"a":2}`, `{"b":1,"abcdefghi":1,"abcdefghi":2}`, `{"x":{"y":1,"y":2}}`, `{"a":[{"b":1}],"a":2}`, `{"\u0061":1}`, `{"é":1}`, `{"":1,"":2}`,
		strings.Repeat("[", 17) + strings.Repeat("1", 1) + strings.Repeat("]", 17), `}`, `]`, `,`, `:`, "[1,\t2]", "\x00",
	} {
		if end, _, ok := snapshot.QuickValue([]byte(text)); ok {
			t.Errorf("%q ends at %d", text, end)
		}
	}
}

func TestTheQuickWayAgreesWithTheScanner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(jsonText(3).Draw(t, "value"))
		if rapid.Bool().Draw(t, "canonical") {
			canonical, err := snapshot.Canonical(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			text = bytes.Clone(canonical)
		}
		text = append(text, '}')
		scannersAgree(t, text)
		for range rapid.IntRange(0, 4).Draw(t, "mutations") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			piece := rapid.SampledFrom([]string{"", `"`, `\`, "{", "}", "[", "]", ",", ":", " ", "0", "-", ".", "e", "\xff", "é", "\x1f", `"a":1,`}).Draw(t, "piece")
			cut := rapid.IntRange(0, 1).Draw(t, "cut")
			text = append(append(bytes.Clone(text[:at]), piece...), text[at+cut:]...)
			scannersAgree(t, text)
			if len(text) == 0 {
				return
			}
		}
	})
}

// FuzzQuick is TestTheQuickWayAgreesWithTheScanner for any bytes.
func FuzzQuick(f *testing.F) {
	for _, value := range awkwardValues {
		f.Add([]byte(value + "}"))
	}
	f.Add([]byte(`{"count": 12, "tags": ["a", "b"], "window": {"start": 1.5e3, "end": -0}, "open": true}}`))
	f.Add([]byte(`{"a":{"a":null,"b":[{"a":false}]},"b":{"a":"\u00e9é"},"b":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) { scannersAgree(t, text) })
}
