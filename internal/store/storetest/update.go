package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testUpdate(t *testing.T, s suite) {
	s.rule(t, "labels, description and pin change in any status, and only what is given", func(t *testing.T, r *rig) {
		for _, c := range []coordinator.Checkpoint{r.trigger(requires(2)), r.completed(), r.aborted()} {
			labels := map[string]string{"a": "1", "é": ""}
			_, err := r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, Labels: &labels, Description: new("d")})
			r.check("update", err)
			r.pin(c.ID, true)
			got := r.get(c.ID)
			if diff := cmp.Diff(labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			equal(t, "description", got.Description, "d")
			equal(t, "pinned", got.Pinned, true)
			_, err = r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, Labels: &map[string]string{}, Description: new("")})
			r.check("update to nothing", err)
			got = r.get(c.ID)
			equal(t, "labels left", len(got.Labels), 0)
			equal(t, "description", got.Description, "")
			equal(t, "pinned", got.Pinned, true)
		}
	})
	s.rule(t, "every visible change is a new revision, and reading or repeating is none", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		last := c.Revision
		grown := func(what string) {
			t.Helper()
			if now := r.get(c.ID).Revision; now <= last {
				t.Errorf("revision %d after %s, was %d", now, what, last)
			} else {
				last = now
			}
		}
		r.accept(c.ID, "task-1")
		grown("an ack")
		r.extend(c.ID, 100_000)
		grown("an extension")
		r.pin(c.ID, true)
		grown("a pin")
		r.ack(c.ID, "task-1")
		r.get(c.ID)
		equal(t, "revision after a duplicate", r.get(c.ID).Revision, last)
		r.accept(c.ID, "task-2")
		grown("the completion")
		r.complete(c.ID, true)
		equal(t, "revision after completing it again", r.get(c.ID).Revision, last)
	})
	s.rule(t, "a precondition goes by the entity tag", func(t *testing.T, r *rig) {
		c := r.completed()
		tag := r.tag(c.ID)
		update := func(condition coordinator.Precondition) error {
			_, err := r.store.Update(t.Context(), coordinator.UpdateCall{Job: r.job, ID: c.ID, Description: new("d" + tag), If: condition})
			return err
		}
		r.refused(update(coordinator.Precondition{IfMatch: []string{"0-0"}}), coordinator.CodePreconditionFailed)
		r.refused(update(coordinator.Precondition{IfNoneMatch: true}), coordinator.CodePreconditionFailed)
		equal(t, "tag after refusals", r.tag(c.ID), tag)
		r.check("update with the tag", update(coordinator.Precondition{IfMatch: []string{"0-0", tag}}))
		r.refused(update(coordinator.Precondition{IfMatch: []string{tag}}), coordinator.CodePreconditionFailed)
		r.check("update of any", update(coordinator.Precondition{IfMatch: []string{"*"}}))
	})
	s.rule(t, "the digest of a snapshot is kept without a new revision, for completed ones only", func(t *testing.T, r *rig) {
		done, open := r.completed(), r.trigger()
		revision := r.get(done.ID).Revision
		d := digestOf([]byte("manifest"))
		for _, id := range []int64{done.ID, open.ID, 77} {
			r.check("save digest", r.store.SaveDigest(t.Context(), r.ref(id), d))
		}
		got := r.get(done.ID)
		equal(t, "digest", got.Digest, d)
		equal(t, "revision", got.Revision, revision)
		equal(t, "the digest of a pending one", r.get(open.ID).Digest, "")
	})
}
