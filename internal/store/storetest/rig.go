package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// rig is one storage with its handles, its clock, and what the handles reported. Its
// methods are the calls of a test: they fill in what the test does not care about and
// end the test when the store refuses. A test that wants a refusal calls the store.
type rig struct {
	t       testing.TB
	store   coordinator.Store
	clock   *Clock
	seen    *journal
	storage Storage
	// job is the job of the calls below, defaults are the server's settings in them.
	job      string
	defaults coordinator.Settings
	// tolerant leaves out the check for leftovers, for tests that damage the storage.
	tolerant bool
	// resent leaves out the check that nothing was reported twice, for tests that send a
	// call again although its reply came: a store may report again then, because in life
	// the first report was lost with the reply.
	resent bool
	// tokens counts the calls that were named, those of other jobs included.
	tokens *int
}

func newRig(t testing.TB, storage Storage) *rig {
	t.Helper()
	r := newRigAt(t, storage, NewClock())
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// newRigAt leaves closing to the caller.
func newRigAt(t testing.TB, storage Storage, clock *Clock) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock, seen: new(journal), storage: storage, job: coordinator.DefaultJob, defaults: rigDefaults(), tokens: new(int)}
	r.open()
	return r
}

// rigDefaults are a server's settings that leave out of the way what a test is not about:
// nothing is scheduled, nothing rests, and nothing is evicted.
func rigDefaults() coordinator.Settings {
	return coordinator.Settings{RequiredTaskAcks: 1, TimeoutMs: 60_000, MaxConcurrent: 16, EventsToKeep: 10_000}
}

// open opens the handles, two where the storage allows.
func (r *rig) open() {
	r.t.Helper()
	options := Options{Clock: r.clock.Now, Observer: r.seen}
	handles := []coordinator.Store{r.storage.Open(r.t, options)}
	if r.storage.Replicas {
		handles = append(handles, r.storage.Open(r.t, options))
	}
	if opened, again := r.store.(*inTurn); again {
		opened.handles = handles // for the rigs of other jobs as well
		return
	}
	r.store = &inTurn{handles: handles}
}

// reopen closes every handle and opens new ones: a restart of all servers.
func (r *rig) reopen() {
	r.t.Helper()
	r.betweenRuns(func() {})
}

// betweenRuns calls f while no handle is open.
func (r *rig) betweenRuns(f func()) {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatalf("close: %v", err)
	}
	f()
	r.open()
}

// either gives two handles for two callers at the same time: two replicas where the
// storage has them, else one handle twice.
func (r *rig) either() (a, b coordinator.Store) {
	handles := r.store.(*inTurn).handles
	return handles[0], handles[len(handles)-1]
}

// leasesOver is longer than any lease that the suite takes, recover's ten minutes among them.
const leasesOver = 2 * time.Hour

// sweepsUntilClean bounds how many sweeps the storage may need to get clean: each works
// in bounded steps.
const sweepsUntilClean = 50

// finish checks what must hold after every test: nothing ended twice, and nothing is
// left behind once leases are over and the sweeper was there.
func (r *rig) finish() {
	r.t.Helper()
	if !r.resent {
		for _, contradiction := range r.seen.contradictions() {
			r.t.Error(contradiction)
		}
	}
	if r.storage.Leftovers == nil || r.tolerant {
		return
	}
	r.clock.Advance(ms(leasesOver))
	var left []string
	for range sweepsUntilClean {
		r.sweep()
		if left = r.storage.Leftovers(r.t); len(left) == 0 {
			return
		}
	}
	r.t.Errorf("after the test, %v later and swept, the storage still holds:\n%s", leasesOver, strings.Join(left, "\n"))
}

// token names one call.
func (r *rig) token() string {
	*r.tokens++
	return fmt.Sprintf("token-%s-%d", r.job, *r.tokens)
}

// in gives the same rig for calls in another job.
func (r *rig) in(job string) *rig {
	other := *r
	other.job = job
	return &other
}

// on gives the same rig for a subtest in a job of its own.
func (r *rig) on(t testing.TB, job string) *rig {
	other := r.in(job)
	other.t = t
	return other
}

func (r *rig) ref(id int64) coordinator.Ref { return coordinator.Ref{Job: r.job, ID: id} }

// check ends the test when a call failed that should not.
func (r *rig) check(call string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", call, err)
	}
}

// refused checks that a call was refused with the code.
func (r *rig) refused(err error, want coordinator.Code) {
	r.t.Helper()
	if got := coordinator.CodeOf(err); got != want {
		r.t.Errorf("refusal = %q (%v), want %q", got, err, want)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// wantSame compares answers; an empty list or map is as good as none.
func wantSame[T any](t testing.TB, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
}
