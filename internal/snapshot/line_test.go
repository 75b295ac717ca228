package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestLineReaderReadsEntries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       []line
	}{
		{"none of an empty body", "", nil},
		{"none of a body of blank lines", "\n \r\n\t", nil},
		{"a line without a line feed", `{"key":"a","value":1}`, []line{{"a", "1", 1}}},
		{"a line with a line feed", `{"key":"a","value":1}` + "\n", []line{{"a", "1", 1}}},
		{"members in any order", `{"value":1,"taskId":"task-1","key":"a"}`, []line{{"a", "1", 1}}},
		{"members named by escapes", `{"\u0076alue":1,"ke\u0079":"a"}`, []line{{"a", "1", 1}}},
		{"white space", " {\t\"key\" : \"a b\" , \"value\" : { \"x\" : [ 1 , \" \" ] } , \"taskId\":\"task-1\" } \r\n", []line{{"a b", `{"x":[1," "]}`, 1}}},
		{"blank lines between, which count", "\n{\"key\":\"a\",\"value\":1}\r\n \n\n{\"key\":\"b\",\"value\":2}\n\n", []line{{"a", "1", 2}, {"b", "2", 5}}},
		{"escaped keys", `{"key":"\u00e9\"\\\n\ud83d\ude00","value":"\u00e9"}`, []line{{"é\"\\\n😀", `"\u00e9"`, 1}}},
		{"a key of white space", `{"key":" ","value":1}`, []line{{" ", "1", 1}}},
		{"an escaped taskId", `{"taskId":"\u0074ask-1","key":"a","value":1}`, []line{{"a", "1", 1}}},
		{"a value that is null", `{"key":"a","value":null}`, []line{{"a", "null", 1}}},
		{"a value with the names of a line", `{"key":"a","value":{"key":1,"value":2,"taskId":3,"x":4}}`, []line{{"a", `{"key":1,"value":2,"taskId":3,"x":4}`, 1}}},
		{"keys that repeat, which are the KeySet's business", "{\"key\":\"a\",\"value\":1}\n{\"key\":\"a\",\"value\":2}", []line{{"a", "1", 1}, {"a", "2", 2}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for name, source := range map[string]io.Reader{
				"at once":       strings.NewReader(test.body),
				"byte by byte":  iotest.OneByteReader(strings.NewReader(test.body)),
				"with the end":  iotest.DataErrReader(strings.NewReader(test.body)),
				"half and half": iotest.HalfReader(strings.NewReader(test.body)),
			} {
				got, err := collect(snapshot.NewLineReader(source, "task-1", snapshot.MaxValue))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s: wrong entries (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestLineReaderKeepsAwkwardValues(t *testing.T) {
	t.Parallel()
	var body []byte
	for i, value := range awkwardValues {
		body = snapshot.AppendEntry(body, "task-1", fmt.Sprint(i), []byte(value))
	}
	got, err := collect(snapshot.NewLineReader(bytes.NewReader(body), "task-1", snapshot.MaxValue))
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range awkwardValues {
		if got[i].Value != value || got[i].Line != i+1 {
			t.Errorf("%s came back as %+v", value, got[i])
		}
	}
}

func TestLineReaderRefuses(t *testing.T) {
	t.Parallel()
	good := "{\"key\":\"good\",\"value\":1}\n" // 25 bytes
	syntax := func(pointer string, offset int64, detail string) error {
		return &snapshot.SyntaxError{Pointer: pointer, Line: 2, Offset: 25 + offset, Detail: detail}
	}
	entry := func(pointer, detail string) error {
		return &snapshot.EntryError{Pointer: pointer, Line: 2, Detail: detail}
	}
	long := strings.Repeat("k", coordinator.MaxKeyBytes+1)
	tests := []struct {
		name, line string
		want       error
	}{
		{"a line that is no object", `[1]`, entry("", "a line must be an object, and is an array")},
		{"a bare value", `1`, entry("", "a line must be an object, and is a number")},
		{"an empty object", `{}`, entry("", "the member key is missing")},
		{"a line without key", `{"value":1}`, entry("", "the member key is missing")},
		{"a line without value", `{"key":"a"}`, entry("", "the member value is missing")},
		{"an empty key", `{"key":"","value":1}`, entry("/key", "a key must not be empty")},
		{"a key that is too long", `{"key":"` + long + `","value":1}`, entry("/key", "a key must not be longer than 1024 bytes")},
		{"a key that is a number", `{"key":1,"value":1}`, entry("/key", "key must be a string, and is a number")},
		{"a key that is null", `{"key":null,"value":1}`, entry("/key", "key must be a string, and is null")},
		{"another task", `{"taskId":"task-2","key":"a","value":1}`, entry("/taskId", `taskId "task-2" is not the task of this upload, "task-1"`)},
		{"an empty taskId", `{"taskId":"","key":"a","value":1}`, entry("/taskId", `taskId "" is not the task of this upload, "task-1"`)},
		{"a taskId that is no string", `{"taskId":null,"key":"a","value":1}`, entry("/taskId", "taskId must be a string, and is null")},
		{"an unknown member", `{"key":"a","value":1,"ttl":5}`, entry("/ttl", `unknown member "ttl"; a line has key, value and optionally taskId`)},
		{"a name in other case", `{"Key":"a","value":1}`, entry("/Key", `unknown member "Key"; a line has key, value and optionally taskId`)},
		{"many unknown members", `{"taskId":"task-1","key":"a","value":1,"b":{"c":2},"d":[3]}`, entry("/b", `unknown member "b"; a line has key, value and optionally taskId`)},
		{"an escaped unknown member", `{"k\u00e9/y":1}`, entry("/ké~1y", `unknown member "ké/y"; a line has key, value and optionally taskId`)},
		{"a repeated member", `{"key":"a","value":1,"key":"b"}`, syntax("/key", 21, `member name "key" appears twice`)},
		{"a repeated name in a value", `{"key":"a","value":{"x":{"y":1,"y":2}}}`, syntax("/value/x/y", 31, `member name "y" appears twice`)},
		{"two objects on a line", `{"key":"a","value":1}{"key":"b","value":1}`, syntax("", 21, "there is more after the end of the line's object")},
		{"an object over two lines", "{\"key\":\"a\",\n\"value\":1}", syntax("", 11, "the value ends too early")},
		{"a byte-order mark", "\ufeff" + `{"key":"a","value":1}`, syntax("", 0, "a byte-order mark before the value; send plain UTF-8")},
		{"bytes that are not UTF-8", "{\"key\":\"a\",\"value\":\"\xff\"}", syntax("/value", 20, "the string has bytes that are not UTF-8")},
		{"a key that is not UTF-8", "{\"key\":\"\xff\",\"value\":1}", syntax("/key", 8, "the string has bytes that are not UTF-8")},
		{"a lone surrogate in a key", `{"key":"\udc00","value":1}`, syntax("/key", 8, `the string has a lone surrogate, \udc00 without its other half`)},
		{"a JSON text sequence", "\x1e" + `{"key":"a","value":1}`, syntax("", 0, "unexpected byte 0x1e where a value should begin")},
		{"a carriage return as line end", "{\"key\":\"a\",\"value\":1}\r{\"key\":\"b\",\"value\":1}", syntax("", 22, "there is more after the end of the line's object")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lines := snapshot.NewLineReader(strings.NewReader(good+test.line+"\n"+good), "task-1", snapshot.MaxValue)
			got, err := collect(lines)
			if diff := cmp.Diff([]line{{"good", "1", 1}}, got); diff != "" {
				t.Errorf("wrong entries before the error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, err); diff != "" {
				t.Errorf("wrong error (-want +got):\n%s", diff)
			}
			if _, again := lines.Next(); cmp.Diff(test.want, again) != "" {
				t.Errorf("the next call answers %v", again)
			}
		})
	}
}

func TestLineReaderCountsBlankLinesInTheOffset(t *testing.T) {
	t.Parallel()
	_, err := collect(snapshot.NewLineReader(strings.NewReader("\n \r\n[}"), "t", snapshot.MaxValue))
	want := &snapshot.SyntaxError{Pointer: "/0", Line: 3, Offset: 5, Detail: "unexpected character } where a value should begin"}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("wrong error (-want +got):\n%s", diff)
	}
}

func TestLineReaderCountsDepthInsideTheValue(t *testing.T) {
	t.Parallel()
	body := func(depth int) io.Reader {
		return strings.NewReader(`{"key":"a","value":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	if _, err := collect(snapshot.NewLineReader(body(snapshot.MaxDepth), "t", snapshot.MaxValue)); err != nil {
		t.Errorf("a value as deep as allowed: %v", err)
	}
	_, err := collect(snapshot.NewLineReader(body(snapshot.MaxDepth+1), "t", snapshot.MaxValue))
	var syntax *snapshot.SyntaxError
	if !errors.As(err, &syntax) || syntax.Line != 1 || syntax.Detail != "nesting deeper than 1000 levels" {
		t.Errorf("a value deeper than allowed: %v", err)
	}
}

func TestLineReaderBoundsTheValueAndTheLine(t *testing.T) {
	t.Parallel()
	const maxValue = 100_000
	text := func(length int) string { return `"` + strings.Repeat("x", length-2) + `"` }
	first := `{"key":"a","value":1}` + "\n"
	for _, test := range []struct {
		name, body string
		want       error
	}{
		{"a value as long as allowed", `{"key":"b","value":` + text(maxValue) + `}`, nil},
		{"a value as long as allowed once white space is gone", `{"key":"b","value":[` + strings.Repeat(" ", 1000) + text(maxValue-2) + `]}`, nil},
		{"the longest names besides", `{"taskId":"` + strings.Repeat(`\u0074`, 1024) + `","key":"` + strings.Repeat(`\u006b`, 1024) + `","value":` + text(maxValue) + `}`, nil},
		{
			"a value that is too long", `{"key":"b","value":` + text(maxValue+1) + `}`,
			&snapshot.TooLargeError{What: "value", Max: maxValue, Line: 2, Detail: "one value is larger than 100000 bytes"},
		},
		{
			"a line that is too long", `{"key":"b","value":` + text(1<<20) + `}` + "\n",
			&snapshot.TooLargeError{What: "line", Max: maxValue + 65536, Line: 2, Detail: "one line is longer than 165536 bytes"},
		},
		{
			"a blank line that is too long", strings.Repeat(" ", 1<<20),
			&snapshot.TooLargeError{What: "line", Max: maxValue + 65536, Line: 2, Detail: "one line is longer than 165536 bytes"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := collect(snapshot.NewLineReader(strings.NewReader(first+test.body), strings.Repeat("t", 1024), maxValue))
			if test.want == nil && err == nil {
				return
			}
			if diff := cmp.Diff(test.want, err); diff != "" {
				t.Errorf("wrong error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineReaderReadsNoFurtherThanALineMayBe(t *testing.T) {
	t.Parallel()
	endless := &countingReader{}
	_, err := snapshot.NewLineReader(endless, "t", 1<<20).Next()
	if _, tooLarge := errors.AsType[*snapshot.TooLargeError](err); !tooLarge {
		t.Fatalf("got %v", err)
	}
	if limit := int64(1<<20 + 64<<10 + 1); endless.read > limit {
		t.Errorf("read %d bytes for a line of at most %d", endless.read, limit-1)
	}
}

// countingReader is an endless line.
type countingReader struct{ read int64 }

func (r *countingReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	r.read += int64(len(p))
	return len(p), nil
}

func TestLineReaderPassesOnWhatTheSourceAnswers(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	source := io.MultiReader(strings.NewReader("{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"val"), iotest.ErrReader(broken))
	got, err := collect(snapshot.NewLineReader(source, "t", snapshot.MaxValue))
	if len(got) != 1 || !errors.Is(err, broken) || err.Error() != "read line 2: connection reset" {
		t.Errorf("got %v, %v", got, err)
	}
	// A complete last line does not hide that the body broke off behind it.
	source = io.MultiReader(strings.NewReader(`{"key":"a","value":1}`), iotest.ErrReader(io.ErrUnexpectedEOF))
	if got, err = collect(snapshot.NewLineReader(source, "t", snapshot.MaxValue)); len(got) != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, %v", got, err)
	}
	source = io.MultiReader(strings.NewReader(`{"key":"a","value":1}`), iotest.ErrReader(fmt.Errorf("connection lost: %w", io.EOF)))
	if got, err = collect(snapshot.NewLineReader(source, "t", snapshot.MaxValue)); len(got) != 0 || err == nil {
		t.Errorf("a broken transfer passes as the end: got %v, %v", got, err)
	}
	if _, err = collect(snapshot.NewLineReader(stuckReader{}, "t", snapshot.MaxValue)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that gives nothing: %v", err)
	}
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

// TestLineReaderAllocatesNothingPerLine compares bodies of 1000 and of 11 000
// lines. Not parallel: other tests' allocations would count.
func TestLineReaderAllocatesNothingPerLine(t *testing.T) { //nolint:paralleltest // see above
	body := func(lines int) []byte {
		return bytes.Repeat([]byte(`{"key":"a\tb", "taskId":"t", "value":{"x": [1, 2.5, "é\n"], "\u00e9": {"z": null}}}`+"\n"), lines)
	}
	allocs := func(body []byte) float64 {
		return testing.AllocsPerRun(5, func() {
			lines := snapshot.NewLineReader(bytes.NewReader(body), "t", snapshot.MaxValue)
			for {
				if _, err := lines.Next(); err == io.EOF {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if few, many := allocs(body(1000)), allocs(body(11_000)); many > few+10 {
		t.Errorf("%v allocations for 1000 lines, %v for 11000", few, many)
	}
}

func TestAnUploadReadsBackFromItsRestoreBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var body strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			space := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "space")
			key := jsonString().Filter(func(s string) bool { return s != `""` }).Draw(t, "key")
			value := strings.NewReplacer("\n", " ", "\r", " ").Replace(jsonText(2).Draw(t, "value"))
			members := []string{`"key"` + space + ":" + key, `"value":` + space + value}
			if rapid.Bool().Draw(t, "named") {
				members = append(members, `"taskId":"é"`)
			}
			members = rapid.Permutation(members).Draw(t, "order")
			body.WriteString(space + "{" + strings.Join(members, space+",") + space + "}" + rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end"))
		}
		got, err := collect(snapshot.NewLineReader(strings.NewReader(body.String()), "é", snapshot.MaxValue))
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, got)
	})
}

// roundTrip renders entries as restore lines, reads them back, and expects the
// same entries.
func roundTrip(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, entries []line,
) {
	t.Helper()
	var restored []byte
	for i := range entries {
		restored = snapshot.AppendEntry(restored, "é", entries[i].Key, []byte(entries[i].Value))
		entries[i].Line = i + 1
	}
	back, err := collect(snapshot.NewLineReader(iotest.HalfReader(bytes.NewReader(restored)), "é", snapshot.MaxValue))
	if err != nil {
		t.Fatalf("reading back: %v", err)
	}
	if diff := cmp.Diff(entries, back); diff != "" {
		t.Fatalf("uploaded (-) and read back (+):\n%s", diff)
	}
}

func FuzzLineReader(f *testing.F) {
	for _, value := range awkwardValues {
		f.Add(snapshot.AppendEntry(nil, "é", "k", []byte(value)))
	}
	for _, seed := range []string{
		"", "\n\r\n", "{\"key\":\"a\",\"value\":1}\r\n\r\n{\"value\" : [ ] , \"key\":\"\\u0061\"}", `{"key":"","value":1}`,
		`{"key":"a","value":1,"value":2}`, "\xef\xbb\xbf{}", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"key":"a","value":{"x":1`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		const maxValue = 1 << 10
		got, err := collect(snapshot.NewLineReader(bytes.NewReader(body), "é", maxValue))
		slow, slowErr := collect(snapshot.NewLineReader(iotest.OneByteReader(bytes.NewReader(body)), "é", maxValue))
		if diff := cmp.Diff(got, slow); diff != "" {
			t.Fatalf("at once (-) and byte by byte (+):\n%s", diff)
		}
		if diff := cmp.Diff(err, slowErr); diff != "" {
			t.Fatalf("errors at once (-) and byte by byte (+):\n%s", diff)
		}
		for _, entry := range got {
			value, err := snapshot.Canonical([]byte(entry.Value))
			if err != nil || string(value) != entry.Value || len(value) > maxValue {
				t.Fatalf("value %q is not canonical: %v", entry.Value, err)
			}
			if err := coordinator.CheckKey(entry.Key); err != nil {
				t.Fatalf("key %q: %v", entry.Key, err)
			}
		}
		roundTrip(t, got)
	})
}

// A line that is written as nearly all are is read in a shorter way. White space in front
// sends it the other one, and nothing but the place of mistakes may tell them apart.
func TestPlainLinesAreReadAsAllOthers(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, line := range []string{
		`{"key":"k","value":1}`, `{"key":"a longer key, é","value":{"a":[1,{"b":null}],"c":"\u0041"}}`, `{"key":"k","value": 1}`, `{"key":"k","value":1 }`,
		`{"key":"k","value":{"a": [1, 2] }}`, `{"key":"k","value":" \" } "}`, `{"taskId":"task-1","key":"k","value":1}`, `{"taskId":"task-2","key":"k","value":1}`,
		`{"taskId":"task\u002d1","key":"k","value":1}`, `{"key":"k","taskId":"task-1","value":1}`, `{"value":1,"key":"k"}`, `{"key":"\u006b","value":1}`,
		`{"key":"","value":1}`, `{"key":"` + strings.Repeat("k", 1024) + `","value":1}`, `{"key":"` + strings.Repeat("k", 1025) + `","value":1}`,
		`{"key": "k", "value": {"a": 1, "b": [1, 2]}}`, `{"key": "k", "value":1}`, `{"key": "k","value": 1}`, `{"key": "k", "value": }`, `{"key": "k", "value": 1 }`,
		`{"key":"k"}`, `{"key":"k","value"}`, `{"key":"k","value":}`, `{"key":"k","value":1`, `{"key":"k","value":1}}`, `{"key":"k","value":1}x`,
		`{"key":"k","value":1,"value":2}`, `{"key":"k","value":1,"more":2}`, `{"key":"k","key":"k","value":1}`, `{"key":"k","value":{"a":1,"a":2}}`,
		`{"key":"k","value":"a` + "\t" + `"}`, `{"key":"k` + "\xff" + `","value":1}`, `{"key":"k","value":"` + "\xff" + `"}`, `{"key":"k","value":"\ud800"}`,
		`{"key":"k","value":` + deep(snapshot.MaxDepth) + `}`, `{"key":"k","value":` + deep(snapshot.MaxDepth+1) + `}`,
		`{"key":"k","value":"` + strings.Repeat("x", 98) + `"}`, `{"key":"k","value":"` + strings.Repeat("x", 99) + `"}`,
		`{"key":"k","value":[` + strings.Repeat(" ", 99) + `]}`, `{"key":"k","value":[` + strings.Repeat(" ", 9) + strings.Repeat("[],", 40) + `[]]}`,
		`{"key":"k","value":1}` + "\r", `{"key":"k"`, `{"key":"k","value":01}`, `{"key":"k","value":tru}`, `{"key":`, `{"key":"`, `{"key":"k","value":`,
	} {
		read := func(text string) (string, error) {
			entry, err := snapshot.NewLineReader(strings.NewReader(text), "task-1", max(100, 2*snapshot.MaxDepth*strings.Count(text, "]]]]"))).Next()
			return fmt.Sprintf("%q %q %d", entry.Key, entry.Value, entry.Line), err
		}
		got, err := read(line)
		want, wantErr := read(" " + line)
		if syntax, ok := errors.AsType[*snapshot.SyntaxError](wantErr); ok {
			syntax.Offset-- // the space
		}
		if got != want || cmp.Diff(wantErr, err) != "" {
			t.Errorf("%.80s\ngot  %.200s, %v\nwant %.200s, %v", line, got, err, want, wantErr)
		}
	}
}
