package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// must takes units that must be free.
func must(t *testing.T, b *Bound, who Who, n int64) {
	t.Helper()
	if err := b.Take(t.Context(), who, n); err != nil {
		t.Fatalf("%v takes %d: %v", who, n, err)
	}
}

// refused takes units that must not be had, for the reason.
func refused(t *testing.T, b *Bound, who Who, n int64, want Reason) {
	t.Helper()
	err := b.Take(t.Context(), who, n)
	refusal, is := errors.AsType[*RefusalError](err)
	if !is || refusal.Reason != want || refusal.Size != b.size || refusal.After < time.Second {
		t.Fatalf("%v takes %d: %+v, want a refusal for reason %d", who, n, err, want)
	}
}

// nothingLeft fails when the bound is not as it was at first.
func nothingLeft(t *testing.T, b *Bound) {
	t.Helper()
	if u := b.Usage(); u.Used != 0 || u.Waiting != 0 || len(b.jobs)+len(b.clients)+len(b.queue.clients.lines)+b.queue.clients.round.Len() != 0 {
		t.Errorf("something is held for ever: %+v, jobs %v, clients %v, lines %d", u, b.jobs, b.clients, len(b.queue.clients.lines))
	}
}

func TestAJobAloneGetsItsShareAndLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 128, places: 4, patience: time.Second, jobShare: 50, clientShare: 75})
		hog, next := Who{"10.0.0.1", "hog"}, Who{"10.0.0.1", "next"}
		for range 64 {
			must(t, b, hog, 1)
		}
		refused(t, b, hog, 1, JobShare)
		for range 32 {
			must(t, b, next, 1) // from the same address, as behind a proxy
		}
		refused(t, b, next, 1, JobShare)
		refused(t, b, Who{"10.0.0.1", "third"}, 1, ClientShare) // the address has three quarters
		for i := range 8 {
			must(t, b, Who{fmt.Sprint("newcomer-", i), fmt.Sprint("job-", i)}, 1)
		}
		for i := range 8 {
			b.Give(Who{fmt.Sprint("newcomer-", i), fmt.Sprint("job-", i)}, 1)
		}
		b.Give(hog, 64)
		b.Give(next, 32)
		nothingLeft(t, b)
	})
}

func TestWhatIsFullIsRefusedAfterAWhileAndGrantedBeforeThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 1, places: 4, patience: time.Second})
		who := Who{"a", "job"}
		must(t, b, who, 1)
		began := time.Now()
		refused(t, b, who, 1, Full)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it waited %s", waited)
		}
		time.AfterFunc(time.Second/2, func() { b.Give(who, 1) })
		began = time.Now()
		must(t, b, who, 1)
		if waited := time.Since(began); waited != time.Second/2 {
			t.Errorf("it waited %s for what was given back after half a second", waited)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(time.Second/4, func() { cancel(gone) })
		if err := b.Take(ctx, who, 1); !errors.Is(err, gone) {
			t.Errorf("one that left while it waited was told %v", err)
		}
		b.Give(who, 1)
		nothingLeft(t, b)
		if u := b.Usage(); u.Full != 1 || u.Unfair != 0 {
			t.Errorf("refusals were counted as %+v", u)
		}
	})
}

// Clients take turns, and the jobs of a client: a thousand requests of one do not stand
// before the only one of another.
func TestThoseWhoWaitTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 1, places: 100, patience: time.Minute})
		if !b.TryTake() {
			t.Fatal("nothing is free at first")
		}
		var order []string
		var waiting sync.WaitGroup
		wait := func(who Who) {
			waiting.Go(func() {
				if err := b.Take(t.Context(), who, 1); err != nil {
					t.Error(err)
				}
				order = append(order, who.Client+who.Job)
				b.Give(who, 1)
			})
			synctest.Wait()
		}
		for range 4 {
			wait(Who{"1", "hog"})
		}
		wait(Who{"1", "a"})
		wait(Who{"2", "b"})
		if b.TryTake() {
			t.Error("a newcomer passed those who wait")
		}
		b.Give(Who{}, 1)
		waiting.Wait()
		if want := []string{"1hog", "2b", "1a", "1hog", "1hog", "1hog"}; !slices.Equal(order, want) {
			t.Errorf("they were served in the order %v, want %v", order, want)
		}
		nothingLeft(t, b)
	})
}

func TestOneClientCannotFillTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 1, places: 7, patience: time.Minute})
		hog := Who{"1", "hog"}
		b.TryTake()
		ctx, leave := context.WithCancel(t.Context())
		wait := func(who Who) {
			go func() { _ = b.Take(ctx, who, 1) }()
			synctest.Wait()
		}
		for range 4 {
			wait(hog)
		}
		refused(t, b, hog, 1, Crowd) // with no waiting at all
		for _, name := range []string{"2", "3", "4"} {
			wait(Who{Client: name})
		}
		refused(t, b, Who{Client: "5"}, 1, Full)
		leave()
		synctest.Wait()
		b.Give(hog, 1)
		nothingLeft(t, b)
	})
}

// One that wants much keeps its turn until there is so much; one that has its share lets
// others pass.
func TestNobodyPassesOneThatWantsMoreUnlessThatHasItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 100, places: 100, patience: time.Minute, jobShare: 50, clientShare: 75})
		large, small := Who{"1", "large"}, Who{"2", "small"}
		must(t, b, large, 50)
		var got atomic.Int64
		take := func(who Who, n int64) {
			go func() {
				if b.Take(t.Context(), who, n) == nil {
					got.Add(n)
				}
			}()
			synctest.Wait()
		}
		take(large, 50) // it has its share
		take(small, 30)
		if got.Load() != 30 {
			t.Fatalf("%d were given out beside one that has its share", got.Load())
		}
		take(Who{"3", "much"}, 60)
		take(Who{"4", "little"}, 5)
		if got.Load() != 30 {
			t.Fatal("one passed another that waits for more than is free")
		}
		b.Give(large, 50)
		synctest.Wait()
		if got.Load() != 30+60 {
			t.Fatalf("%d were given out, want 90: it is the large one's turn, who holds nothing any more", got.Load())
		}
		b.Give(small, 30)
		b.Give(Who{"3", "much"}, 60)
		synctest.Wait()
		if got.Load() != 30+60+50+5 {
			t.Fatalf("%d were given out, want 145", got.Load())
		}
		b.Give(large, 50)
		b.Give(Who{"4", "little"}, 5)
		nothingLeft(t, b)
	})
}

func TestANewcomerDoesNotPassOneThatWaitsForMoreThanIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBound(bound{size: 3, places: 9, patience: time.Minute})
		who := Who{"1", "job"}
		must(t, b, who, 2)
		go func() {
			must(t, b, who, 3)
			b.Give(who, 3)
		}()
		synctest.Wait()
		if b.TryTake() {
			t.Error("one of the three is free, and another waits for all of them")
		}
		b.Give(who, 2)
		synctest.Wait()
		if !b.TryTake() {
			t.Error("nobody waits any more")
		}
		b.Give(who, 1)
		nothingLeft(t, b)
	})
}

func TestOneThatLeavesTheQueueLetsThoseBehindItPass(t *testing.T) {
	t.Parallel()
	for name, shares := range map[string]bound{"in turns": {}, "with shares": {jobShare: 100, clientShare: 100}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shares.size, shares.places, shares.patience = 10, 9, time.Minute
				b := newBound(shares)
				first, much, little := Who{"1", "a"}, Who{"2", "b"}, Who{"3", "c"}
				must(t, b, first, 5)
				ctx, leave := context.WithCancel(t.Context())
				go func() { _ = b.Take(ctx, much, 10) }()
				synctest.Wait()
				took := make(chan time.Duration, 1)
				go func() {
					began := time.Now()
					must(t, b, little, 5)
					took <- time.Since(began)
				}()
				synctest.Wait()
				if u := b.Usage(); u.Waiting != 2 || u.Used != 5 {
					t.Fatalf("%+v", u)
				}
				leave()
				if waited := <-took; waited != 0 {
					t.Errorf("it waited %s longer", waited)
				}
				b.Give(first, 5)
				b.Give(little, 5)
				nothingLeft(t, b)
			})
		})
	}
}

// One that leaves in the moment in which it is its turn gives back what it got.
func TestWhatIsGrantedToOneThatHasGoneComesBack(t *testing.T) {
	t.Parallel()
	for name, shares := range map[string]bound{"in turns": {}, "with shares": {jobShare: 100, clientShare: 100}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shares.size, shares.places, shares.patience = 1, 9, time.Minute
				b := newBound(shares)
				who := Who{"1", "job"}
				must(t, b, who, 1)
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					if b.Take(ctx, who, 1) == nil {
						b.Give(who, 1) // it had not gone yet
					}
				}()
				synctest.Wait()
				b.mu.Lock() // so that it is granted after it has gone, and before it can say so
				leave()
				b.give(who, 1)
				b.mu.Unlock()
				synctest.Wait()
				nothingLeft(t, b)
			})
		})
	}
}

func TestOneThatWantsMoreThanThereIsGetsAll(t *testing.T) {
	t.Parallel()
	b := newBound(bound{size: 10, jobShare: 50, clientShare: 75})
	must(t, b, Who{"1", "job"}, 1000)
	b.Give(Who{"1", "job"}, 1000)
	nothingLeft(t, b)
}

// Whatever happens at once, never more is out than there is, and everything comes back.
func TestNoUnitIsGivenTwiceOrLost(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]bound{
		"in turns":    {size: 3, places: 1000, patience: time.Minute},
		"with shares": {size: 3, places: 1000, patience: time.Minute, jobShare: 50, clientShare: 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBound(how)
			var out atomic.Int64
			var working sync.WaitGroup
			for i := range 8 {
				working.Go(func() {
					who := Who{fmt.Sprint(i % 3), fmt.Sprint(i % 2)}
					for range 500 {
						if !b.TryTake() {
							if err := b.Take(t.Context(), who, 1); err != nil {
								t.Error(err)
								return
							}
						}
						if n := out.Add(1); n > how.size {
							t.Errorf("%d are out of %d", n, how.size)
						}
						out.Add(-1)
						b.Give(who, 1)
					}
				})
			}
			working.Wait()
			nothingLeft(t, b)
		})
	}
}

func BenchmarkTryTakeAndGive(b *testing.B) {
	bound := New(DefaultLimits()).Of(Small)
	b.ReportAllocs()
	for b.Loop() {
		if bound.TryTake() {
			bound.Give(Who{}, 1)
		}
	}
}
