package snapshot_test

import (
	"encoding/json"
	"strings"

	"pgregory.net/rapid"
)

// jsonSpace generates insignificant white space, mostly none.
func jsonSpace() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", " ", "  ", "\t", "\r\n"})
}

// jsonNumber generates numbers as they may be written.
func jsonNumber() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?`)
}

// jsonString generates strings in several spellings.
func jsonString() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteByte('"')
		for range rapid.IntRange(0, 20).Draw(t, "runes") {
			b.WriteString(rapid.OneOf(
				rapid.StringMatching(`[ -!#-\[\]-~]{1,9}`),
				rapid.SampledFrom([]string{`\n`, `\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\u0000`, "é", "😀", "\u007f", "e\u0301"}),
			).Draw(t, "piece"))
		}
		b.WriteByte('"')
		return b.String()
	})
}

// jsonText generates valid JSON of at most the given depth, with white space
// and without repeated names.
func jsonText(depth int) *rapid.Generator[string] {
	scalar := rapid.OneOf(jsonNumber(), jsonString(), rapid.SampledFrom(awkwardValues), rapid.SampledFrom([]string{"true", "false", "null"}))
	if depth == 0 {
		return scalar
	}
	inner := jsonText(depth - 1)
	list := func(t *rapid.T, open, closing string, item func() string) string {
		var b strings.Builder
		b.WriteString(open + jsonSpace().Draw(t, "space"))
		for i := range rapid.IntRange(0, 6).Draw(t, "items") {
			if i > 0 {
				b.WriteString("," + jsonSpace().Draw(t, "space"))
			}
			b.WriteString(item() + jsonSpace().Draw(t, "space"))
		}
		return b.String() + closing
	}
	array := rapid.Custom(func(t *rapid.T) string {
		return list(t, "[", "]", func() string { return inner.Draw(t, "element") })
	})
	object := rapid.Custom(func(t *rapid.T) string {
		seen := map[string]bool{}
		return list(t, "{", "}", func() string {
			name := jsonString().Filter(func(s string) bool { return !seen[plain(s)] }).Draw(t, "name")
			seen[plain(name)] = true
			return name + jsonSpace().Draw(t, "space") + ":" + jsonSpace().Draw(t, "space") + inner.Draw(t, "member")
		})
	})
	return rapid.OneOf(scalar, array, object)
}

// plain is what a JSON string stands for.
func plain(text string) string {
	var s string
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	return s
}
