package storetest

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Few tasks, keys and values, so that calls meet.
var (
	gameTasks  = rapid.SampledFrom([]string{"a", "b", "c", "é"})
	gameKeys   = rapid.SampledFrom([]string{"", "", "", "key-1", "key-2"})
	gameBodies = rapid.SampledFrom([]string{"body", "body", "body", "other body"})
	gameNames  = rapid.SampledFrom([]string{"k", "l", "é", "\U0001F600", "\uffff"})
	gameValues = rapid.SampledFrom([]string{"1", "1.0", "null", `"a b"`, `{"b":1,"a":[]}`})
	gameEpochs = rapid.SampledFrom([]int64{-1, -1, -1, 0, 1, 2})
	gameCaller = rapid.SampledFrom([]string{"", "", "ops", "ann@example.org"})
)

// which draws a checkpoint: mostly one that was triggered, the newest above all, at times
// one that was not.
func (g *game) which(rt *rapid.T) int {
	if g.triggers() > 0 && rapid.IntRange(0, 2).Draw(rt, "of the newest") == 0 {
		return g.triggers() - 1
	}
	return rapid.IntRange(0, g.triggers()).Draw(rt, "checkpoint")
}

func whichEpoch(rt *rapid.T) *int64 {
	if e := gameEpochs.Draw(rt, "epoch"); e >= 0 {
		return &e
	}
	return nil
}

// whichPart draws the number of a part of a task, 0 for none.
func whichPart(rt *rapid.T) int { return rapid.IntRange(0, 4).Draw(rt, "part") }

func gamePart(task string, n int) coordinator.PartContent {
	switch n {
	case 1:
		return part(task)
	case 2:
		return part(task, "k", "1")
	case 3:
		return part(task, "k", "2", "l", "null")
	default:
		return bigPart(task, coordinator.ChunkBytes+n)
	}
}

func whichCondition(rt *rapid.T, of string) func(*player) coordinator.Precondition {
	kind := rapid.IntRange(0, 7).Draw(rt, "condition")
	return func(p *player) coordinator.Precondition {
		switch kind {
		case 0:
			return coordinator.Precondition{IfMatch: []string{p.tags[of], "0-0"}}
		case 1:
			return coordinator.Precondition{IfMatch: []string{"none"}}
		case 2:
			return coordinator.Precondition{IfMatch: []string{"*"}}
		default:
			return coordinator.Precondition{}
		}
	}
}

// changes are the calls that change checkpoints.
func (g *game) changes() map[string]func(*rapid.T) move {
	return map[string]func(*rapid.T) move{
		"trigger": g.drawTrigger, "trigger again": g.drawTrigger, "trigger and complete": g.drawCompleted, "trigger and complete again": g.drawCompleted, "ack": g.drawAck, "ack again": g.drawAck, "ack more": g.drawAck,
		"complete": func(rt *rapid.T) move {
			n, force, by := g.which(rt), rapid.Bool().Draw(rt, "force"), gameCaller.Draw(rt, "caller")
			return func(p *player) string {
				call := p.rig.completeCall(p.id(n), force)
				call.By = by
				return p.answer(p.rig.store.Complete(p.rig.t.Context(), call))
			}
		},
		"abort": func(rt *rapid.T) move {
			call := coordinator.AbortCall{
				Epoch: whichEpoch(rt), Message: rapid.SampledFrom([]string{"", "why"}).Draw(rt, "message"), By: gameCaller.Draw(rt, "caller"),
			}
			n := g.which(rt)
			if rapid.Bool().Draw(rt, "decline") {
				call.TaskID, call.Attempt = gameTasks.Draw(rt, "task"), rapid.Int64Range(0, 3).Draw(rt, "attempt")
			}
			return func(p *player) string {
				call := call
				call.Job, call.ID, call.Token = p.rig.job, p.id(n), p.rig.token()
				c, err := p.rig.store.Abort(p.rig.t.Context(), call)
				if err != nil {
					return p.late(err)
				}
				return p.checkpoint(&c)
			}
		},
		"extend": func(rt *rapid.T) move {
			n, more := g.which(rt), rapid.SampledFrom([]int64{1, 500, 5000, 100_000}).Draw(rt, "ms")
			return func(p *player) string {
				return p.answer(p.rig.store.Extend(p.rig.t.Context(), coordinator.ExtendCall{Job: p.rig.job, ID: p.id(n), TimeoutMs: more}))
			}
		},
		"update": func(rt *rapid.T) move {
			n, condition := g.which(rt), whichCondition(rt, "checkpoint")
			call := coordinator.UpdateCall{By: gameCaller.Draw(rt, "caller")}
			if rapid.Bool().Draw(rt, "change the pin") {
				call.Pinned = new(rapid.Bool().Draw(rt, "pin"))
			}
			if rapid.IntRange(0, 2).Draw(rt, "set aside or take back") == 0 {
				call.SetAside = new(rapid.Bool().Draw(rt, "aside"))
			}
			if rapid.Bool().Draw(rt, "change the words") {
				call.Labels, call.Description = &map[string]string{"n": fmt.Sprint(n)}, new("words")
			}
			return func(p *player) string {
				call := call
				call.Job, call.ID, call.If = p.rig.job, p.id(n), condition(p)
				return p.answer(p.rig.store.Update(p.rig.t.Context(), call))
			}
		},
		"delete": func(rt *rapid.T) move {
			n, condition := g.which(rt), whichCondition(rt, "checkpoint")
			call := coordinator.DeleteCall{Force: rapid.Bool().Draw(rt, "force"), By: gameCaller.Draw(rt, "caller")}
			return func(p *player) string {
				call := call
				call.Job, call.ID, call.If = p.rig.job, p.id(n), condition(p)
				err := p.rig.store.Delete(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				return "deleted"
			}
		},
		"cleanup": func(rt *rapid.T) move {
			call := coordinator.CleanupCall{
				Keep: rapid.IntRange(0, 6).Draw(rt, "keep"), DryRun: rapid.Bool().Draw(rt, "dry"),
				Max: rapid.SampledFrom([]int{1, 2, coordinator.CleanupStep}).Draw(rt, "at most"), By: gameCaller.Draw(rt, "caller"),
			}
			return func(p *player) string {
				call := call
				call.Job = p.rig.job
				result, err := p.rig.store.Cleanup(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				return fmt.Sprintf("deleted %s skipped %s kept %d more %v", p.numbers(result.Deleted), p.numbers(result.Skipped), result.Kept, result.More)
			}
		},
		"recover": func(rt *rapid.T) move {
			key, body, by := gameKeys.Draw(rt, "key"), gameBodies.Draw(rt, "body"), gameCaller.Draw(rt, "caller")
			named, n := rapid.IntRange(0, 3).Draw(rt, "to one by its id") == 0, g.which(rt)
			return func(p *player) string {
				call := p.rig.recoverCall(key)
				call.Fingerprint, call.By = body, by
				if named {
					call.CheckpointID = new(p.id(n))
				}
				result, err := p.rig.store.Recover(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				text := fmt.Sprintf("epoch %d repeated %v", result.Epoch, result.Repeated)
				if !result.Repeated {
					// Which overdue ones it ended besides depends on who looked at them before.
					text += " superseded " + p.sorted(slices.DeleteFunc(result.Ended, func(id int64) bool {
						return p.rig.get(id).Status != coordinator.StatusAborted
					}))
				}
				if result.Checkpoint != nil {
					text += " " + p.checkpoint(result.Checkpoint)
				}
				return text
			}
		},
		"write shared state": g.drawSharedWrite, "write shared state again": g.drawSharedWrite,
	}
}

func (g *game) drawTrigger(rt *rapid.T) move {
	call := coordinator.TriggerCall{
		Force:       rapid.Bool().Draw(rt, "force"),
		Pinned:      rapid.IntRange(0, 5).Draw(rt, "pinned") == 0,
		By:          gameCaller.Draw(rt, "caller"),
		Idempotency: coordinator.Idempotency{Key: gameKeys.Draw(rt, "key"), Fingerprint: gameBodies.Draw(rt, "body")},
	}
	if ms := rapid.SampledFrom([]int64{-1, 0, 1000, 60_000}).Draw(rt, "timeout"); ms >= 0 {
		call.TimeoutMs = &ms
	}
	switch rapid.IntRange(0, 4).Draw(rt, "who") {
	case 0: // the settings say
	case 1, 2:
		call.Tasks = rapid.SliceOfNDistinct(gameTasks, 1, 3, rapid.ID).Draw(rt, "tasks")
	default:
		call.RequiredTaskAcks = rapid.IntRange(1, 3).Draw(rt, "required")
	}
	return func(p *player) string {
		call := call
		call.Job, call.Token, call.Defaults = p.rig.job, p.rig.token(), p.rig.defaults
		result, err := p.rig.store.Trigger(p.rig.t.Context(), call)
		if err == nil && !result.Repeated {
			p.ids = append(p.ids, result.Checkpoint.ID)
		}
		return fmt.Sprintf("repeated %v %s", result.Repeated, p.answer(result.Checkpoint, err))
	}
}

// drawCompleted makes a checkpoint and completes it, or retention would seldom have much
// to choose from.
func (g *game) drawCompleted(rt *rapid.T) move {
	content := gamePart("z", rapid.IntRange(1, 4).Draw(rt, "part"))
	return func(p *player) string {
		result, err := p.rig.store.Trigger(p.rig.t.Context(), p.rig.triggerCall(forced(), named("z"), timeout(60_000)))
		if err != nil {
			return p.refusal(err)
		}
		p.ids = append(p.ids, result.Checkpoint.ID)
		call := p.rig.ackCall(result.Checkpoint.ID, item("z", with(content)))
		return p.ackAnswer(p.rig.store.Acknowledge(p.rig.t.Context(), call))
	}
}

func (g *game) drawAck(rt *rapid.T) move {
	n := g.which(rt)
	items := make([]coordinator.AckItem, rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(rt, "items"))
	for i := range items {
		task := gameTasks.Draw(rt, "task")
		items[i] = item(task, attempt(rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2}).Draw(rt, "attempt")))
		items[i].Epoch = whichEpoch(rt)
		if p := whichPart(rt); p > 0 {
			items[i].Part = new(gamePart(task, p))
		}
		if d := rapid.IntRange(0, 12).Draw(rt, "digest of part"); d >= 2 && d <= 4 {
			items[i].Digest = gamePart(task, d).Digest
		}
	}
	return func(p *player) string {
		return p.ackAnswer(p.rig.store.Acknowledge(p.rig.t.Context(), p.rig.ackCall(p.id(n), items...)))
	}
}

func (g *game) drawSharedWrite(rt *rapid.T) move {
	n := g.which(rt)
	call := coordinator.SharedWrite{Op: rapid.SampledFrom([]coordinator.SharedOp{coordinator.SharedPut, coordinator.SharedPut, coordinator.SharedDelete, coordinator.SharedClear}).Draw(rt, "operation")}
	condition := whichCondition(rt, "shared")
	switch {
	case call.Op == coordinator.SharedDelete || call.Op == coordinator.SharedPut && rapid.Bool().Draw(rt, "single"):
		call.Single = true
		call.Entries = entries(gameNames.Draw(rt, "key"), gameValues.Draw(rt, "value"))
		condition = whichCondition(rt, "entry "+call.Entries[0].Key)
		if call.Op == coordinator.SharedPut && rapid.IntRange(0, 4).Draw(rt, "only if new") == 0 {
			condition = func(*player) coordinator.Precondition { return coordinator.Precondition{IfNoneMatch: true} }
		}
	case call.Op == coordinator.SharedPut:
		for _, key := range rapid.SliceOfNDistinct(gameNames, 0, 3, rapid.ID).Draw(rt, "keys") {
			call.Entries = append(call.Entries, entries(key, gameValues.Draw(rt, "value"))...)
		}
	}
	return func(p *player) string {
		call := call
		call.Job, call.ID, call.If = p.rig.job, p.id(n), condition(p)
		written, err := p.rig.store.WriteShared(p.rig.t.Context(), call)
		if err != nil {
			return p.refusal(err)
		}
		return fmt.Sprintf("created %v %s", written.Created, p.checkpoint(&written.Checkpoint))
	}
}

// times are what time does.
func (g *game) times() map[string]func(*rapid.T) move {
	sweep := func(p *player) string {
		p.rig.sweep()
		return ""
	}
	return map[string]func(*rapid.T) move{
		"advance the clock": func(rt *rapid.T) move {
			ms := rapid.SampledFrom([]int64{1, 499, 1000, 1001, 30_000, 60_001, 700_000}).Draw(rt, "ms")
			// Uploads that nobody checked for so long have lost their leases, and what they
			// are told then is a store's own affair.
			for _, p := range g.players {
				for ms >= 30_000 && len(p.uploads) > 0 {
					p.endUpload(0)
				}
			}
			g.clock.Advance(ms)
			if g.swept {
				return sweep
			}
			return func(*player) string { return "" }
		},
		// A step back takes derived but unwritten expiry back as well; in life the sweeper
		// has written it within a second, so it does here.
		"step the clock back": func(rt *rapid.T) move {
			ms := rapid.SampledFrom([]int64{1, 700, 100_000}).Draw(rt, "ms")
			for _, p := range g.players {
				sweep(p)
			}
			g.clock.Advance(-ms)
			return sweep
		},
		"sweep": func(*rapid.T) move { return sweep },
		"restart": func(*rapid.T) move {
			return func(p *player) string {
				for _, source := range p.restores {
					p.rig.check("close restore", source.Close())
				}
				p.restores, p.uploads = nil, nil
				p.rig.reopen()
				return ""
			}
		},
	}
}

// readings are the calls that change nothing.
func (g *game) readings() map[string]func(*rapid.T) move {
	anyOne := func(rt *rapid.T) int { return rapid.IntRange(-1, g.triggers()).Draw(rt, "checkpoint") }
	return map[string]func(*rapid.T) move{
		"get": func(rt *rapid.T) move {
			n := anyOne(rt)
			return func(p *player) string {
				detail, err := p.rig.store.Get(p.rig.t.Context(), p.rig.ref(p.id(n)))
				if err != nil {
					return p.refusal(err)
				}
				lines := []string{p.checkpoint(&detail.Checkpoint)}
				for _, ack := range detail.Acks {
					lines = append(lines, p.ack(ack))
				}
				return strings.Join(lines, "\n")
			}
		},
		"list": func(rt *rapid.T) move {
			call := coordinator.ListCall{
				Status: rapid.SampledFrom([]coordinator.Status{"", coordinator.StatusPending, coordinator.StatusCompleted, coordinator.StatusExpired, coordinator.StatusAborted}).Draw(rt, "status"),
				Before: -1, Limit: rapid.SampledFrom([]int{1, 2, 20}).Draw(rt, "limit"),
				NotAckedBy: rapid.SampledFrom([]string{"", "", "a", "stranger"}).Draw(rt, "not acked by"),
			}
			return func(p *player) string { return p.list(call) }
		},
		"tasks": func(rt *rapid.T) move {
			n, call := anyOne(rt), coordinator.TasksCall{
				Status: rapid.SampledFrom([]coordinator.TaskStatus{"", coordinator.TaskAcknowledged, coordinator.TaskMissing}).Draw(rt, "status"),
				Limit:  rapid.SampledFrom([]int{1, 10}).Draw(rt, "limit"),
			}
			return func(p *player) string {
				call := call
				call.Ref = p.rig.ref(p.id(n))
				var lines []string
				for {
					page, err := p.rig.store.Tasks(p.rig.t.Context(), call)
					if err != nil {
						return p.refusal(err)
					}
					for _, task := range page.Tasks {
						lines = append(lines, p.task(task))
					}
					if call.After = page.Next; page.Next == "" {
						return strings.Join(append(lines, p.checkpoint(&page.Checkpoint)), "\n")
					}
				}
			}
		},
		"task": func(rt *rapid.T) move {
			n, task := anyOne(rt), gameTasks.Draw(rt, "task")
			return func(p *player) string {
				state, err := p.rig.store.Task(p.rig.t.Context(), p.rig.ref(p.id(n)), task)
				if err != nil {
					return p.refusal(err)
				}
				return p.task(state)
			}
		},
		"read shared state": func(rt *rapid.T) move {
			n := anyOne(rt)
			return func(p *player) string {
				state, err := p.rig.store.SharedState(p.rig.t.Context(), p.rig.ref(p.id(n)))
				if err != nil {
					return p.refusal(err)
				}
				lines := []string{p.checkpoint(&state.Checkpoint)}
				for _, entry := range state.Entries {
					lines = append(lines, fmt.Sprintf("%q %s", entry.Key, entry.Value))
				}
				return strings.Join(lines, "\n")
			}
		},
		"read an entry": func(rt *rapid.T) move {
			n, key := anyOne(rt), gameNames.Draw(rt, "key")
			return func(p *player) string {
				entry, err := p.rig.store.SharedEntry(p.rig.t.Context(), p.rig.ref(p.id(n)), key)
				if err != nil {
					return p.refusal(err)
				}
				p.tags["entry "+key] = entry.Tag
				return string(entry.Value) + " " + p.checkpoint(&entry.Checkpoint)
			}
		},
	}
}
