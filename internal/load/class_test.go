package load

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// docs/operations.md has these numbers, too.
func TestEachClassHasItsSizeItsSharesAndItsPatience(t *testing.T) {
	t.Parallel()
	limits := Limits{Requests: 2, HeavyRequests: 4, Uploads: 6, Restores: 8, Streams: 10, BufferedBytes: 12, JobShare: 50, ClientShare: 75, Patience: 10 * time.Second}
	for name, want := range map[Class]struct {
		size     int64
		shares   bool
		patience time.Duration
		places   int
	}{
		Small:   {2, false, time.Second, 16},
		Heavy:   {4, true, 2 * time.Second, 64},
		Upload:  {6, true, 10 * time.Second, 48},
		Restore: {8, true, 10 * time.Second, 16},
		Stream:  {10, true, 0, 0},
		"":      {12, true, 5 * time.Second, 1024},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New(limits)
				b := l.Of(name)
				if name == "" {
					b = l.Buffered
				}
				who := Who{"1", "job"}
				held := want.size
				if want.shares {
					held = want.size / 2
				}
				for range held {
					must(t, b, who, 1)
				}
				reason := Full
				if want.shares {
					reason = JobShare
				}
				began := time.Now()
				refused(t, b, who, 1, reason)
				if waited := time.Since(began); waited != want.patience || b.Usage().Size != want.size || b.places != want.places {
					t.Errorf("it waited %s of %s, and %d of %d may wait for %d of %d", waited, want.patience, b.places, want.places, b.Usage().Size, want.size)
				}
				b.Give(who, held)
				nothingLeft(t, b)
			})
		})
	}
	if l := New(limits); l.Of(Free) != nil || l.Limits() != limits || cap(l.Turns) != max(1, runtime.GOMAXPROCS(0)-1) {
		t.Errorf("what is free has %v, and %d compute at a time", l.Of(Free), cap(l.Turns))
	}
}
