package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// optional draws a setting that is often left to the server.
func optional[T any](rt *rapid.T, what string, values ...T) *T {
	if rapid.IntRange(0, 2).Draw(rt, what+" of its own") > 0 {
		return nil
	}
	return new(rapid.SampledFrom(values).Draw(rt, what))
}

func drawSettings(rt *rapid.T) coordinator.JobSettings {
	settings := coordinator.JobSettings{
		RequiredTaskAcks:  optional(rt, "required", 1, 2),
		TimeoutMs:         optional[int64](rt, "timeout", 0, 1000, 5000),
		IntervalMs:        optional[int64](rt, "interval", 0, 7, 1000, 30_000),
		MinPauseMs:        optional[int64](rt, "pause", 0, 1500),
		MaxConcurrent:     optional(rt, "cap", 1, 3),
		TolerableFailures: optional(rt, "tolerable", 0, 1),
		Keep:              optional(rt, "keep", 0, 1, 2),
		MaxAgeMs:          optional[int64](rt, "age", 0, 999, 60_001),
		MaxBytes:          optional[int64](rt, "bytes", 0, 60, coordinator.ChunkBytes),
		Paused:            rapid.IntRange(0, 4).Draw(rt, "paused") == 0,
		Description:       rapid.SampledFrom([]string{"", "é\n"}).Draw(rt, "description"),
	}
	if rapid.IntRange(0, 3).Draw(rt, "tasks of its own") == 0 {
		settings.RequiredTaskAcks = nil
		settings.Tasks = rapid.SliceOfNDistinct(gameTasks, 1, 3, rapid.ID).Draw(rt, "tasks")
		settings.NamedTasks = len(settings.Tasks)
	}
	return settings
}

var gameJitters = rapid.SampledFrom([]float64{0, 0.3, 0.999})

// jobChanges are the calls that change the job as a whole.
func (g *game) jobChanges() map[string]func(*rapid.T) move {
	tick := func(rt *rapid.T) move {
		jitter := gameJitters.Draw(rt, "jitter")
		return func(p *player) string {
			call := p.rig.dueCall()
			call.Jitter = jitter
			result, err := p.rig.store.TriggerIfDue(p.rig.t.Context(), call)
			if err != nil {
				return p.refusal(err)
			}
			text := "nothing"
			if result.Triggered != nil {
				p.ids = append(p.ids, result.Triggered.ID)
				text = p.checkpoint(result.Triggered)
			}
			return text + "\n" + p.schedule(result.Schedule)
		}
	}
	return map[string]func(*rapid.T) move{
		"tick": tick,
		// Most games never come to a due time by themselves.
		"tick when due": func(rt *rapid.T) move {
			due := g.players[0].rig.state().Schedule.Due
			if wait := due - g.clock.Now(); due > 0 && wait > 0 && len(g.players[0].uploads) == 0 {
				g.clock.Advance(wait + rapid.SampledFrom([]int64{0, 0, 1, 500, 501, 3000}).Draw(rt, "late"))
				if g.swept {
					for _, p := range g.players {
						p.rig.sweep()
					}
				}
			}
			return tick(rt)
		},
		"put job": func(rt *rapid.T) move {
			settings, jitter, condition := drawSettings(rt), gameJitters.Draw(rt, "jitter"), whichCondition(rt, "job")
			onlyNew, by := rapid.IntRange(0, 9).Draw(rt, "only if new") == 0, gameCaller.Draw(rt, "caller")
			return func(p *player) string {
				call := p.rig.putCall(settings)
				call.Jitter, call.If, call.By = jitter, condition(p), by
				call.If.IfNoneMatch = onlyNew
				result, err := p.rig.store.PutJob(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				return fmt.Sprintf("created %v %s", result.Created, p.job(&result.State))
			}
		},
		"patch job": func(rt *rapid.T) move {
			patch := coordinator.JobPatch{
				JobSettings: drawSettings(rt), Paused: optional(rt, "pause", true, false), Description: optional(rt, "text", "", "other"),
			}
			jitter, condition, by := gameJitters.Draw(rt, "jitter"), whichCondition(rt, "job"), gameCaller.Draw(rt, "caller")
			return func(p *player) string {
				call := p.rig.patchCall(patch)
				call.Jitter, call.If, call.By = jitter, condition(p), by
				result, err := p.rig.store.PutJob(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				return fmt.Sprintf("created %v %s", result.Created, p.job(&result.State))
			}
		},
		"delete job": func(rt *rapid.T) move {
			if rapid.IntRange(0, 5).Draw(rt, "seldom") > 0 {
				rt.Skip("not now")
			}
			call := coordinator.DeleteJobCall{
				Force: rapid.Bool().Draw(rt, "force"), Max: rapid.SampledFrom([]int{1, 2, coordinator.CleanupStep}).Draw(rt, "at most"),
				By: gameCaller.Draw(rt, "caller"),
			}
			condition := whichCondition(rt, "job")
			return func(p *player) string {
				call := call
				call.Job, call.If = p.rig.job, condition(p)
				result, err := p.rig.store.DeleteJob(p.rig.t.Context(), call)
				if err != nil {
					return p.refusal(err)
				}
				return fmt.Sprintf("more %v", result.More)
			}
		},
		"forget a task": func(rt *rapid.T) move {
			task := gameTasks.Draw(rt, "task")
			return func(p *player) string {
				p.rig.forgetTask(task)
				return ""
			}
		},
		"record a restore": func(rt *rapid.T) move {
			restore := coordinator.RestoreRecord{CheckpointID: 7, Bytes: rapid.Int64Range(0, 9).Draw(rt, "bytes"), Finished: rapid.Bool().Draw(rt, "finished"), By: "worker"}
			return func(p *player) string {
				p.rig.recordRestore(restore)
				return ""
			}
		},
	}
}

// jobReadings are the calls that read the job as a whole.
func (g *game) jobReadings() map[string]func(*rapid.T) move {
	return map[string]func(*rapid.T) move{
		"jobs": func(*rapid.T) move {
			return func(p *player) string {
				job := p.rig.state()
				return p.job(&job)
			}
		},
		"job": func(*rapid.T) move {
			return func(p *player) string {
				job := p.rig.jobState()
				p.tags["job"] = job.Tag()
				return fmt.Sprintf("%s tasks %q", p.job(&job), job.Settings.Tasks)
			}
		},
		"resume": func(rt *rapid.T) move {
			n, limit := rapid.IntRange(0, 1000).Draw(rt, "event"), rapid.SampledFrom([]int{1, 3, coordinator.MaxEvents}).Draw(rt, "limit")
			return func(p *player) string {
				p.resume(n, limit)
				return ""
			}
		},
	}
}
