package engine

import (
	"math"
	"net/netip"
	"testing"
)

type named string

type point struct{ X, Y int }

func TestAKeyIsReadAsItWasSpelled(t *testing.T) {
	t.Parallel()
	spelled(t, "", "")
	spelled(t, "a/\"ü\x00", "a/\"ü\x00")
	spelled(t, named("a"), "a")
	spelled(t, -1, "-1")
	spelled(t, int8(-128), "-128")
	spelled(t, int64(math.MinInt64), "-9223372036854775808")
	spelled(t, uint64(math.MaxUint64), "18446744073709551615")
	spelled(t, 1.5, "1.5")
	spelled(t, true, "true")
	spelled(t, point{1, 2}, `{"X":1,"Y":2}`)
	spelled(t, [2]string{"a", "b"}, `["a","b"]`)
	spelled(t, netip.MustParseAddr("::1"), "::1")
	spelled[any](t, "a", `"a"`)
}

func spelled[K comparable](t *testing.T, key K, want string) {
	t.Helper()
	text, err := keyText(key)
	if err != nil || text != want {
		t.Errorf("%v is spelled %q, %v; want %q", key, text, err, want)
	}
	if back, err := parseKey[K](text); err != nil || back != key {
		t.Errorf("%q is read as %v, %v; want %v", text, back, err, key)
	}
}

func TestAKeyThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"too large":    second(parseKey[int8]("128")),
		"below zero":   second(parseKey[uint]("-1")),
		"no number":    second(parseKey[int]("a")),
		"no address":   second(parseKey[netip.Addr]("a")),
		"no JSON":      second(parseKey[point]("{")),
		"no UTF-8":     second(keyText("\xff")),
		"empty number": second(parseKey[int]("")),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
