package server_test

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/server"
)

func TestSizesAreReadAndWrittenInWholeUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]server.Size{
		"512": 512, "0": 0, "1B": 1, "64KiB": 64 << 10, "16MiB": 16 << 20, "4GiB": 4 << 30,
	} {
		var got server.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		var again server.Size
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%d is written as %q, which reads as %d (%v)", got, got, again, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GiB", "1TB", "9223372036854775807KiB", " 1"} {
		var got server.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"512", "512B", "64KiB", "4GiB", "8589934591GiB", "8589934592GiB", "-1", "1.5MiB", "1kb", "", "B", "0GiB", "00001B", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var size, again server.Size
		if size.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(size.String())); err != nil || size < 0 || again != size {
			t.Fatalf("%q is %d, written %s, and that is %d, %v", text, size, size, again, err)
		}
	})
}
