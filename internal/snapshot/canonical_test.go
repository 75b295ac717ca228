package snapshot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// awkwardValues are valid and compact, and lose something in the hands of a
// decoder that goes through float64 or re-encodes strings.
var awkwardValues = []string{
	`1.0`, `1`, `1e0`, `-0`, `0.1`, `9007199254740993`, `18446744073709551615`, `1e21`, `null`, `""`, `{}`, `[]`,
	`true`, `false`, `-0.0`, `1E+2`, `1e-400`, `"\u00e9\/"`, `"é"`, `"e\u0301"`, `"\ud83d\ude00"`, `"😀"`, `"\u0000"`,
	"\"\u007f\u2028\"", `"<&>"`, `{"b":1,"a":2}`, `{"":{"":[]}}`, `{"key":"x","Key":"y"}`, `"\\"`, `"\\\""`, `[{"a":1},{"a":1}]`,
	`{"a":1,"b":2,"a\":1,\"b":3}`, `"exactly8"`, `"sixteen bytes it"`, `"1234567\n"`, `{"a":"b c","d":"\" e"}`,
}

func TestCanonicalKeepsEveryByteOfACompactValue(t *testing.T) {
	t.Parallel()
	for _, value := range awkwardValues {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			raw := []byte(value)
			got, err := snapshot.Canonical(raw)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if string(got) != value {
				t.Errorf("got %s", got)
			}
			if unsafe.SliceData(got) != unsafe.SliceData(raw) {
				t.Error("a value that is compact already was copied")
			}
			spaced, err := snapshot.Canonical([]byte(" \r\n\t" + value + "\n "))
			if err != nil || string(spaced) != value {
				t.Errorf("with white space around it: got %s, %v", spaced, err)
			}
		})
	}
}

func TestCanonicalRemovesOnlyInsignificantWhiteSpace(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"{ }":      `{}`,
		"[\n]":     `[]`,
		"[1 ,\t2]": `[1,2]`,
		" { \"a b\" : \"c  d\" , \"e\\\" \" :\r\n1}": `{"a b":"c  d","e\" ":1}`,
		`{"a": [ {"b": " \\" } ] }`:                  `{"a":[{"b":" \\"}]}`,
	} {
		raw := []byte(raw)
		before := string(raw)
		got, err := snapshot.Canonical(raw)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", raw, got, err)
		}
		if string(raw) != before {
			t.Errorf("%s was changed to %s", before, raw)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	t.Parallel()
	const early = "the value ends too early"
	tests := []struct {
		name, raw, pointer string
		offset             int64
		detail             string
	}{
		{"nothing", "", "", 0, "there is no value, only an empty text"},
		{"only white space", " \n", "", 2, "there is no value, only an empty text"},
		{"a byte-order mark", "\ufeff{}", "", 0, "a byte-order mark before the value; send plain UTF-8"},
		{"a byte-order mark after white space", " \ufeff{}", "", 1, "a byte-order mark before the value; send plain UTF-8"},
		{"a byte-order mark inside", "[\ufeff1]", "/0", 1, "a byte-order mark where a value should begin"},
		{"two values", "1 2", "", 2, "there is more after the end of the value"},
		{"a closing brace too many", "{}}", "", 2, "there is more after the end of the value"},
		{"a repeated name", `{"a":1,"b":2,"a":3}`, "/a", 13, `member name "a" appears twice`},
		{"a repeated name far down", `[0,{"x":{"a":1,"a":3}}]`, "/1/x/a", 15, `member name "a" appears twice`},
		{"a name repeated as an escape", `{"a":1,"\u0061":3}`, "/a", 7, `member name "a" appears twice`},
		{"an escaped name repeated plainly", `{"\u0061\n":1,"b":0,"a\n":3}`, "/a\n", 20, `member name "a\n" appears twice`},
		{"a pair of surrogates repeated plainly", `{"\ud83d\ude00":1,"😀":3}`, "/😀", 18, `member name "😀" appears twice`},
		{"a repeated empty name", `{"":1,"":3}`, "/", 6, `member name "" appears twice`},
		{"a pointer that needs escapes", `{"a/b~":{"c":1,"c":1}}`, "/a~1b~0/c", 15, `member name "c" appears twice`},
		{"bytes that are not UTF-8", "{\"a\":\"b\xffc\"}", "/a", 7, "the string has bytes that are not UTF-8"},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", "", 1, "the string has bytes that are not UTF-8"},
		{"an overlong encoding", "\"\xc0\x80\"", "", 1, "the string has bytes that are not UTF-8"},
		{"UTF-8 cut off by the quote", "\"12345678\xc3\"", "", 9, "the string has bytes that are not UTF-8"},
		{"a name that is not UTF-8", "{\"\xff\":1}", "", 2, "the string has bytes that are not UTF-8"},
		{"a lone high surrogate", `["\ud83d"]`, "/0", 2, `the string has a lone surrogate, \ud83d without its other half`},
		{"a lone low surrogate", `"\uDE00"`, "", 1, `the string has a lone surrogate, \ude00 without its other half`},
		{"a pair the wrong way round", `"\ude00\ud83d"`, "", 1, `the string has a lone surrogate, \ude00 without its other half`},
		{"a high surrogate before another escape", `"\ud83d\n12345"`, "", 1, `the string has a lone surrogate, \ud83d without its other half`},
		{"a raw control character", "\"a\x01\"", "", 2, `the string has a raw control character; write it as \u0001`},
		{"a raw control character in the midst", "\"abc\x1fdefghijklmn\"", "", 4, `the string has a raw control character; write it as \u001f`},
		{"a raw line feed", "\"12345678\n\"", "", 9, `the string has a raw control character; write it as \u000a`},
		{"an unknown escape", `"\x41"`, "", 1, `the string has a backslash that begins no escape; write \\ for a backslash`},
		{"an escape without digits", `"\u00g0"`, "", 1, `the string has a \u without four hexadecimal digits`},
		{"a string without end", `"abc`, "", 4, early},
		{"a string that ends in a backslash", `"abc\`, "", 5, early},
		{"a string that ends in an escape", `"abc\u00`, "", 8, early},
		{"a string closed by an escaped quote", `"abc\"`, "", 6, early},
		{"an array without end", `[1`, "", 2, early},
		{"an array that ends after a comma", `[1,`, "/1", 3, early},
		{"an object without end", `{"a":1`, "", 6, early},
		{"an object that ends after its brace", `{`, "", 1, early},
		{"an object that ends after a name", `{"a"`, "/a", 4, early},
		{"an object that ends after a colon", `{"a":`, "/a", 5, early},
		{"an object that ends after a comma", `{"a":1,`, "", 7, early},
		{"a literal without end", `tru`, "", 3, early},
		{"a sign alone", `-`, "", 1, early},
		{"a point without digits", `1.`, "", 2, early},
		{"an exponent without digits", `1e+`, "", 3, early},
		{"a comma at the end of an array", `[1,]`, "/1", 3, "unexpected character ] where a value should begin"},
		{"a comma at the end of an object", `{"a":1,}`, "", 7, "unexpected character } where a member name should begin"},
		{"a missing comma in an array", `[1 2]`, "", 3, "unexpected character 2 where a comma or ] should be"},
		{"a missing comma in an object", `{"a":1 "b":2}`, "", 7, "unexpected character \" where a comma or } should be"},
		{"a missing colon", `{"a" 1}`, "/a", 5, "unexpected character 1 where a colon should be"},
		{"an array closed by a brace", `[1}`, "", 2, "unexpected character } where a comma or ] should be"},
		{"an object closed by a bracket", `{"a":1]`, "", 6, "unexpected character ] where a comma or } should be"},
		{"a name without quotes", `{a:1}`, "", 1, "unexpected character a where a member name should begin"},
		{"single quotes", `'a'`, "", 0, "unexpected character ' where a value should begin"},
		{"NaN", `NaN`, "", 0, "unexpected character N where a value should begin"},
		{"a misspelt literal", `nul1`, "", 3, "unexpected character 1 in what began like null"},
		{"a plus sign", `+1`, "", 0, "unexpected character + where a value should begin"},
		{"a leading zero", `[01]`, "/0", 2, "a number must not begin with 0 and go on with digits"},
		{"a negative leading zero", `-00`, "", 2, "a number must not begin with 0 and go on with digits"},
		{"a leading point", `.5`, "", 0, "unexpected character . where a value should begin"},
		{"a point before an exponent", `1.e3`, "", 2, "unexpected character e where a number should have a digit"},
		{"a hexadecimal number", `0x1`, "", 1, "there is more after the end of the value"},
		{"a comment", `/**/1`, "", 0, "unexpected character / where a value should begin"},
		{"a byte of zero", "\x00", "", 0, "unexpected byte 0x00 where a value should begin"},
		{"a no-break space", "\u00a01", "", 0, "unexpected byte 0xc2 where a value should begin"},
		{"a form feed", "\f1", "", 0, "unexpected byte 0x0c where a value should begin"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := snapshot.Canonical([]byte(test.raw))
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			want := &snapshot.SyntaxError{Pointer: test.pointer, Offset: test.offset, Detail: test.detail}
			if diff := cmp.Diff(want, err); diff != "" {
				t.Errorf("wrong error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCanonicalBoundsNesting(t *testing.T) {
	t.Parallel()
	nested := func(open, closing string, depth int) []byte {
		return []byte(strings.Repeat(open, depth) + "1" + strings.Repeat(closing, depth))
	}
	for open, closing := range map[string]string{"[": "]", `{"a":`: "}"} {
		raw := nested(open, closing, snapshot.MaxDepth)
		if got, err := snapshot.Canonical(raw); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s nested to the limit: %v", open, err)
		}
		var syntax *snapshot.SyntaxError
		_, err := snapshot.Canonical(nested(open, closing, snapshot.MaxDepth+1))
		if !errors.As(err, &syntax) || syntax.Detail != "nesting deeper than 1000 levels" || syntax.Offset != int64(len(open)*snapshot.MaxDepth) {
			t.Errorf("%s nested beyond the limit: %v", open, err)
		}
	}
	// Closing makes room again.
	siblings := `[` + strings.Repeat(string(nested("[", "]", snapshot.MaxDepth-1))+",", 3) + `0]`
	if _, err := snapshot.Canonical([]byte(siblings)); err != nil {
		t.Errorf("siblings nested to the limit: %v", err)
	}
}

func TestCanonicalShowsLongNamesInPart(t *testing.T) {
	t.Parallel()
	long := "x" + strings.Repeat("é", 600) // 1201 bytes, a rune across the 64th
	raw := fmt.Sprintf(`{"a":{%q:{"b":{},"b":1}}}`, long)
	_, err := snapshot.Canonical([]byte(raw))
	var syntax *snapshot.SyntaxError
	if !errors.As(err, &syntax) || syntax.Pointer != "/a" {
		t.Fatalf("the pointer should end at the last value that fits: %v", err)
	}
	raw = fmt.Sprintf(`{%q:1,%q:2}`, long, long)
	_, err = snapshot.Canonical([]byte(raw))
	want := `member name "` + long[:63] + `…" appears twice`
	if !errors.As(err, &syntax) || syntax.Detail != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestCanonicalFindsARepeatedNameInObjectsOfEverySize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 15, 16, 17, 18, 47, 48, 49, 50, 1000, 20_000} {
		for _, escaped := range []bool{false, true} {
			name := func(i int) string {
				if escaped && i%3 == 0 {
					return fmt.Sprintf(`\u006eame%d`, i)
				}
				return fmt.Sprintf("name%d", i)
			}
			var b strings.Builder
			b.WriteString(`{"outer":0`)
			for i := range size {
				// The inner objects repeat names of each other, and of the outer.
				fmt.Fprintf(&b, `,"%s":{"outer":[],"name0":1}`, name(i))
			}
			if _, err := snapshot.Canonical([]byte(b.String() + "}")); err != nil {
				t.Fatalf("%d distinct names: %v", size, err)
			}
			for _, repeated := range []int{0, size / 2, size - 1} {
				raw := fmt.Sprintf(`%s,"name%d":1}`, b.String(), repeated)
				_, err := snapshot.Canonical([]byte(raw))
				var syntax *snapshot.SyntaxError
				if !errors.As(err, &syntax) || syntax.Pointer != fmt.Sprintf("/name%d", repeated) {
					t.Fatalf("name %d of %d repeated: %v", repeated, size, err)
				}
			}
		}
	}
}

func TestCanonicalOfAnyValueIsWhatTheStandardLibraryCompactsTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := jsonText(4).Draw(t, "raw")
		got, err := snapshot.Canonical([]byte(raw))
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(raw)); err != nil {
			t.Fatalf("the generator made no JSON: %v", err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got  %s\nwant %s", got, want.Bytes())
		}
		again, err := snapshot.Canonical(got)
		if err != nil || !bytes.Equal(again, got) || unsafe.SliceData(again) != unsafe.SliceData(got) {
			t.Fatalf("not idempotent: %s, %v", again, err)
		}
	})
}

// TestCanonicalOfDamagedValuesAgreesWithJSONText cuts, repeats and overwrites
// bytes of valid values, which reaches deeper than random bytes do.
func TestCanonicalOfDamagedValuesAgreesWithJSONText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(jsonText(3).Draw(t, "raw"))
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			at := rapid.IntRange(0, len(raw)).Draw(t, "at")
			to := rapid.IntRange(at, min(len(raw), at+8)).Draw(t, "to")
			piece := rapid.SampledFrom([]string{"", "a", `"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", "e", ".", " ", "\xff", "\x1f", `\ud800`, `"a":1,`}).Draw(t, "piece")
			raw = []byte(string(raw[:at]) + piece + string(raw[to:]))
		}
		agree(t, raw)
	})
}

// agree compares Canonical with an independent strict reader.
func agree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, raw []byte,
) {
	t.Helper()
	before := bytes.Clone(raw)
	got, err := snapshot.Canonical(raw)
	if !bytes.Equal(raw, before) {
		t.Fatalf("the input %q was changed to %q", before, raw)
	}
	want := jsontext.Value(bytes.Clone(raw))
	valid := want.IsValid() && depth(want) <= snapshot.MaxDepth
	if valid != (err == nil) {
		t.Fatalf("%q: jsontext says %v, we say %v", raw, valid, err)
	}
	if err != nil {
		var syntax *snapshot.SyntaxError
		if !errors.As(err, &syntax) {
			t.Fatalf("%q: error of another type: %v", raw, err)
		}
		if syntax.Offset < 0 || syntax.Offset > int64(len(raw)) || syntax.Detail == "" || len(syntax.Pointer) > 1024 {
			t.Fatalf("%q: odd error %#v", raw, syntax)
		}
		return
	}
	if err := want.Compact(); err != nil {
		t.Fatalf("%q: compact: %v", raw, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%q: got %q, want %q", raw, got, want)
	}
}

// depth is how deep valid JSON is nested.
func depth(value []byte) int {
	deepest, open, inside := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

func FuzzCanonical(f *testing.F) {
	for _, value := range awkwardValues {
		f.Add([]byte(value))
	}
	for _, seed := range []string{`{"a":1,"\u0061":2}`, "\xef\xbb\xbf1", `"\ud800"`, `[1,]`, "01", " [ { } ] ", "\"\xed\xa0\x80\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { agree(t, raw) })
}

func TestTypeNamesEveryKindOfValue(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a"`: "string", `1`: "number", `-1`: "number", `true`: "boolean", `false`: "boolean", `{}`: "object", `[]`: "array", `null`: "null", ``: "",
	} {
		if got := snapshot.Type([]byte(value)); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}
