package storetest

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// roundsVariable makes the callers of each race meet more often than in every run.
const roundsVariable = "CHECKPOINTD_RACE_ROUNDS"

// rounds is how often the callers of each race meet: in every tenth round with a part of several chunks.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(roundsVariable)
	switch {
	case text == "" && testing.Short():
		return 5
	case text == "":
		return 30
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", roundsVariable, text)
	}
	return n
}

// testRaces lets callers meet at one checkpoint. They are meant for the race detector,
// which sees more than the outcomes that are checked.
func testRaces(t *testing.T, s suite) {
	for _, race := range []struct {
		sentence string
		round    func(t *testing.T, r *rig, round int)
	}{
		{"of two last acks exactly one completes", raceLastAcks},
		{"acks at once have places of their own", raceManyAcks},
		{"the last ack and the deadline have one outcome, the same everywhere", raceDeadline},
		{"an abort makes room for one trigger and no more", raceAbortTrigger},
		{"a shared write that was answered is in the snapshot, a refused one is not", raceSharedWrite},
		{"an acknowledged upload is in the snapshot whole, a refused one is not", raceUpload},
		{"an ack counts the part that it names, whatever is uploaded meanwhile", raceReplacedPart},
		{"a restore holds its checkpoint against a cleanup or is refused", raceCleanupRestore},
		{"a recovery names what the last ack completed or refuses the ack", raceRecover},
		{"of two ticks exactly one triggers", raceTicks},
		{"a tick and a trigger by hand do not pass the cap together", raceTickTrigger},
		{"a trigger goes by the settings of before a put or of after it, never by both", racePutTrigger},
		{"a trigger makes a deleted job anew or is deleted with it", raceDeleteJobTrigger},
		{"whoever reads a log while it grows reads every event once", raceReader},
	} {
		s.rule(t, race.sentence, func(t *testing.T, r *rig) {
			r.defaults.Keep = 3
			for round := range rounds(t) {
				race.round(t, r, round)
				if t.Failed() {
					t.Fatalf("in round %d", round)
				}
			}
		})
	}
}

// meet lets callers go at the same moment and waits for all of them. Which of them is
// started first changes from round to round.
func meet(round int, callers ...func()) {
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i := range callers {
		caller := callers[(i+round)%len(callers)]
		done.Go(func() {
			begin.Wait()
			caller()
		})
	}
	begin.Done()
	done.Wait()
}

// sameEverywhere reads the checkpoint from both replicas, which must agree, and checks
// that its end was reported once.
func (r *rig) sameEverywhere(id int64, want coordinator.Status) {
	r.t.Helper()
	for range 2 { // calls go to the replicas in turn
		equal(r.t, "status", r.get(id).Status, want)
	}
	if ends := r.seen.endOf(r.job, id); len(ends) != 1 || ends[0].Status != want {
		r.t.Errorf("reported ends = %+v, want one as %s", ends, want)
	}
}

// ackFrom acknowledges through one replica.
func (r *rig) ackFrom(store coordinator.Store, call coordinator.AckCall) (coordinator.AckOutcome, error) {
	result, err := store.Acknowledge(r.t.Context(), call)
	if err != nil {
		return coordinator.AckOutcome{}, err
	}
	return result.Outcomes[0], nil
}

// raceSize is the size of a part in a round: in all of them beyond what a store may keep
// in line, in some of them more than a chunk.
func raceSize(round int) int {
	if round%10 == 0 {
		return coordinator.ChunkBytes + round
	}
	return 70_000 + round
}

func raceLastAcks(t *testing.T, r *rig, round int) {
	// In even rounds one ack is missing and one of the two comes too late; in odd rounds
	// both are needed.
	required := 2 + round%2
	c := r.trigger(requires(required))
	r.accept(c.ID, "task-0")
	a, b := r.either()
	calls := []coordinator.AckCall{r.ackCall(c.ID, item("task-1")), r.ackCall(c.ID, item("task-2"))}
	var outcomes [2]coordinator.AckOutcome
	var errs [2]error
	meet(round,
		func() { outcomes[0], errs[0] = r.ackFrom(a, calls[0]) },
		func() { outcomes[1], errs[1] = r.ackFrom(b, calls[1]) },
	)
	completing, accepted := 0, 0
	for i, outcome := range outcomes {
		r.check("acknowledge", errs[i])
		switch {
		case outcome.Outcome != coordinator.AckAccepted:
			equal(t, "refusal", refusalCode(outcome), coordinator.CodeCheckpointCompleted)
			continue
		case outcome.Status == coordinator.StatusCompleted:
			completing++
			equal(t, "count of the completing ack", outcome.AcknowledgedTasks, required)
		}
		accepted++
	}
	equal(t, "completing acks", completing, 1)
	equal(t, "accepted acks", accepted, required-1)
	got := r.get(c.ID)
	equal(t, "acknowledged", got.AcknowledgedTasks, required)
	equal(t, "acks", len(got.Acks), required)
	r.sameEverywhere(c.ID, coordinator.StatusCompleted)
}

func raceManyAcks(t *testing.T, r *rig, round int) {
	const tasks = 8
	c := r.trigger(requires(tasks))
	a, b := r.either()
	outcomes := make([]coordinator.AckOutcome, tasks)
	errs := make([]error, tasks)
	callers := make([]func(), tasks)
	for i := range callers {
		call := r.ackCall(c.ID, item(names(tasks)[i]))
		callers[i] = func() { outcomes[i], errs[i] = r.ackFrom([]coordinator.Store{a, b}[i%2], call) }
	}
	meet(round, callers...)
	places := map[int]bool{}
	for i, outcome := range outcomes {
		r.check("acknowledge", errs[i])
		equal(t, "outcome", outcome.Outcome, coordinator.AckAccepted)
		equal(t, "the last place completes", outcome.Status == coordinator.StatusCompleted, outcome.AcknowledgedTasks == tasks)
		places[outcome.AcknowledgedTasks] = true
	}
	equal(t, "different places", len(places), tasks)
	r.sameEverywhere(c.ID, coordinator.StatusCompleted)
}

func raceDeadline(t *testing.T, r *rig, round int) {
	c := r.trigger(timeout(1000))
	r.clock.Advance(1000)
	a, b := r.either()
	call := r.ackCall(c.ID, item("task-1", with(part("task-1", "k", "1"))))
	var outcome coordinator.AckOutcome
	var errs [3]error
	var read coordinator.CheckpointDetail
	meet(round,
		func() { outcome, errs[0] = r.ackFrom(a, call) },
		func() {
			r.clock.Advance(1)
			errs[1] = b.Sweep(t.Context(), coordinator.SweepCall{Retention: r.defaults.Retention})
		},
		func() { read, errs[2] = b.Get(t.Context(), r.ref(c.ID)) },
	)
	for _, err := range errs {
		r.check("a call of the race", err)
	}
	want := coordinator.StatusCompleted
	if outcome.Outcome != coordinator.AckAccepted {
		equal(t, "refusal", refusalCode(outcome), coordinator.CodeCheckpointExpired)
		want = coordinator.StatusExpired
	}
	// A reader that saw an end has seen the end. With replicas this holds for their
	// common clock alone, and here each brings the time along.
	if !r.storage.Replicas && read.Status != coordinator.StatusPending {
		equal(t, "status as a reader saw it", read.Status, want)
	}
	r.sweep()
	r.sameEverywhere(c.ID, want)
}

func raceAbortTrigger(t *testing.T, r *rig, round int) {
	for _, id := range r.list(coordinator.ListCall{Status: coordinator.StatusPending}) {
		r.abort(id)
	}
	old := r.trigger(atMostPending(1))
	a, b := r.either()
	abort := coordinator.AbortCall{Job: r.job, ID: old.ID, Token: r.token()}
	calls := []coordinator.TriggerCall{r.triggerCall(atMostPending(1)), r.triggerCall(atMostPending(1))}
	var aborted error
	var results [2]coordinator.TriggerResult
	var errs [2]error
	meet(round,
		func() { _, aborted = a.Abort(t.Context(), abort) },
		func() { results[0], errs[0] = a.Trigger(t.Context(), calls[0]) },
		func() { results[1], errs[1] = b.Trigger(t.Context(), calls[1]) },
	)
	r.check("abort", aborted)
	made := []int64{}
	for i, err := range errs {
		if err != nil {
			r.refused(err, coordinator.CodeTooManyPending)
			continue
		}
		made = append(made, results[i].Checkpoint.ID)
	}
	if len(made) > 1 {
		t.Errorf("with room for one checkpoint %v were made", made)
	}
	r.wantIDs("pending", r.list(coordinator.ListCall{Status: coordinator.StatusPending}), made...)
	r.sameEverywhere(old.ID, coordinator.StatusAborted)
}

func raceSharedWrite(t *testing.T, r *rig, round int) {
	c := r.trigger()
	r.shared(c.ID, "a", "1")
	a, b := r.either()
	call := r.ackCall(c.ID, item("task-1"))
	var outcome coordinator.AckOutcome
	var acked, wrote error
	meet(round,
		func() { outcome, acked = r.ackFrom(a, call) },
		func() {
			_, wrote = b.WriteShared(t.Context(), coordinator.SharedWrite{Job: r.job, ID: c.ID, Op: coordinator.SharedPut, Entries: entries("a", "2", "b", "3")})
		},
	)
	r.check("acknowledge", acked)
	equal(t, "status of the ack", outcome.Status, coordinator.StatusCompleted)
	want := []string{"a", "2", "b", "3"}
	if wrote != nil {
		r.refused(wrote, coordinator.CodeCheckpointCompleted)
		want = []string{"a", "1"}
	}
	r.wantShared(c.ID, want...)
	equal(t, "the snapshot", r.restored(c.ID), sharedLines(want...))
	got := r.get(c.ID)
	equal(t, "entries", got.Entries, int64(len(want)/2))
	equal(t, "bytes", got.Bytes, int64(len(sharedLines(want...))))
}

func raceUpload(t *testing.T, r *rig, round int) {
	c := r.trigger(requires(3))
	one, two := part("task-1", "k", "1"), bigPart("task-2", raceSize(round))
	r.accept(c.ID, "task-1", with(one))
	upload := r.begin(c.ID, "task-2", two)
	ack := round%3 != 0
	a, _ := r.either()
	call := r.completeCall(c.ID, true)
	var completed error
	var refusal coordinator.Code
	meet(round,
		func() { _, completed = a.Complete(t.Context(), call) },
		func() { refusal = r.commitCode(upload, two, ack) },
	)
	r.check("complete", completed)
	want := string(one.Content)
	if refusal != "" {
		equal(t, "refusal", refusal, coordinator.CodeCheckpointCompleted)
	} else if ack {
		want += string(two.Content)
	}
	equal(t, "the snapshot is what was acknowledged", r.restored(c.ID) == want, true)
	equal(t, "bytes", r.get(c.ID).Bytes, int64(len(want)))
	r.check("discard", upload.Discard(t.Context()))
	r.sameEverywhere(c.ID, coordinator.StatusCompleted)
}

func raceReplacedPart(t *testing.T, r *rig, round int) {
	c := r.trigger()
	old, fresh := part("task-1", "old", "1"), bigPart("task-1", raceSize(round))
	r.upload(c.ID, "task-1", old)
	upload := r.begin(c.ID, "task-1", fresh)
	a, _ := r.either()
	call := r.ackCall(c.ID, item("task-1", digest(old.Digest)))
	var outcome coordinator.AckOutcome
	var acked error
	var refusal coordinator.Code
	meet(round,
		func() { outcome, acked = r.ackFrom(a, call) },
		func() { refusal = r.commitCode(upload, fresh, false) },
	)
	r.check("acknowledge", acked)
	want := old
	if refusal == "" {
		equal(t, "refusal of the ack", refusalCode(outcome), coordinator.CodePartChanged)
		r.accept(c.ID, "task-1", digest(fresh.Digest))
		want = fresh
	} else {
		equal(t, "refusal of the upload", refusal, coordinator.CodeAckConflict)
		equal(t, "outcome", outcome.Outcome, coordinator.AckAccepted)
	}
	equal(t, "the snapshot is the part that the ack named", r.restored(c.ID) == string(want.Content), true)
	r.check("discard", upload.Discard(t.Context()))
}

func raceCleanupRestore(t *testing.T, r *rig, round int) {
	c := r.trigger()
	p := bigPart("task-1", raceSize(round))
	r.uploadAndAck(c.ID, "task-1", p)
	a, b := r.either()
	call := r.restoreCall(c.ID)
	var result coordinator.CleanupResult
	var cleaned, opened, read error
	var got []byte
	meet(round,
		func() {
			result, cleaned = a.Cleanup(t.Context(), coordinator.CleanupCall{Job: r.job, Keep: 0, Max: coordinator.CleanupStep})
		},
		func() {
			var source coordinator.RestoreSource
			if source, opened = b.OpenRestore(t.Context(), call); opened == nil {
				got, read = r.read(source, 1, 0, int64(len(p.Content)))
				opened = source.Close() // the lease stays, as after a broken transfer
			}
		},
	)
	r.check("cleanup", cleaned)
	if coordinator.CodeOf(opened) == coordinator.CodeCheckpointDeleted {
		r.wantIDs("deleted", result.Deleted, c.ID)
		return
	}
	r.check("open restore", opened)
	r.check("read", read)
	equal(t, "what was read is right", string(got) == string(p.Content), true)
	r.wantIDs("deleted", result.Deleted)
	r.wantIDs("skipped", result.Skipped, c.ID)
	equal(t, "the snapshot is still whole", r.restored(c.ID) == string(p.Content), true)
	r.clock.Advance(restoreLease + 1)
	r.wantIDs("deleted after the lease", r.cleanup(0).Deleted, c.ID)
}

func raceRecover(t *testing.T, r *rig, round int) {
	before := r.state()
	c := r.trigger(requires(2))
	r.accept(c.ID, "task-1")
	a, b := r.either()
	call := r.ackCall(c.ID, item("task-2", epoch(before.Epoch)))
	crash := r.recoverCall(fmt.Sprintf("crash-%d", round))
	var outcome coordinator.AckOutcome
	var result coordinator.RecoverResult
	var acked, recovered error
	meet(round,
		func() { outcome, acked = r.ackFrom(a, call) },
		func() { result, recovered = b.Recover(t.Context(), crash) },
	)
	r.check("acknowledge", acked)
	r.check("recover", recovered)
	equal(t, "epoch", result.Epoch, before.Epoch+1)
	named := int64(-1)
	if result.Checkpoint != nil {
		named = result.Checkpoint.ID
	}
	if outcome.Outcome == coordinator.AckAccepted {
		equal(t, "the checkpoint that the recovery names", named, c.ID)
		r.sameEverywhere(c.ID, coordinator.StatusCompleted)
	} else {
		equal(t, "refusal", refusalCode(outcome), coordinator.CodeStaleEpoch)
		equal(t, "the checkpoint that the recovery names", named, before.LatestID)
		r.sameEverywhere(c.ID, coordinator.StatusAborted)
	}
	again := r.recover(fmt.Sprintf("crash-%d", round))
	equal(t, "epoch for the next worker", again.Epoch, result.Epoch)
}
