package snapshot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestConvertLosesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ value, want, result string }{
		{`42`, "string", `"42"`},
		{`1.50`, "string", `"1.50"`},
		{`-0`, "string", `"-0"`},
		{`9007199254740993`, "string", `"9007199254740993"`},
		{`true`, "string", `"true"`},
		{`false`, "string", `"false"`},
		{`"a\u00e9"`, "string", `"a\u00e9"`},

		{`42`, "integer", `42`},
		{`1.0`, "integer", `1`},
		{`1e0`, "integer", `1`},
		{`1e3`, "integer", `1000`},
		{`1E+3`, "integer", `1000`},
		{`1.5e1`, "integer", `15`},
		{`1500e-2`, "integer", `15`},
		{`-12.500e+1`, "integer", `-125`},
		{`0`, "integer", `0`},
		{`-0`, "integer", `0`},
		{`-0.0e5`, "integer", `0`},
		{`0e99999999999999999999`, "integer", `0`},
		{`0e-99999999999999999999`, "integer", `0`},
		{`9007199254740993`, "integer", `9007199254740993`},
		{`9223372036854775807`, "integer", `9223372036854775807`},
		{`9223372036854775807.000`, "integer", `9223372036854775807`},
		{`9.223372036854775807e18`, "integer", `9223372036854775807`},
		{`-9223372036854775808`, "integer", `-9223372036854775808`},
		{`0.0000000000000000000009223372036854775807e40`, "integer", `9223372036854775807`},
		{`1` + strings.Repeat("0", 400) + `e-400`, "integer", `1`},
		{`"42"`, "integer", `42`},
		{`"\u0034\u0032"`, "integer", `42`},
		{`"0"`, "integer", `0`},
		{`"-9223372036854775808"`, "integer", `-9223372036854775808`},

		{`1.50`, "number", `1.50`},
		{`1e400`, "number", `1e400`},
		{`"42"`, "number", `42`},
		{`"1.50"`, "number", `1.50`},
		{`"-0"`, "number", `-0`},
		{`"1e400"`, "number", `1e400`},
		{`"18446744073709551615"`, "number", `18446744073709551615`},

		{`true`, "boolean", `true`},
		{`"true"`, "boolean", `true`},
		{`"false"`, "boolean", `false`},
		{`"\u0074rue"`, "boolean", `true`},

		{`{"a":1}`, "object", `{"a":1}`},
		{`[1]`, "array", `[1]`},

		{`null`, "string", `null`},
		{`null`, "integer", `null`},
		{`null`, "number", `null`},
		{`null`, "boolean", `null`},
		{`null`, "object", `null`},
		{`null`, "array", `null`},
	} {
		t.Run(test.value+" as "+test.want, func(t *testing.T) {
			t.Parallel()
			got, err := snapshot.Convert([]byte(test.value), test.want)
			if err != nil || string(got) != test.result {
				t.Errorf("got %s, %v; want %s", got, err, test.result)
			}
		})
	}
}

func TestConvertRefusesWhatWouldLoseSomething(t *testing.T) {
	t.Parallel()
	const (
		fraction = "the number has a fraction"
		tooLarge = "the number is outside of the range of a 64-bit integer"
		inexact  = "the string is not the exact spelling of "
	)
	for _, test := range []struct{ value, actual, want, detail string }{
		{`3.7`, "number", "integer", fraction},
		{`1e-1`, "number", "integer", fraction},
		{`1e-99999999999999999999`, "number", "integer", fraction},
		{`9223372036854775807.5`, "number", "integer", fraction},
		{`9223372036854775808`, "number", "integer", tooLarge},
		{`-9223372036854775809`, "number", "integer", tooLarge},
		{`18446744073709551615`, "number", "integer", tooLarge},
		{`1e19`, "number", "integer", tooLarge},
		{`1e21`, "number", "integer", tooLarge},
		{`1e99999999999999999999`, "number", "integer", tooLarge},
		{`0.1e99999999999999999999`, "number", "integer", tooLarge},
		{`1000e9223372036854775807`, "number", "integer", tooLarge},
		{`true`, "boolean", "integer", "a boolean cannot be read as an integer without loss"},
		{`[]`, "array", "integer", "an array cannot be read as an integer without loss"},

		{`"007"`, "string", "integer", inexact + "an integer"},
		{`" 42"`, "string", "integer", inexact + "an integer"},
		{`"+42"`, "string", "integer", inexact + "an integer"},
		{`"-0"`, "string", "integer", inexact + "an integer"},
		{`"1.0"`, "string", "integer", inexact + "an integer"},
		{`"1e3"`, "string", "integer", inexact + "an integer"},
		{`""`, "string", "integer", inexact + "an integer"},
		{`"9223372036854775808"`, "string", "integer", inexact + "an integer"},
		{`"abc"`, "string", "integer", inexact + "an integer"},

		{`""`, "string", "number", inexact + "a number"},
		{`"-"`, "string", "number", inexact + "a number"},
		{`"007"`, "string", "number", inexact + "a number"},
		{`"1 "`, "string", "number", inexact + "a number"},
		{`"1."`, "string", "number", inexact + "a number"},
		{`"NaN"`, "string", "number", inexact + "a number"},
		{`"0x10"`, "string", "number", inexact + "a number"},
		{`false`, "boolean", "number", "a boolean cannot be read as a number without loss"},

		{`"True"`, "string", "boolean", inexact + "a boolean"},
		{`"1"`, "string", "boolean", inexact + "a boolean"},
		{`1`, "number", "boolean", "a number cannot be read as a boolean without loss"},

		{`{}`, "object", "string", "an object cannot be read as a string without loss"},
		{`[]`, "array", "string", "an array cannot be read as a string without loss"},
		{`"{}"`, "string", "object", "a string cannot be read as an object without loss"},
		{`"[]"`, "string", "array", "a string cannot be read as an array without loss"},
		{`{}`, "object", "array", "an object cannot be read as an array without loss"},
		{`1`, "number", "Integer", "the type must be one of string, integer, number, boolean, object and array"},
		{`null`, "null", "null", "the type must be one of string, integer, number, boolean, object and array"},
	} {
		t.Run(test.value+" as "+test.want, func(t *testing.T) {
			t.Parallel()
			got, err := snapshot.Convert([]byte(test.value), test.want)
			if got != nil {
				t.Errorf("got %s", got)
			}
			want := &snapshot.TypeError{Actual: test.actual, Wanted: test.want, Detail: test.detail}
			if diff := cmp.Diff(error(want), err); diff != "" {
				t.Errorf("wrong error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertKeepsAwkwardValuesOfTheirOwnType(t *testing.T) {
	t.Parallel()
	for _, value := range awkwardValues {
		if want := snapshot.Type([]byte(value)); want != "null" {
			if got, err := snapshot.Convert([]byte(value), want); err != nil || string(got) != value {
				t.Errorf("%s as %s: got %s, %v", value, want, got, err)
			}
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, value := range awkwardValues {
		for _, want := range []string{"string", "integer", "number", "boolean"} {
			f.Add([]byte(value), want)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, want string) {
		value, err := snapshot.Canonical(raw)
		if err != nil {
			return
		}
		got, err := snapshot.Convert(value, want)
		if err != nil {
			if _, mismatch := errors.AsType[*snapshot.TypeError](err); !mismatch {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		if again, err := snapshot.Canonical(got); err != nil || string(again) != string(got) {
			t.Fatalf("%s as %s gives %q, which is not canonical: %v", value, want, got, err)
		}
		kind := snapshot.Type(got)
		if kind != "null" && kind != want && (kind != "number" || want != "integer") {
			t.Fatalf("%s as %s gives %s", value, want, got)
		}
	})
}
