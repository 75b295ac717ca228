package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestSweepGoesOverAllJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{"start": decimal(labTime - 60_001)})
	l.upload(7, "a", piece("u", 3))
	broken := newKeyspace(l.server.Prefix, "broken")
	l.do("SET", broken.deadlines(), "foreign")
	l.do("HSET", broken.job(), "next", 1)
	l.do("SADD", jobsKey(l.server.Prefix), "broken", "{no job}")

	err := l.store().Sweep(t.Context(), coordinator.SweepCall{Retention: coordinator.Retention{Keep: 5}})
	l.refused(err, coordinator.CodeInternal)
	l.same("status", l.field(l.keys.record(7), "status"), "expired")
	l.same("chunk is there", l.exists(l.keys.chunk(7, "u", 2)), false)
	l.same("garbage", l.members(l.keys.garbage()), []string{})
}

func TestListLooksThroughManyRecordsInSteps(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	const last = listLooks + 50
	for id := range int64(last + 1) {
		if id%500 == 3 {
			l.record(id, values{"status": "completed"})
			l.ack(id, "a", "0", storedPart{})
			continue
		}
		// Somebody else's keys, which the index names by mistake.
		l.do("ZADD", l.keys.index(), id, id)
	}
	s := l.store()
	result, err := s.List(t.Context(), coordinator.ListCall{Job: l.job, Before: -1, Limit: 2})
	l.ok(err)
	l.same("ids of the first page", ids(result.Checkpoints), []int64{1003, 503})
	l.same("next", result.Next, int64(503))
	result, err = s.List(t.Context(), coordinator.ListCall{Job: l.job, Before: result.Next, Limit: 2})
	l.ok(err)
	l.same("ids of the last page", ids(result.Checkpoints), []int64{3})
	l.same("next", result.Next, int64(-1))
}

func ids(checkpoints []coordinator.Checkpoint) []int64 {
	var all []int64
	for _, checkpoint := range checkpoints {
		all = append(all, checkpoint.ID)
	}
	return all
}
