package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/archive"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testImport(t *testing.T, s suite) {
	s.rule(t, "a job that was exported, deleted and imported is exported as the same bytes", func(t *testing.T, r *rig) {
		r = r.in("orders")
		r.fill()
		before := r.export()
		r.deleteJob(true)
		r.check("import", r.importInto("orders", before))
		if diff := cmp.Diff(before, r.export()); diff != "" {
			t.Errorf("the export (-before +after):\n%s", diff)
		}
	})
	s.rule(t, "what was imported is there as it was, and goes on above", func(t *testing.T, r *rig) {
		from := r.in("orders")
		from.fill()
		export := from.export() // which keeps the digests that it computes
		want := from.get(coordinator.Latest)
		lines := from.restored(want.ID)
		r.check("import", r.importInto("elsewhere", export))
		r = r.in("elsewhere")
		got := r.get(coordinator.Latest)
		want.Job, want.ObservedAt = got.Job, got.ObservedAt
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the latest (-exported +imported):\n%s", diff)
		}
		equal(t, "what is restored", r.restored(got.ID), lines)
		equal(t, "the epoch", r.state().Epoch, from.state().Epoch)
		equal(t, "the last completion", r.state().LastCompletedAt, from.state().LastCompletedAt)
		equal(t, "the settings", *r.jobState().Settings.Keep, 9)
		next := r.trigger(requires(1))
		equal(t, "the next id", next.ID, from.state().NextID)
		r.ackRefused(coordinator.CodeStaleAttempt, next.ID, "a", attempt(2))
		r.accept(next.ID, "a", attempt(3))
		r.delete(got.ID)
		r.deleteJob(true)
	})
	s.rule(t, "an import into a job with checkpoints changes nothing", func(t *testing.T, r *rig) {
		from := r.in("orders")
		from.fill()
		export := from.export()
		r.refused(r.importInto("orders", export), coordinator.CodeJobNotEmpty)
		equal(t, "the export", from.export(), export)
		into := r.in("elsewhere")
		pending := into.trigger(requires(1))
		r.refused(r.importInto("elsewhere", export), coordinator.CodeJobNotEmpty)
		into.wantStatus(pending.ID, coordinator.StatusPending)
		into.wantIDs("the list", into.list(coordinator.ListCall{}), pending.ID)
	})
	s.rule(t, "of what ended uncompleted an import keeps as many as are kept otherwise", func(t *testing.T, r *rig) {
		r.openImport(30)
		for id := int64(24); id >= 0; id-- {
			under := r.beginImport(id)
			call := under.call(coordinator.ImportFinish)
			call.Checkpoint = coordinator.Checkpoint{
				ID: id, Status: coordinator.StatusAborted, RequiredTaskAcks: 1, SnapshotVersion: 1, Revision: 2, EndedAt: 7,
				Failure: &coordinator.Failure{Reason: coordinator.ReasonAborted},
			}
			r.check("finish", r.store.Import(t.Context(), call))
		}
		r.sweep() // which is when the embedded store trims
		equal(t, "how many are there", len(r.list(coordinator.ListCall{Limit: 100})), coordinator.EndedKept)
	})
	s.rule(t, "an import that fails leaves nothing", func(t *testing.T, r *rig) {
		from := r.in("orders")
		from.fill()
		read, err := archive.Read(strings.NewReader(from.export()), 1<<30, t.TempDir(), nil)
		r.check("read", err)
		defer read.Close()
		failing := &failingArchive{Archive: read, at: 2}
		if err := r.coordinator().Import(t.Context(), "elsewhere", failing); !errors.Is(err, errFailing) {
			t.Fatalf("the import: %v", err)
		}
		r = r.in("elsewhere")
		r.wantIDs("the list", r.list(coordinator.ListCall{}))
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
		equal(t, "the next id", r.trigger(requires(1)).ID, from.state().NextID)
	})
	s.rule(t, "what is under import is nobody else's", func(t *testing.T, r *rig) {
		r.openImport(5)
		under := r.beginImport(3)
		under.upload(t, "a", part("a", "k", "1"))
		under.shared(t, "s", "1")
		r.wantIDs("the list", r.list(coordinator.ListCall{}))
		r.wantIDs("what is pending", r.list(coordinator.ListCall{Status: coordinator.StatusPending, NotAckedBy: "b"}))
		equal(t, "how many are pending", r.jobState().Pending, 0)
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
		for name, err := range r.touch(3, "") {
			if code := coordinator.CodeOf(err); code != coordinator.CodeCheckpointDeleted {
				t.Errorf("%s: %v, want %s", name, err, coordinator.CodeCheckpointDeleted)
			}
			if said, ok := errors.AsType[*coordinator.Error](err); ok && (said.Current != nil || said.Latest != nil) {
				t.Errorf("%s names the checkpoint as a next step: %+v", name, said)
			}
		}
		if result := r.cleanup(0); len(result.Deleted)+result.Kept > 0 {
			t.Errorf("the cleanup met it: %+v", result)
		}
		if result := r.recover(""); len(result.Ended) > 0 || result.Checkpoint != nil {
			t.Errorf("the recovery met it: %+v", result)
		}
		under.tasks(t, "a", part("a", "k", "1"))
		r.check("finish", under.finish(part("a", "k", "1")))
		r.wantStatus(3, coordinator.StatusCompleted)
		equal(t, "the restore", r.restored(3), `{"key":"s","value":1}`+"\n"+`{"taskId":"a","key":"k","value":1}`+"\n")
		r.check("finish again", under.finish(part("a", "k", "1")))
	})
	s.rule(t, "what is under import is not that of another import either", func(t *testing.T, r *rig) {
		r.openImport(5)
		under := r.beginImport(3)
		r.check("begin again", r.store.Import(t.Context(), under.call(coordinator.ImportBegin)))
		for name, err := range r.touch(3, "another") {
			if code := coordinator.CodeOf(err); name == "upload" && code != coordinator.CodeCheckpointDeleted || name == "shared" && code != coordinator.CodeCheckpointDeleted {
				t.Errorf("%s: %v", name, err)
			}
		}
		other := under
		other.token = "another"
		r.refused(r.store.Import(t.Context(), coordinator.ImportCall{Step: coordinator.ImportOpen, Job: r.job}), coordinator.CodeJobNotEmpty)
		r.refused(r.store.Import(t.Context(), other.call(coordinator.ImportBegin)), coordinator.CodeJobNotEmpty)
		for _, step := range []coordinator.ImportStep{coordinator.ImportRenew, coordinator.ImportTasks, coordinator.ImportFinish} {
			r.refused(r.store.Import(t.Context(), other.call(step)), coordinator.CodeCheckpointDeleted)
		}
		r.check("drop", r.store.Import(t.Context(), other.call(coordinator.ImportDrop)))
		under.tasks(t, "a", part("a"))
		r.check("finish", under.finish(part("a")))
		r.refused(other.finish(part("a")), coordinator.CodeCheckpointDeleted)
	})
	s.rule(t, "an import is not finished while something is missing or too much", func(t *testing.T, r *rig) {
		r.openImport(5)
		content := part("a", "k", "1")
		for name, fill := range map[string]func(under underImport){
			"nothing is there":              func(underImport) {},
			"the part is missing":           func(u underImport) { u.shared(t, "s", "1"); u.tasks(t, "a", content) },
			"the acknowledgement":           func(u underImport) { u.shared(t, "s", "1"); u.upload(t, "a", content) },
			"the shared state is missing":   func(u underImport) { u.upload(t, "a", content); u.tasks(t, "a", content) },
			"there is a part nobody counts": func(u underImport) { u.upload(t, "b", part("b", "k", "1")); u.fill(t, "a", content) },
			"there is a task nobody counts": func(u underImport) { u.fill(t, "a", content); u.tasks(t, "b", part("b")) },
		} {
			under := r.beginImport(3)
			fill(under)
			if code := coordinator.CodeOf(under.finish(content)); code != coordinator.CodeSnapshotDamaged {
				t.Errorf("%s: finished with %q", name, code)
			}
			r.getRefused(coordinator.CodeCheckpointDeleted, 3)
			r.check("drop", r.store.Import(t.Context(), under.call(coordinator.ImportDrop)))
			r.sweep()
		}
		r.check("open", r.store.Import(t.Context(), coordinator.ImportCall{Step: coordinator.ImportOpen, Job: r.job}))
	})
	s.rule(t, "one that is left in the middle of its import goes by itself, and its id is not free", func(t *testing.T, r *rig) {
		r.openImport(5)
		under := r.beginImport(3)
		under.upload(t, "a", part("a", "k", "1"))
		under.shared(t, "s", "1")
		named := under.call(coordinator.ImportTasks)
		named.Checkpoint.NamedTasks, named.Tasks = true, []coordinator.TaskState{{TaskID: "b", Status: coordinator.TaskMissing}}
		r.check("tasks", r.store.Import(t.Context(), named))
		r.reopen()
		r.clock.Advance(600)
		r.check("renew", r.store.Import(t.Context(), under.call(coordinator.ImportRenew)))
		place := r.position()
		r.clock.Advance(1000)
		r.sweep()
		r.check("tasks", r.store.Import(t.Context(), named))
		r.clock.Advance(1)
		r.sweep()
		r.refused(under.finish(part("a", "k", "1")), coordinator.CodeCheckpointDeleted)
		r.getRefused(coordinator.CodeCheckpointDeleted, 3)
		r.wantEvents(place)
		r.check("open", r.store.Import(t.Context(), coordinator.ImportCall{Step: coordinator.ImportOpen, Job: r.job}))
		equal(t, "the next id", r.trigger(requires(1)).ID, 5)
	})
	s.rule(t, "the deletion of a job takes what is under import with it", func(t *testing.T, r *rig) {
		r = r.in("orders")
		r.openImport(5)
		under := r.beginImport(3)
		under.upload(t, "a", part("a", "k", "1"))
		r.deleteJob(false)
		r.refused(under.finish(part("a", "k", "1")), coordinator.CodeJobNotFound)
		r.openImport(5)
		r.refused(under.finish(part("a", "k", "1")), coordinator.CodeCheckpointDeleted)
		again := r.beginImport(3)
		again.fill(t, "a", part("a", "k", "2"))
		r.check("finish", again.finish(part("a", "k", "2")))
		equal(t, "the restore", r.restored(3), `{"key":"s","value":1}`+"\n"+`{"taskId":"a","key":"k","value":2}`+"\n")
	})
}

// underImport is a checkpoint that an import has begun.
type underImport struct {
	*rig
	id    int64
	token string
}

func (r *rig) openImport(next int64) {
	r.t.Helper()
	r.check("open", r.store.Import(r.t.Context(), coordinator.ImportCall{Step: coordinator.ImportOpen, Job: r.job, NextID: next, Epoch: 2}))
}

// beginImport begins one with a lease of a second.
func (r *rig) beginImport(id int64) underImport {
	r.t.Helper()
	under := underImport{rig: r, id: id, token: r.token()}
	r.check("begin", r.store.Import(r.t.Context(), under.call(coordinator.ImportBegin)))
	return under
}

func (u underImport) call(step coordinator.ImportStep) coordinator.ImportCall {
	return coordinator.ImportCall{Step: step, Job: u.job, Checkpoint: coordinator.Checkpoint{ID: u.id}, LeaseMs: 1000, Token: u.token}
}

func (u underImport) upload(t *testing.T, task string, content coordinator.PartContent) {
	t.Helper()
	u.rig.upload(u.id, task, content, func(c *coordinator.UploadCall) { c.Import = u.token })
}

func (u underImport) shared(t *testing.T, key, value string) {
	t.Helper()
	_, err := u.store.WriteShared(t.Context(), coordinator.SharedWrite{
		Job: u.job, ID: u.id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: key, Value: []byte(value)}}, Import: u.token,
	})
	u.check("write the shared state", err)
}

// tasks acknowledges a part.
func (u underImport) tasks(t *testing.T, task string, content coordinator.PartContent) {
	t.Helper()
	call := u.call(coordinator.ImportTasks)
	call.Tasks = []coordinator.TaskState{{TaskID: task, Status: coordinator.TaskAcknowledged, Ack: &coordinator.Ack{TaskID: task, AcknowledgedAt: 1, Part: info(content)}}}
	u.check("tasks", u.store.Import(t.Context(), call))
}

// fill does all that finish wants.
func (u underImport) fill(t *testing.T, task string, content coordinator.PartContent) {
	t.Helper()
	u.shared(t, "s", "1")
	u.upload(t, task, content)
	u.tasks(t, task, content)
}

// finish wants the part, an entry of shared state if the part has any, and nothing else.
func (u underImport) finish(content coordinator.PartContent) error {
	call := u.call(coordinator.ImportFinish)
	part := info(content)
	call.Checkpoint = coordinator.Checkpoint{
		ID: u.id, Status: coordinator.StatusCompleted, RequiredTaskAcks: 1, AcknowledgedTasks: 1, SnapshotVersion: 1, Revision: 1, EndedAt: 7,
		Entries: part.Entries, Bytes: part.Bytes,
	}
	if part.Bytes > 0 {
		line := int64(len(`{"key":"s","value":1}`) + 1)
		call.Parts = 1
		call.Checkpoint.SharedEntries, call.Checkpoint.SharedBytes = 1, line
		call.Checkpoint.Entries, call.Checkpoint.Bytes = part.Entries+1, part.Bytes+line
	}
	return u.store.Import(u.t.Context(), call)
}

// touch tries all that reaches a checkpoint by its id; token is for those calls that take that of an import.
func (r *rig) touch(id int64, token string) map[string]error {
	ctx, store := r.t.Context(), r.store
	touched := map[string]error{}
	_, touched["get"] = store.Get(ctx, r.ref(id))
	_, touched["tasks"] = store.Tasks(ctx, coordinator.TasksCall{Ref: r.ref(id), Limit: 9})
	_, touched["task"] = store.Task(ctx, r.ref(id), "a")
	_, touched["acknowledge"] = store.Acknowledge(ctx, r.ackCall(id, coordinator.AckItem{TaskID: "b"}))
	_, touched["complete"] = store.Complete(ctx, r.completeCall(id, true))
	_, touched["abort"] = store.Abort(ctx, coordinator.AbortCall{Job: r.job, ID: id, Token: r.token()})
	_, touched["extend"] = store.Extend(ctx, coordinator.ExtendCall{Job: r.job, ID: id, TimeoutMs: 9})
	_, touched["update"] = store.Update(ctx, coordinator.UpdateCall{Job: r.job, ID: id, Pinned: new(true)})
	touched["delete"] = store.Delete(ctx, coordinator.DeleteCall{Job: r.job, ID: id, Force: true})
	_, touched["open a restore"] = store.OpenRestore(ctx, r.restoreCall(id))
	_, touched["shared state"] = store.SharedState(ctx, r.ref(id))
	_, touched["shared entry"] = store.SharedEntry(ctx, r.ref(id), "s")
	_, touched["upload"] = store.BeginUpload(ctx, coordinator.UploadCall{Job: r.job, ID: id, TaskID: "b", Token: r.token(), Import: token})
	_, touched["shared"] = store.WriteShared(ctx, coordinator.SharedWrite{
		Job: r.job, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "t", Value: []byte("1")}}, Import: token,
	})
	return touched
}

// Move brings a job from a storage into others in turn, and demands the same text of all of them.
func Move(t *testing.T, from Factory, to ...Factory) {
	t.Helper()
	source := newRig(t, from(t)).in("orders")
	source.fill()
	text := source.export()
	for _, factory := range to {
		r := newRig(t, factory(t)).in("orders")
		r.clock.Set(source.clock.Now())
		r.check("import", r.importInto("orders", text))
		moved := r.export()
		if diff := cmp.Diff(text, moved); diff != "" {
			t.Errorf("the export (-before +after):\n%s", diff)
		}
		text = moved
	}
}

// fill makes a job that has some of everything.
func (r *rig) fill() {
	r.t.Helper()
	r.putJob(coordinator.JobSettings{Keep: new(9), Description: "what <it> is & does"})
	large := part("é", "k", `"`+strings.Repeat("x", coordinator.ChunkBytes)+`"`, "l", "1.0")
	first := r.trigger(requires(3))
	r.shared(first.ID, "s", "1", "\u00fc\n", `{"a":9007199254740993}`)
	r.uploadAndAck(first.ID, "é", large, uploadAttempt(1))
	r.accept(first.ID, "a", with(part("a", "k", "null")), attempt(2))
	r.clock.Advance(7)
	r.accept(first.ID, "empty")
	r.recover("")
	forced := r.trigger(named("a", "b", "c"))
	r.accept(forced.ID, "b", with(part("b", "k", "[1]")))
	r.complete(forced.ID, true)
	r.pin(forced.ID, true)
	declined := r.trigger(named("a", "b"))
	r.accept(declined.ID, "a", attempt(3))
	r.decline(declined.ID, "b")
	r.expired()
	last := r.trigger(requires(1), func(c *coordinator.TriggerCall) { c.Labels = map[string]string{"team": "<a&b>"} })
	r.accept(last.ID, "a", with(part("a", "k", "2")), attempt(3))
	r.trigger(requires(1))
}

func (r *rig) coordinator() *coordinator.Coordinator {
	return coordinator.New(r.store, coordinator.Options{Settings: r.defaults})
}

// export gives the job as text.
func (r *rig) export() string {
	r.t.Helper()
	export, err := r.coordinator().OpenExport(r.t.Context(), r.job)
	r.check("export", err)
	var text bytes.Buffer
	r.check("export", export.Write(r.t.Context(), &text))
	return text.String()
}

// importInto reads a text and brings it into a job.
func (r *rig) importInto(job, text string) error {
	r.t.Helper()
	read, err := archive.Read(strings.NewReader(text), 1<<30, r.t.TempDir(), nil)
	r.check("read", err)
	defer read.Close()
	return r.coordinator().Import(context.WithoutCancel(r.t.Context()), job, read)
}

var errFailing = errors.New("this is as far as it goes")

// failingArchive ends at a checkpoint.
type failingArchive struct {
	coordinator.Archive
	at int
}

// Checkpoint fails there.
func (a *failingArchive) Checkpoint(number int) (coordinator.ImportedCheckpoint, error) {
	if number == a.at {
		return coordinator.ImportedCheckpoint{}, errFailing
	}
	return a.Archive.Checkpoint(number)
}
