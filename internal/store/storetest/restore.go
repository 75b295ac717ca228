package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func testRestore(t *testing.T, s suite) {
	testRestoreContents(t, s)
	testRestoreLease(t, s)
	testRestoreDamage(t, s)
}

func testRestoreContents(t *testing.T, s suite) {
	s.rule(t, "shared entries come first by key, then the parts by task id in byte order, entries as uploaded", func(t *testing.T, r *rig) {
		ids := []string{"b", "a", "é", "Z", "\U0001F600", "\uffff", "a/b", "10", "9"}
		c := r.trigger(requires(len(ids)))
		r.shared(c.ID, "s2", "2", "S1", "1")
		for i, id := range ids {
			p := part(id, "z", "1", "a", "2", "m", fmt.Sprint(i))
			if i%2 == 0 {
				r.uploadAndAck(c.ID, id, p)
			} else {
				r.accept(c.ID, id, with(p))
			}
		}
		all := []byte(sharedLines("S1", "1", "s2", "2"))
		for _, id := range slices.Sorted(slices.Values(ids)) {
			i := slices.Index(ids, id)
			all = append(all, part(id, "z", "1", "a", "2", "m", fmt.Sprint(i)).Content...)
		}
		want := string(all)
		for range 2 {
			equal(t, "the snapshot", r.restored(c.ID), want)
		}
		equal(t, "the latest snapshot", r.restored(coordinator.Latest), want)
		equal(t, "bytes", r.get(c.ID).Bytes, int64(len(want)))
		equal(t, "entries", r.get(c.ID).Entries, int64(strings.Count(want, "\n")))
	})
	s.rule(t, "every acknowledged task has a part and the shared state has one, empty ones too", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "b", with(part("b", "k", "1")))
		r.accept(c.ID, "a")
		source := r.openRestore(r.restoreCall(c.ID))
		want := []coordinator.ManifestPart{
			{Shared: true, PartInfo: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
			{TaskID: "a", PartInfo: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
			{TaskID: "b", PartInfo: info(part("b", "k", "1"))},
		}
		if diff := cmp.Diff(want, source.Parts()); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
		equal(t, "checkpoint", source.Checkpoint().ID, c.ID)
		equal(t, "status", source.Checkpoint().Status, coordinator.StatusCompleted)
		r.check("release", source.Release(t.Context()))
	})
	s.rule(t, "selected tasks give those parts only, with shared state when asked for", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		r.shared(c.ID, "s", "1")
		for _, task := range []string{"a", "b", "c"} {
			r.accept(c.ID, task, with(part(task, "k", "1")))
		}
		a, b := string(part("a", "k", "1").Content), string(part("b", "k", "1").Content)
		equal(t, "one part", r.restored(c.ID, "b"), b)
		equal(t, "two parts, in restore order", r.restored(c.ID, "b", "a"), a+b)
		call := r.restoreCall(c.ID, "b")
		call.Shared = true
		source := r.openRestore(call)
		want := []coordinator.ManifestPart{
			{Shared: true, PartInfo: info(part(snapshot.Shared, "s", "1"))},
			{TaskID: "b", PartInfo: info(part("b", "k", "1"))},
		}
		if diff := cmp.Diff(want, source.Parts()); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
		got, err := r.read(source, 0, 0, want[0].Bytes)
		r.check("read shared state", err)
		equal(t, "shared state", string(got), sharedLines("s", "1"))
		r.check("release", source.Release(t.Context()))
	})
	s.rule(t, "a task that did not acknowledge has no part to select", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.upload(c.ID, "b", part("b", "k", "1"))
		r.accept(c.ID, "a")
		r.complete(c.ID, true)
		for _, task := range []string{"b", "stranger"} {
			_, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID, "a", task))
			r.refused(err, map[string]coordinator.Code{"b": coordinator.CodeTaskAbsent, "stranger": coordinator.CodeTaskNotInCheckpoint}[task])
		}
	})
	s.rule(t, "a task that a completion by force did without is absent, which is no fresh start", func(t *testing.T, r *rig) {
		restore := func(id int64, task string) error {
			_, err := r.store.OpenRestore(t.Context(), r.restoreCall(id, task))
			return err
		}
		r.putJob(coordinator.JobSettings{Tasks: []string{"a", "b"}})
		bySettings, byNames := r.trigger(leftOpen()), r.trigger(named("a", "b"))
		r.putJob(coordinator.JobSettings{})
		counted := r.trigger(requires(3))
		for _, c := range []coordinator.Checkpoint{bySettings, byNames, counted} {
			r.accept(c.ID, "a")
			r.complete(c.ID, true)
		}
		for _, id := range []int64{bySettings.ID, byNames.ID, counted.ID, coordinator.Latest} {
			r.refused(restore(id, "b"), coordinator.CodeTaskAbsent)
			r.refused(restore(id, "a"), "")
		}
		state, err := r.store.Task(t.Context(), r.ref(bySettings.ID), "b")
		r.check("task", err)
		equal(t, "the absent task", state.Status, coordinator.TaskMissing)
		whole := r.completed()
		r.refused(restore(whole.ID, "b"), coordinator.CodeTaskNotInCheckpoint)
	})
	s.rule(t, "an import keeps the tasks that a completion by force did without", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.accept(c.ID, "a")
		r.complete(c.ID, true)
		other := r.in("copy")
		r.check("import", r.importInto(other.job, r.export()))
		_, err := other.store.OpenRestore(t.Context(), other.restoreCall(c.ID, "b"))
		r.refused(err, coordinator.CodeTaskAbsent)
	})
	s.rule(t, "only a completed checkpoint can be restored", func(t *testing.T, r *rig) {
		pending, gone, deleted := r.trigger(), r.aborted(), r.aborted()
		r.delete(deleted.ID)
		for id, want := range map[int64]coordinator.Code{
			pending.ID: coordinator.CodeCheckpointNotCompleted, gone.ID: coordinator.CodeCheckpointNotCompleted,
			deleted.ID: coordinator.CodeCheckpointDeleted, deleted.ID + 1: coordinator.CodeCheckpointNotFound,
			coordinator.Latest: coordinator.CodeNoCompletedCheckpoint,
		} {
			_, err := r.store.OpenRestore(t.Context(), r.restoreCall(id))
			r.refused(err, want)
		}
	})
	s.rule(t, "any range of bytes reads as it stands in the whole", func(t *testing.T, r *rig) {
		const chunk = coordinator.ChunkBytes
		c := r.trigger(requires(2))
		small, big := part("a", "k", `"0123456789"`), bigPart("b", 3*chunk+100)
		r.accept(c.ID, "a", with(small))
		r.uploadAndAck(c.ID, "b", big)
		source := r.openRestore(r.restoreCall(c.ID))
		for i, p := range map[int]coordinator.PartContent{1: small, 2: big} {
			size := int64(len(p.Content))
			// Every class of offset and end: the edges of the part, of a chunk, and within.
			edges := []int64{0, 1, 7, size / 2, size - 1, size, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 3 * chunk, 3*chunk + 1}
			for _, from := range edges {
				for _, to := range edges {
					if from >= to || to > size {
						continue
					}
					got, err := r.read(source, i, from, to-from)
					r.check("read", err)
					equal(t, fmt.Sprintf("bytes %d to %d of part %d are right", from, to, i), string(got) == string(p.Content[from:to]), true)
				}
			}
		}
		r.check("release", source.Release(t.Context()))
	})
	s.rule(t, "a long value of shared state reads by ranges too", func(t *testing.T, r *rig) {
		const chunk = coordinator.ChunkBytes
		c := r.trigger()
		value := `"` + strings.Repeat("0123456789", 60_000) + `"`
		r.shared(c.ID, "a", "1", "long", value, "z", "2")
		r.accept(c.ID, "task-1")
		want := sharedLines("a", "1", "long", value, "z", "2")
		source := r.openRestore(r.restoreCall(c.ID))
		size := int64(len(want))
		equal(t, "bytes", source.Parts()[0].Bytes, size)
		for _, span := range [][2]int64{{0, 1}, {0, size}, {size - 3, size}, {chunk - 1, chunk + 1}, {5, 2 * chunk}, {2 * chunk, size}} {
			got, err := r.read(source, 0, span[0], span[1]-span[0])
			r.check("read", err)
			equal(t, fmt.Sprintf("bytes %d to %d are right", span[0], span[1]), string(got) == want[span[0]:span[1]], true)
		}
		r.check("release", source.Release(t.Context()))
	})
}

func testRestoreLease(t *testing.T, s suite) {
	// lastOne makes a completed checkpoint that only a lease protects from a cleanup.
	lastOne := func(r *rig) (coordinator.Checkpoint, coordinator.RestoreSource) {
		c := r.completed()
		return c, r.openRestore(r.restoreCall(c.ID))
	}
	s.rule(t, "an open restore holds its checkpoint until it gives the lease back", func(t *testing.T, r *rig) {
		c, source := lastOne(r)
		r.wantIDs("deleted", r.cleanup(0).Deleted)
		r.check("release", source.Release(t.Context()))
		r.wantIDs("deleted after the release", r.cleanup(0).Deleted, c.ID)
	})
	s.rule(t, "a lease outlives a transfer that broke off by its time and no longer", func(t *testing.T, r *rig) {
		c, source := lastOne(r)
		r.check("close", source.Close())
		r.clock.Advance(restoreLease - 1)
		r.wantIDs("deleted", r.cleanup(0).Deleted)
		r.clock.Advance(2)
		r.wantIDs("deleted after the lease", r.cleanup(0).Deleted, c.ID)
	})
	s.rule(t, "renewing holds the checkpoint for as long as it goes on", func(t *testing.T, r *rig) {
		c, source := lastOne(r)
		for range 5 {
			r.clock.Advance(restoreLease - 1)
			r.check("renew", source.Renew(t.Context()))
			r.sweep()
		}
		r.wantIDs("deleted", r.cleanup(0).Deleted)
		r.wantStatus(c.ID, coordinator.StatusCompleted)
	})
	s.rule(t, "two restores hold it until both are through", func(t *testing.T, r *rig) {
		c, first := lastOne(r)
		second := r.openRestore(r.restoreCall(c.ID))
		r.check("release", first.Release(t.Context()))
		r.wantIDs("deleted", r.cleanup(0).Deleted)
		r.check("release", second.Release(t.Context()))
		r.wantIDs("deleted after both", r.cleanup(0).Deleted, c.ID)
	})
	s.rule(t, "a look at the manifest takes no lease", func(t *testing.T, r *rig) {
		c := r.completed()
		call := r.restoreCall(c.ID)
		call.LeaseMs = 0
		r.openRestore(call)
		r.wantIDs("deleted", r.cleanup(0).Deleted, c.ID)
	})
	s.rule(t, "a restore that is refused leaves no lease", func(t *testing.T, r *rig) {
		c := r.completed()
		_, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID, "stranger"))
		r.refused(err, coordinator.CodeTaskNotInCheckpoint)
		r.wantIDs("deleted", r.cleanup(0).Deleted, c.ID)
	})
	s.rule(t, "deletion breaks a running restore off, which is never a short success", func(t *testing.T, r *rig) {
		c := r.trigger()
		p := bigPart("task-1", 5*coordinator.ChunkBytes)
		r.uploadAndAck(c.ID, "task-1", p)
		source := r.openRestore(r.restoreCall(c.ID))
		_, err := r.read(source, 1, 0, coordinator.ChunkBytes)
		r.check("read of the first chunk", err)
		r.delete(c.ID)
		r.sweep()
		// What is still read must be right; that all of it can still be read is allowed.
		for at := int64(0); at < int64(len(p.Content)); at += coordinator.ChunkBytes {
			got, err := r.read(source, 1, at, coordinator.ChunkBytes)
			if err != nil {
				// Why it breaks off is the caller's business to find out, with Renew.
				if code := coordinator.CodeOf(err); code != coordinator.CodeSnapshotDamaged {
					r.refused(err, coordinator.CodeCheckpointDeleted)
				}
			} else {
				equal(t, fmt.Sprintf("the chunk at %d is right", at), string(got) == string(p.Content[at:at+coordinator.ChunkBytes]), true)
			}
		}
		r.refused(source.Renew(t.Context()), coordinator.CodeCheckpointDeleted)
		_, err = r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
		r.refused(err, coordinator.CodeCheckpointDeleted)
	})
	s.rule(t, "a restore of a checkpoint deleted meanwhile can still be released and closed", func(t *testing.T, r *rig) {
		c, source := lastOne(r)
		r.delete(c.ID)
		r.check("release", source.Release(t.Context()))
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
	})
	s.rule(t, "a lease survives a restart of all servers", func(t *testing.T, r *rig) {
		c := r.completed()
		source, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
		r.check("open restore", err)
		r.check("close", source.Close())
		r.reopen()
		r.wantIDs("deleted", r.cleanup(0).Deleted)
		r.clock.Advance(restoreLease + 1)
		r.wantIDs("deleted after the lease", r.cleanup(0).Deleted, c.ID)
	})
}

func testRestoreDamage(t *testing.T, s suite) {
	s.rule(t, "a snapshot of a newer version is refused, and latest and recovery pass it over", func(t *testing.T, r *rig) {
		if r.storage.Damage == nil {
			t.Skip("this storage offers no way to change a record")
		}
		older, c := r.completed(), r.completed()
		r.betweenRuns(func() {
			r.storage.Damage(t, Damage{Job: r.job, ID: c.ID, TaskID: "task-1", Kind: NewerVersion})
		})
		_, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
		r.refused(err, coordinator.CodeUnsupportedVersion)
		equal(t, "version", r.get(c.ID).SnapshotVersion, 2)
		equal(t, "latest", r.get(coordinator.Latest).ID, older.ID)
		equal(t, "what latest restores", r.openRestore(r.restoreCall(coordinator.Latest)).Checkpoint().ID, older.ID)
		equal(t, "where a fleet goes on", r.recover("").Checkpoint.ID, older.ID)
		r.delete(older.ID)
		r.getRefused(coordinator.CodeUnsupportedVersion, coordinator.Latest)
		_, err = r.store.OpenRestore(t.Context(), r.restoreCall(coordinator.Latest))
		r.refused(err, coordinator.CodeUnsupportedVersion)
		before := r.state().Epoch
		_, err = r.store.Recover(t.Context(), r.recoverCall(""))
		r.refused(err, coordinator.CodeUnsupportedVersion)
		equal(t, "epoch", r.state().Epoch, before)
		r.wantIDs("deleted, so that the refused restores left no lease", r.cleanup(0).Deleted, c.ID)
	})
	for _, damage := range []struct {
		what string
		kind DamageKind
	}{{"lost its last piece", LoseLast}, {"lost its last byte", Cut}} {
		for _, size := range []int{100, 100_000, 3*coordinator.ChunkBytes + 100} {
			s.rule(t, fmt.Sprintf("a part of %d bytes that %s is damaged, never a short success", size, damage.what), func(t *testing.T, r *rig) {
				if r.storage.Damage == nil {
					t.Skip("this storage offers no way to damage a part")
				}
				r.tolerant = true
				c := r.trigger(requires(2))
				r.uploadAndAck(c.ID, "a", bigPart("a", size))
				r.uploadAndAck(c.ID, "b", part("b", "k", "1"))
				healthy := r.completed()
				r.betweenRuns(func() {
					r.storage.Damage(t, Damage{Job: r.job, ID: c.ID, TaskID: "a", Kind: damage.kind})
				})
				source, err := r.store.OpenRestore(t.Context(), r.restoreCall(c.ID, "a"))
				if err == nil {
					defer func() { r.check("close", source.Close()) }()
					_, err = r.read(source, 0, 0, int64(size))
				}
				r.refused(err, coordinator.CodeSnapshotDamaged)
				// The damage is that part's alone.
				equal(t, "another part", r.restored(c.ID, "b"), string(part("b", "k", "1").Content))
				equal(t, "another checkpoint", r.restored(healthy.ID), string(part("task-1", "k", "1").Content))
				r.wantIDs("the list", r.list(coordinator.ListCall{}), healthy.ID, c.ID)
				r.delete(c.ID)
				r.sweep()
				r.trigger()
			})
		}
	}
}
