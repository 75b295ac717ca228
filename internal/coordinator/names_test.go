package coordinator_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 512) // 1024 bytes
	for _, tc := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{
			name: "a job", check: coordinator.CheckJob,
			good: []string{"default", "a", "A.b_c-9", strings.Repeat("x", 128)},
			bad:  []string{"", ".a", "-a", "a/b", "a b", "é", "{a}", strings.Repeat("x", 129), "a\n"},
		},
		{
			name: "a task id", check: coordinator.CheckTaskID,
			good: []string{"task-1", "a/b", "%2F", "...", "e\u0301", "é", "🦊", `"quoted"`, "a b", "!~~", long},
			bad:  []string{"", ".", "..", "-", " a", "a ", "a\tb", "a\x00", "abc\x7f", "abc ", " abc", "ab\tc", "\u0085a", "\xff", long + "x"},
		},
		{
			name: "a key", check: coordinator.CheckKey,
			good: []string{" ", ".", "..", "-", "\x00", "a\nb", "🦊", long},
			bad:  []string{"", "\xff", "\xed\xa0\x80", long + "x"},
		},
		{
			name: "an Idempotency-Key", check: coordinator.CheckIdempotencyKey,
			good: []string{"k", "!~", strings.Repeat("k", 255)},
			bad:  []string{"", "a b", "é", "\x7f", strings.Repeat("k", 256)},
		},
		{
			name: "a digest", check: coordinator.CheckDigest,
			good: []string{coordinator.EmptyDigest},
			bad:  []string{"", "sha256:", coordinator.EmptyDigest[7:], strings.ToUpper(coordinator.EmptyDigest), coordinator.EmptyDigest + "0"},
		},
	} {
		t.Run(tc.name+" is accepted when well formed and refused with a sentence otherwise", func(t *testing.T) {
			t.Parallel()
			for _, name := range tc.good {
				if err := tc.check(name); err != nil {
					t.Errorf("%q was refused: %v", name, err)
				}
			}
			for _, name := range tc.bad {
				err := tc.check(name)
				if err == nil {
					t.Errorf("%q was accepted", name)
				} else if !strings.HasSuffix(err.Error(), ".") {
					t.Errorf("%q was refused with %q, which is no sentence", name, err)
				}
			}
		})
	}
}

func TestCountersEndAtTwoToThe53MinusOne(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int64]bool{-1: false, 0: true, 1<<53 - 1: true, 1 << 53: false} {
		if err := coordinator.CheckCounter(n); (err == nil) != ok {
			t.Errorf("CheckCounter(%d) = %v", n, err)
		}
	}
}

func TestExpiryIsStrictAndRebasesBackwardsOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		start, timeout, now int64
		want                bool
	}{
		{100, 50, 150, false},
		{100, 50, 151, true},
		{100, 0, 1 << 50, false},
		{100, -1, 1 << 50, false},
		{100, 50, 0, false},
	} {
		if got := coordinator.Expired(tc.start, tc.timeout, tc.now); got != tc.want {
			t.Errorf("Expired(%d, %d, %d) = %v", tc.start, tc.timeout, tc.now, got)
		}
	}
	if got := coordinator.Rebase(100, 40); got != 40 {
		t.Errorf("a clock behind the start rebases it to now, got %d", got)
	}
	if got := coordinator.Rebase(100, 140); got != 100 {
		t.Errorf("a clock after the start leaves it, got %d", got)
	}
}

// FuzzNames: what is taken for a name keeps the rules that other layers rely on.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "a", "task-1", "...", "..", ".", "-", " a", "a ", "a\x00", "\u0085x", "a\u0085", "\ufeff", "\xff", "é", "a/b", "job.1", "-job", strings.Repeat("a", 129), strings.Repeat("é", 512), strings.Repeat("é", 513)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if coordinator.CheckJob(name) == nil && (len(name) == 0 || len(name) > 128 || url.PathEscape(name) != name || name == "." || name == "..") {
			t.Errorf("%q is a job", name)
		}
		if coordinator.CheckKey(name) == nil && (name == "" || len(name) > 1024 || !utf8.ValidString(name)) {
			t.Errorf("%q is a key", name)
		}
		if coordinator.CheckIdempotencyKey(name) == nil && (name == "" || len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })) {
			t.Errorf("%q is an Idempotency-Key", name)
		}
		if coordinator.CheckTaskID(name) != nil {
			return
		}
		// One line of a manifest, one segment of a path.
		if name == "" || len(name) > 1024 || !utf8.ValidString(name) || slices.Contains([]string{".", "..", "-"}, name) ||
			strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
			t.Errorf("%q is a task id", name)
		}
	})
}
