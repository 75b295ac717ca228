package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestOpenRestoreScript(t *testing.T) {
	t.Parallel()

	open := func(l *lab, id int64, lease int) reply { return l.run(openRestoreScript, id, 1, "lease", lease) }

	t.Run("leases what is completed, also when Redis is full", func(t *testing.T) {
		t.Parallel()
		l := labOn(t, redistest.Start(t, redistest.Options{Own: true}), "orders")
		l.record(7, values{"status": "completed", "sentries": "1", "sdigest": "sha256:s"})
		l.do("HSET", l.keys.state(7), "a", "1")
		l.ack(7, "a", "0", piece("u", 1))
		l.do("ZADD", l.keys.leases(7), labTime-1, "over")
		l.do("CONFIG", "SET", "maxmemory", 1)
		r := l.word(open(l, 7, 60_000), "ok")
		l.same("shared digest", r.body[1], any("sha256:s"))
		l.same("leases", l.members(l.keys.leases(7)), []string{"lease"})
		l.same("lease", l.redis.ZScore(t.Context(), l.keys.leases(7), "lease").Val(), float64(labTime+60_000))
	})

	t.Run("takes no lease of no length", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(7, values{"status": "completed"})
		l.unchanged(func() { l.word(open(l, 7, 0), "ok") })
	})

	t.Run("refuses what cannot be restored, and leases nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(5, values{"start": decimal(labTime - 60_001)})
		l.record(6, values{})
		l.record(7, values{"status": "completed", "version": "2"})
		l.record(8, values{"status": "completed", "sentries": "1"})
		l.record(9, values{"status": "completed"})
		l.ack(9, "a", "0", piece("u", 1))
		l.do("DEL", l.keys.acked(9))
		l.unchanged(func() {
			r := l.word(open(l, 5, 60_000), "checkpoint_not_completed")
			l.same("arguments", r.body, []any{"5", "expired"})
			l.word(open(l, 6, 60_000), "checkpoint_not_completed")
			r = l.word(open(l, 7, 60_000), "unsupported_version")
			l.same("arguments", r.body, []any{"7", "2"})
			r = l.word(open(l, 8, 60_000), "damaged")
			l.same("arguments", r.body, []any{"8", "the shared state"})
			r = l.word(open(l, 9, 60_000), "damaged")
			l.same("arguments", r.body, []any{"9", "the order of acknowledgements"})
		})
		l.do("SET", l.keys.state(8), "foreign")
		l.word(open(l, 8, 60_000), "damaged")
	})
}

func TestRenewLeaseScript(t *testing.T) {
	t.Parallel()
	l := labOn(t, redistest.Start(t, redistest.Options{Own: true}), "orders")
	l.record(7, values{"status": "completed"})
	l.do("CONFIG", "SET", "maxmemory", 1)
	for range 2 {
		l.word(l.run(renewLeaseScript, 7, "lease", 60_000), "ok")
		l.same("lease", l.redis.ZScore(t.Context(), l.keys.leases(7), "lease").Val(), float64(labTime+60_000))
	}
	l.do("DEL", l.keys.record(7))
	l.word(l.run(renewLeaseScript, 7, "lease", 60_000), "inconsistent")
	l.word(l.run(deleteScript, 7, "0", "0", 0), "ok")
	l.word(l.run(renewLeaseScript, 7, "lease", 60_000), "checkpoint_deleted")
}

func TestReleaseLeaseScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"status": "completed"})
	l.run(renewLeaseScript, 7, "lease", 60_000)
	l.run(renewLeaseScript, 7, "other", 60_000)
	l.word(l.run(releaseLeaseScript, 7, "lease"), "ok")
	l.same("leases", l.members(l.keys.leases(7)), []string{"other"})
	l.unchanged(func() {
		l.word(l.run(releaseLeaseScript, 7, "lease"), "ok")
		l.word(l.run(releaseLeaseScript, 99, "lease"), "ok")
	})
}

func TestMarkDamagedScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"status": "completed"})
	l.record(8, values{})
	l.word(l.run(markDamagedScript, 7, "the shared state", "ada"), "ok")
	l.same("damage", l.field(l.keys.record(7), "damage"), "the shared state")
	l.same("revision", l.field(l.keys.record(7), "rev"), "2")
	l.unchanged(func() {
		l.word(l.run(markDamagedScript, 7, "something else", "ada"), "ok")
		l.word(l.run(markDamagedScript, 8, "the shared state", "ada"), "ok")
		l.word(l.run(markDamagedScript, 99, "the shared state", "ada"), "ok")
	})
}

func TestALostListOfCompletedCheckpointsIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	s := l.store()
	l.record(7, values{"status": "completed"})
	l.record(8, values{})
	l.do("DEL", l.keys.completed())
	_, err := s.Get(t.Context(), l.ref(coordinator.Latest))
	l.refused(err, coordinator.CodeSnapshotDamaged)
	_, err = s.Recover(t.Context(), coordinator.RecoverCall{Job: l.job})
	l.refused(err, coordinator.CodeSnapshotDamaged)
	l.same("epoch", l.field(l.keys.job(), "epoch"), "0") // rebuilt, and not raised

	_, err = s.Update(t.Context(), coordinator.UpdateCall{Job: l.job, ID: 7, Repaired: true})
	l.ok(err)
	got, err := s.Get(t.Context(), l.ref(coordinator.Latest))
	l.ok(err)
	l.same("latest", got.ID, int64(7))
	l.ok(s.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: 7}))
	_, err = s.Get(t.Context(), l.ref(coordinator.Latest))
	l.refused(err, coordinator.CodeNoCompletedCheckpoint)
}

func TestAcknowledgementsThatWereLostAreDamage(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.completed(content(100))
	l.do("DEL", l.keys.acks(7))
	for _, id := range []int64{7, coordinator.Latest} {
		_, err := l.store().Get(t.Context(), l.ref(id))
		l.refused(err, coordinator.CodeSnapshotDamaged)
	}
	l.record(5, values{"status": "completed"})
	got, err := coordinator.New(l.store(), coordinator.Options{}).Get(t.Context(), l.ref(coordinator.Latest))
	l.ok(err)
	l.same("latest", got.ID, int64(5))
}

func TestSaveDigestScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(saveDigestScript, 7, "digest", "sha256:d"), "ok")
	l.record(7, values{"status": "completed"})
	l.record(8, values{})
	l.word(l.run(saveDigestScript, "latest", "digest", "sha256:d"), "ok")
	l.same("digest", l.field(l.keys.record(7), "digest"), "sha256:d")
	l.same("revision", l.field(l.keys.record(7), "rev"), "1")
	l.unchanged(func() {
		l.word(l.run(saveDigestScript, 7, "digest", "sha256:d"), "ok")
		l.word(l.run(saveDigestScript, 8, "digest", "sha256:d"), "ok")
		l.word(l.run(saveDigestScript, 99, "digest", "sha256:d"), "ok")
	})
}
