package storetest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// transfers are the calls that move bytes: uploads and restores, which stay open over
// other calls.
func (g *game) transfers() map[string]func(*rapid.T) move {
	return map[string]func(*rapid.T) move{
		"begin an upload":   g.drawUpload,
		"begin an upload 2": g.drawUpload,
		"commit an upload": func(rt *rapid.T) move {
			n, ack := g.whichUpload(rt), rapid.Bool().Draw(rt, "ack")
			return func(p *player) string {
				u := p.uploads[n]
				result, err := u.upload.Commit(p.rig.t.Context(), coordinator.CommitCall{Part: info(u.part), Ack: ack, Retention: p.rig.defaults.Retention})
				switch {
				case err != nil:
					return p.late(err)
				case result.Ack != nil && result.Ack.Refusal != nil:
					return p.late(result.Ack.Refusal)
				}
				p.endUpload(n)
				if result.Ack != nil {
					return p.outcome(*result.Ack)
				}
				return "committed"
			}
		},
		"check an upload": func(rt *rapid.T) move {
			n := g.whichUpload(rt)
			return func(p *player) string {
				if err := p.uploads[n].upload.Check(p.rig.t.Context()); err != nil {
					return p.late(err)
				}
				return "well"
			}
		},
		"discard an upload": func(rt *rapid.T) move {
			n := g.whichUpload(rt)
			return func(p *player) string {
				p.endUpload(n)
				return ""
			}
		},
		"restore": func(rt *rapid.T) move {
			// A lease of 0 is none. The others meet no sum of the clock's steps, since whether a
			// lease holds in the very millisecond of its end is left open.
			call := g.drawRestore(rt, 0, 30_007, 300_007)
			return func(p *player) string {
				source, err := p.rig.store.OpenRestore(p.rig.t.Context(), call(p))
				if err != nil {
					return p.refusal(err)
				}
				text := p.snapshot(source)
				p.rig.check("release", source.Release(p.rig.t.Context()))
				p.rig.check("close", source.Close())
				return text
			}
		},
		"open a restore": func(rt *rapid.T) move {
			call := g.drawRestore(rt, 30_007, 300_007)
			return func(p *player) string {
				source, err := p.rig.store.OpenRestore(p.rig.t.Context(), call(p))
				if err != nil {
					return p.refusal(err)
				}
				p.restores = append(p.restores, source)
				return "opened"
			}
		},
		"renew a restore": func(rt *rapid.T) move {
			n := g.whichRestore(rt)
			return func(p *player) string {
				if err := p.restores[n].Renew(p.rig.t.Context()); err != nil {
					return p.refusal(err)
				}
				return "renewed"
			}
		},
		"release a restore": func(rt *rapid.T) move {
			n := g.whichRestore(rt)
			return func(p *player) string {
				p.rig.check("release", p.restores[n].Release(p.rig.t.Context()))
				p.rig.check("close restore", p.restores[n].Close())
				p.restores = slices.Delete(p.restores, n, n+1)
				return ""
			}
		},
	}
}

func (g *game) whichUpload(rt *rapid.T) int {
	running := len(g.players[0].uploads)
	if running == 0 {
		rt.Skip("no upload runs")
	}
	return rapid.IntRange(0, running-1).Draw(rt, "upload")
}

func (g *game) whichRestore(rt *rapid.T) int {
	open := len(g.players[0].restores)
	if open == 0 {
		rt.Skip("no restore is open")
	}
	return rapid.IntRange(0, open-1).Draw(rt, "restore")
}

// endUpload discards an upload, which is also what ends a committed one.
func (p *player) endUpload(n int) {
	p.rig.check("discard", p.uploads[n].upload.Discard(p.rig.t.Context()))
	p.uploads = slices.Delete(p.uploads, n, n+1)
}

func (g *game) drawUpload(rt *rapid.T) move {
	n, task := g.which(rt), gameTasks.Draw(rt, "task")
	content := gamePart(task, rapid.IntRange(1, 4).Draw(rt, "part"))
	call := coordinator.UploadCall{TaskID: task, Attempt: rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(rt, "attempt"), Epoch: whichEpoch(rt)}
	return func(p *player) string {
		call := call
		call.Job, call.ID, call.Token = p.rig.job, p.id(n), p.rig.token()
		upload, err := p.rig.store.BeginUpload(p.rig.t.Context(), call)
		if err != nil {
			return p.late(err)
		}
		for index, chunk := range chunks(content.Content) {
			p.rig.check(fmt.Sprintf("write chunk %d", index), upload.WriteChunk(p.rig.t.Context(), index, chunk))
		}
		p.uploads = append(p.uploads, runningUpload{upload, content})
		return "begun"
	}
}

func (g *game) drawRestore(rt *rapid.T, leases ...int64) func(*player) coordinator.RestoreCall {
	n := rapid.IntRange(-1, g.triggers()).Draw(rt, "checkpoint")
	call := coordinator.RestoreCall{Shared: rapid.Bool().Draw(rt, "shared"), LeaseMs: rapid.SampledFrom(leases).Draw(rt, "lease")}
	if rapid.IntRange(0, 2).Draw(rt, "selection") == 0 {
		call.Tasks = rapid.SliceOfNDistinct(gameTasks, 1, 2, rapid.ID).Draw(rt, "tasks")
	}
	return func(p *player) coordinator.RestoreCall {
		call := call
		call.Ref, call.Token = p.rig.ref(p.id(n)), p.rig.token()
		return call
	}
}
