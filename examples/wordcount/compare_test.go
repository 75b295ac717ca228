package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

func TestEveryDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	words := text{"p00": {"to be or not to be", "that is the question"}, "p01": {"whether"}}
	want, err := count(words)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*outcome)
		says   string
	}{
		"nothing": {func(*outcome) {}, ""},
		"a record that came twice": {func(o *outcome) {
			o.output["p00"] = append(o.output["p00"], bytes.SplitAfter(o.output["p00"], []byte("\n"))[1]...)
		}, `the output of p00 has 3 lines instead of 2`},
		"a record that was lost": {func(o *outcome) {
			o.output["p00"] = o.output["p00"][bytes.IndexByte(o.output["p00"], '\n')+1:]
		}, `line 1 of the output of p00 is "p00 line 2 has 4 words of 10\n" instead of "p00 line 1 has 6 words of 6\n"`},
		"a partition without output":  {func(o *outcome) { delete(o.output, "p01") }, `the output of p01 has 0 lines instead of 1`},
		"a partition that is foreign": {func(o *outcome) { o.output["p02"] = nil }, `output of 3 partitions instead of 2`},
		"a wrong count": {func(o *outcome) {
			o.state = bytes.Replace(o.state, []byte("word/be 2"), []byte("word/be 3"), 1)
		}, `is "p00/word/be 3\n" instead of "p00/word/be 2\n"`},
		"a wrong place": {func(o *outcome) {
			o.state = bytes.Replace(o.state, []byte(`"line":2`), []byte(`"line":1`), 1)
		}, `line 1 of the state is "p00/place`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &outcome{state: bytes.Clone(want.state), output: maps.Clone(want.output)}
			for name := range got.output {
				got.output[name] = bytes.Clone(got.output[name])
			}
			test.change(got)
			err := differ(got, want)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
