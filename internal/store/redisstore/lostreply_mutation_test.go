package redisstore

import (
	"context"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// mutation is one mutating call of a store, in a job where it has something to do.
type mutation struct {
	name string
	// arrange prepares a fresh job and gives the call, which can be made again.
	arrange func(l *lossyLab) call
	// unheard says that the call ends checkpoints besides its own, of which nobody hears
	// when the reply is lost: no token finds them again.
	unheard bool
}

// call makes the call of a mutation and gives its answer.
type call func(ctx context.Context) (any, error)

const theToken = "the call"

// mutations are all mutating calls, by verb.
func mutations() []mutation {
	var all []mutation
	for _, some := range [][]mutation{
		triggers(), recoveries(), acknowledgements(), uploads(), ends(), removals(), sharedWrites(), restores(),
		settingsCalls(), schedules(), jobCalls(),
	} {
		all = append(all, some...)
	}
	return all
}

func triggers() []mutation {
	trigger := func(change func(*coordinator.TriggerCall)) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			c := coordinator.TriggerCall{
				Job: l.job, RequiredTaskAcks: 2, TimeoutMs: new(int64(60_000)), Defaults: coordinator.Settings{MaxConcurrent: 2, EventsToKeep: 10_000}, Description: "nightly",
				Idempotency: coordinator.Idempotency{Token: theToken},
			}
			change(&c)
			return func(ctx context.Context) (any, error) { return l.store.Trigger(ctx, c) }
		}
	}
	after := func(arrange func(l *lossyLab), then func(l *lossyLab) call) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			arrange(l)
			return then(l)
		}
	}
	one := func(l *lossyLab) { l.pending(1) }
	return []mutation{
		{name: "trigger", arrange: after(one, trigger(func(*coordinator.TriggerCall) {}))},
		{name: "trigger in the default job", arrange: trigger(func(c *coordinator.TriggerCall) { c.Job = coordinator.DefaultJob })},
		{name: "first trigger of a job", arrange: trigger(func(*coordinator.TriggerCall) {})},
		{name: "trigger with an Idempotency-Key", arrange: after(one, trigger(func(c *coordinator.TriggerCall) {
			c.Key, c.Fingerprint, c.Pinned = "key", "body", true
		}))},
		{name: "trigger with named tasks", arrange: after(one, trigger(func(c *coordinator.TriggerCall) { c.Tasks = []string{"a", "b"} }))},
		{name: "trigger with more names than one step takes", arrange: trigger(func(c *coordinator.TriggerCall) {
			for i := range 2*namesStep + 500 {
				c.Tasks = append(c.Tasks, fmt.Sprintf("task-%d", i))
			}
		})},
		{name: "trigger that takes the place of overdue ones", unheard: true, arrange: after(func(l *lossyLab) {
			l.pending(1)
			l.pending(1)
			l.now += 60_001
		}, trigger(func(*coordinator.TriggerCall) {}))},
	}
}

func recoveries() []mutation {
	recovery := func(arrange func(l *lossyLab), key string) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			arrange(l)
			c := coordinator.RecoverCall{Job: l.job, LeaseMs: 600_000, Idempotency: coordinator.Idempotency{
				Key: key, Fingerprint: "body", Token: theToken,
			}}
			return func(ctx context.Context) (any, error) { return l.store.Recover(ctx, c) }
		}
	}
	fleet := func(l *lossyLab) {
		l.pending(1)
		l.now += 60_001
		l.completed()
		l.uploading(l.pending(2), "up", "x\n")
		l.pending(1)
	}
	return []mutation{
		{name: "recover", arrange: recovery(fleet, "")},
		{name: "recover with an Idempotency-Key", arrange: recovery(fleet, "key")},
		{name: "recover of a new job", arrange: recovery(func(*lossyLab) {}, "")},
	}
}

func acknowledgements() []mutation {
	ack := func(arrange func(l *lossyLab) int64, keep int, items ...coordinator.AckItem) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			c := coordinator.AckCall{Job: l.job, ID: arrange(l), Items: items, Retention: coordinator.Retention{Keep: keep}, Token: theToken}
			return func(ctx context.Context) (any, error) { return l.store.Acknowledge(ctx, c) }
		}
	}
	waiting := func(required int, tasks ...string) func(l *lossyLab) int64 {
		return func(l *lossyLab) int64 {
			id := l.pending(required, tasks...)
			l.now += 40
			return id
		}
	}
	epoch := int64(0)
	a := coordinator.AckItem{TaskID: "a", Attempt: 1, Epoch: &epoch}
	withPart := coordinator.AckItem{TaskID: "a", Part: partContent(`{"taskId":"a","key":"k","value":1}` + "\n")}
	return []mutation{
		{name: "acknowledge", arrange: ack(waiting(2), 0, a)},
		{name: "acknowledge with a part", arrange: ack(waiting(2), 0, withPart)},
		{name: "acknowledge with a part in place of an uploaded one", arrange: ack(func(l *lossyLab) int64 {
			id := l.pending(2)
			l.commit(l.uploading(id, "up", "x\n"), "x\n", false)
			return id
		}, 0, withPart)},
		{name: "acknowledge as the last one", arrange: ack(func(l *lossyLab) int64 {
			for range 3 {
				l.completed()
			}
			id := l.pending(2)
			l.accept(id, "b")
			return id
		}, 2, a)},
		{name: "acknowledge as the last one of an old checkpoint", arrange: ack(func(l *lossyLab) int64 {
			id := l.pending(1)
			l.completed()
			l.completed()
			return id
		}, 2, a)},
		{name: "acknowledge again", arrange: ack(func(l *lossyLab) int64 {
			id := l.pending(2)
			l.accept(id, "a")
			return id
		}, 0, coordinator.AckItem{TaskID: "a", Attempt: 3})},
		{name: "acknowledge in bulk", arrange: ack(func(l *lossyLab) int64 {
			id := l.pending(0, "a", "b", "c", "d", "e")
			l.accept(id, "b")
			return id
		}, 0,
			coordinator.AckItem{TaskID: "stranger"},
			coordinator.AckItem{TaskID: "c", Digest: digestOf("nothing like it")},
			withPart, a,
			coordinator.AckItem{TaskID: "b", Attempt: 3},
			coordinator.AckItem{TaskID: "d", Attempt: 4},
		)},
		{name: "acknowledge in bulk until it is complete and beyond", arrange: ack(waiting(2), 0,
			coordinator.AckItem{TaskID: "c", Digest: digestOf("nothing like it")},
			a,
			coordinator.AckItem{TaskID: "a", Attempt: 1},
			withPart,
			coordinator.AckItem{TaskID: "b"},
			coordinator.AckItem{TaskID: "d"},
		)},
		{name: "acknowledge too late", unheard: true, arrange: ack(func(l *lossyLab) int64 {
			id := l.pending(1)
			l.now += 60_001
			return id
		}, 0, a)},
	}
}

// commit commits an upload, with or without an acknowledgement.
func (l *lossyLab) commit(u *upload, lines string, ack bool) {
	l.Helper()
	_, err := u.Commit(l.Context(), coordinator.CommitCall{Part: partInfo(lines), Ack: ack})
	l.ok(err)
}

func uploads() []mutation {
	const lines = `{"taskId":"a","key":"k","value":2}` + "\n"
	long := string(content(coordinator.ChunkBytes + 5))
	commit := func(required int, ack bool, arrange func(l *lossyLab, id int64)) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			l.completed()
			id := l.pending(required)
			arrange(l, id)
			u := l.uploading(id, "up", lines)
			return func(ctx context.Context) (any, error) {
				return u.Commit(ctx, coordinator.CommitCall{Part: partInfo(lines), Ack: ack, Retention: coordinator.Retention{Keep: 1}})
			}
		}
	}
	nothing := func(*lossyLab, int64) {}
	return []mutation{
		{name: "begin an upload", arrange: func(l *lossyLab) call {
			c := l.uploadCall(l.pending(1), "up")
			return func(ctx context.Context) (any, error) { _, err := l.store.BeginUpload(ctx, c); return nil, err }
		}},
		{name: "write a chunk", arrange: func(l *lossyLab) call {
			u := l.uploading(l.pending(1), "up", long[:coordinator.ChunkBytes])
			return func(ctx context.Context) (any, error) {
				if err := u.WriteChunk(ctx, 1, []byte(long[coordinator.ChunkBytes:])); err != nil {
					return nil, err
				}
				return nil, u.settle(context.WithoutCancel(ctx))
			}
		}},
		{name: "check an upload", arrange: func(l *lossyLab) call {
			u := l.uploading(l.pending(1), "up", lines)
			l.now += 2000
			return func(ctx context.Context) (any, error) { return nil, u.Check(ctx) }
		}},
		{name: "discard an upload", arrange: func(l *lossyLab) call {
			u := l.uploading(l.pending(1), "up", lines)
			return func(ctx context.Context) (any, error) { return nil, u.Discard(ctx) }
		}},
		{name: "commit an upload", arrange: commit(1, false, nothing)},
		{name: "commit an upload in place of another", arrange: commit(1, false, func(l *lossyLab, id int64) {
			l.commit(l.uploading(id, "earlier", "x\n"), "x\n", false)
		})},
		{name: "commit and acknowledge an upload", arrange: commit(2, true, nothing)},
		{name: "commit and acknowledge an upload as the last one", arrange: commit(1, true, nothing)},
		{name: "commit and acknowledge an upload as the last one of an old checkpoint", arrange: commit(1, true, func(l *lossyLab, _ int64) {
			l.completed()
		})},
		{name: "upload from the beginning to the end", arrange: func(l *lossyLab) call {
			id := l.pending(2)
			return func(ctx context.Context) (any, error) {
				u, err := l.store.BeginUpload(ctx, l.uploadCall(id, "up"))
				if err != nil {
					return nil, err
				}
				if err := u.WriteChunk(ctx, 0, []byte(lines)); err != nil {
					return nil, err
				}
				if err := u.ReadAt(ctx, make([]byte, 2), 1); err != nil {
					return nil, err
				}
				if err := u.Check(ctx); err != nil {
					return nil, err
				}
				return u.Commit(ctx, coordinator.CommitCall{Part: partInfo(lines)})
			}
		}},
	}
}

func ends() []mutation {
	complete := func(required, keep int, force bool) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			old := l.completed()
			l.completed()
			id := l.pending(required)
			l.commit(l.uploading(id, "up", "x\n"), "x\n", false)
			l.now += 30
			l.same("the first id", old, int64(0))
			c := coordinator.CompleteCall{Job: l.job, ID: id, Force: force, Retention: coordinator.Retention{Keep: keep}, Token: theToken}
			return func(ctx context.Context) (any, error) { return l.store.Complete(ctx, c) }
		}
	}
	abort := func(change func(*coordinator.AbortCall)) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			id := l.pending(2)
			l.commit(l.uploading(id, "up", "x\n"), "x\n", false)
			_, err := l.store.WriteShared(l.Context(), l.put(id, "k", "1"))
			l.ok(err)
			c := coordinator.AbortCall{Job: l.job, ID: id, Message: "no disk", Token: theToken}
			change(&c)
			return func(ctx context.Context) (any, error) { return l.store.Abort(ctx, c) }
		}
	}
	return []mutation{
		{name: "complete by hand", arrange: complete(3, 0, true)},
		{name: "complete by hand and evict", arrange: complete(3, 1, true)},
		{name: "complete an old one by hand", arrange: func(l *lossyLab) call {
			c := coordinator.CompleteCall{Job: l.job, ID: l.pending(1), Force: true, Retention: coordinator.Retention{Keep: 1}, Token: theToken}
			l.completed()
			return func(ctx context.Context) (any, error) { return l.store.Complete(ctx, c) }
		}},
		{name: "complete although acknowledgements are missing", arrange: complete(3, 0, false)},
		{name: "abort", arrange: abort(func(*coordinator.AbortCall) {})},
		{name: "decline", arrange: abort(func(c *coordinator.AbortCall) { c.TaskID, c.Attempt = "a", 4 })},
		{name: "abort the oldest of too many that ended", arrange: func(l *lossyLab) call {
			c := coordinator.AbortCall{Job: l.job, ID: l.pending(1), Message: "no disk", Token: theToken}
			for range coordinator.EndedKept {
				l.aborted()
			}
			return func(ctx context.Context) (any, error) { return l.store.Abort(ctx, c) }
		}},
		{name: "extend", arrange: func(l *lossyLab) call {
			c := coordinator.ExtendCall{Job: l.job, ID: l.pending(1), TimeoutMs: 90_000}
			return func(ctx context.Context) (any, error) { return l.store.Extend(ctx, c) }
		}},
	}
}

func removals() []mutation {
	remove := func(id func(l *lossyLab) int64) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			c := coordinator.DeleteCall{Job: l.job, ID: id(l), Force: true}
			return func(ctx context.Context) (any, error) { return nil, l.store.Delete(ctx, c) }
		}
	}
	return []mutation{
		{name: "update", arrange: func(l *lossyLab) call {
			labels, description, pinned := map[string]string{"team": "billing"}, "before the move", true
			c := coordinator.UpdateCall{Job: l.job, ID: l.completed(), Labels: &labels, Description: &description, Pinned: &pinned}
			return func(ctx context.Context) (any, error) { return l.store.Update(ctx, c) }
		}},
		{name: "delete a completed one", arrange: remove((*lossyLab).completed)},
		{name: "delete a pending one", arrange: remove(func(l *lossyLab) int64 { return l.pending(1, "a", "b") })},
		{name: "a step of a cleanup", arrange: func(l *lossyLab) call {
			for range 2 {
				l.completed()
				l.aborted()
				l.pending(1)
			}
			c := coordinator.CleanupCall{Job: l.job, Keep: 1, Max: 3}
			return func(ctx context.Context) (any, error) { return l.store.Cleanup(ctx, c) }
		}},
		{name: "a sweep", unheard: true, arrange: func(l *lossyLab) call {
			id := l.pending(1)
			l.commit(l.uploading(id, "up", "x\n"), "x\n", false)
			l.uploading(id, "lost", "y\n")
			for range 3 {
				l.completed()
			}
			l.do("ZADD", l.keys.stages(), l.now, "gone")
			l.names("gone", "a", "b")
			l.now += 60_001
			return func(ctx context.Context) (any, error) {
				return nil, l.store.Sweep(ctx, coordinator.SweepCall{Retention: coordinator.Retention{Keep: 1}})
			}
		}},
	}
}

func sharedWrites() []mutation {
	write := func(change func(*coordinator.SharedWrite)) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			id := l.pending(1)
			_, err := l.store.WriteShared(l.Context(), l.put(id, "k", "1"))
			l.ok(err)
			c := l.put(id, "k", `{"p0":11}`)
			change(&c)
			return func(ctx context.Context) (any, error) { return l.store.WriteShared(ctx, c) }
		}
	}
	return []mutation{
		{name: "put a shared entry", arrange: write(func(*coordinator.SharedWrite) {})},
		{name: "put shared entries", arrange: write(func(c *coordinator.SharedWrite) {
			c.Single = false
			c.Entries = append(c.Entries, coordinator.SharedEntry{Key: "l", Value: []byte("null")})
		})},
		{name: "delete a shared entry", arrange: write(func(c *coordinator.SharedWrite) {
			c.Op, c.Entries = coordinator.SharedDelete, []coordinator.SharedEntry{{Key: "k"}}
		})},
		{name: "clear the shared state", arrange: write(func(c *coordinator.SharedWrite) {
			c.Op, c.Single, c.Entries = coordinator.SharedClear, false, nil
		})},
	}
}

func restores() []mutation {
	// opened is what a caller sees of an open restore.
	type opened struct {
		Checkpoint coordinator.Checkpoint
		Parts      []coordinator.ManifestPart
	}
	return []mutation{
		{name: "open a restore", arrange: func(l *lossyLab) call {
			c := l.restoreCall(l.completed())
			return func(ctx context.Context) (any, error) {
				source, err := l.store.OpenRestore(ctx, c)
				if err != nil {
					return nil, err
				}
				return opened{source.Checkpoint(), source.Parts()}, nil
			}
		}},
		{name: "renew the lease of a restore", arrange: func(l *lossyLab) call {
			source := l.restoring(l.completed())
			l.now += 20_000
			return func(ctx context.Context) (any, error) { return nil, source.Renew(ctx) }
		}},
		{name: "release the lease of a restore", arrange: func(l *lossyLab) call {
			source := l.restoring(l.completed())
			return func(ctx context.Context) (any, error) { return nil, source.Release(ctx) }
		}},
		{name: "mark a checkpoint as damaged", arrange: func(l *lossyLab) call {
			damage := coordinator.DamageCall{Job: l.job, ID: l.completed(), What: "the shared state", By: "ada"}
			return func(ctx context.Context) (any, error) { return nil, l.store.MarkDamaged(ctx, damage) }
		}},
		{name: "save a digest", arrange: func(l *lossyLab) call {
			ref := l.ref(l.completed())
			return func(ctx context.Context) (any, error) { return nil, l.store.SaveDigest(ctx, ref, digestOf("manifest")) }
		}},
	}
}
