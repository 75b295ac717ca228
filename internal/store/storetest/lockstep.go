package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// testLockstep drives the store under test beside the reference.
func testLockstep(t *testing.T, s suite) {
	t.Run("random calls are answered as the design says", func(t *testing.T) {
		t.Parallel()
		Lockstep(t, referenceFactory, s.factory)
	})
}

// referenceFactory makes a reference that survives its handles, as a storage does.
func referenceFactory(testing.TB) Storage {
	var kept *reference
	return Storage{
		Open: func(_ testing.TB, options Options) coordinator.Store {
			if kept == nil {
				kept = newReference(options)
			}
			return kept
		},
	}
}

// Lockstep sends the same random calls to two stores, with the same clock, and compares
// every answer and refusal. A sequence that tells them apart is made as short as
// possible before it is shown.
func Lockstep(t *testing.T, first, second Factory) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock()
		g := &game{clock: clock, swept: rapid.Bool().Draw(rt, "swept at once")}
		defaults := drawDefaults(rt)
		for i, factory := range []Factory{first, second} {
			g.players[i] = newPlayer(t, factory(t), clock)
			g.players[i].rig.defaults = defaults
			rt.Cleanup(g.players[i].close)
		}
		actions := map[string]func(*rapid.T){"": g.compare}
		for name, draw := range g.moves() {
			actions[name] = func(rt *rapid.T) { g.play(rt, draw(rt)) }
		}
		rt.Repeat(actions)
		for _, p := range g.players {
			p.rig.finish()
		}
	})
}

// game is one sequence of calls. What is drawn depends on nothing but the numbers of
// things made so far, which are the same for both players.
type game struct {
	clock *Clock
	// swept has the sweeper work whenever the clock moved. Without it expiry is written
	// when a store comes across it, which is its own affair, and with that the order of
	// events and what counts as a failure; so these are compared only with it.
	swept   bool
	players [2]*player
}

// drawDefaults gives the server's settings of a game.
func drawDefaults(rt *rapid.T) coordinator.Settings {
	defaults := rigDefaults()
	defaults.MaxConcurrent, defaults.RequiredTaskAcks = 4, 2
	defaults.Keep = rapid.IntRange(0, 3).Draw(rt, "checkpoints to keep")
	defaults.TolerableFailures = rapid.IntRange(0, 2).Draw(rt, "tolerable failures")
	defaults.MinPauseMs = rapid.SampledFrom([]int64{0, 0, 0, 700}).Draw(rt, "pause")
	defaults.IntervalMs = rapid.SampledFrom([]int64{0, 1000}).Draw(rt, "interval")
	defaults.MaxAgeMs = rapid.SampledFrom([]int64{0, 0, 999, 31_000}).Draw(rt, "age")
	defaults.MaxBytes = rapid.SampledFrom([]int64{0, 0, 100, coordinator.ChunkBytes + 50}).Draw(rt, "bytes")
	return defaults
}

func (g *game) triggers() int { return len(g.players[0].ids) }

// move is one call with all that was drawn for it; it gives the answer as text.
type move func(p *player) string

// play has both players make a move and compares their answers.
func (g *game) play(rt *rapid.T, m move) {
	rt.Helper()
	if diff := cmp.Diff(m(g.players[0]), m(g.players[1])); diff != "" {
		rt.Fatalf("the stores answer differently (-first +second):\n%s", diff)
	}
}

// compare compares where everything stands after each move.
func (g *game) compare(rt *rapid.T) {
	g.play(rt, func(p *player) string {
		text := p.list(coordinator.ListCall{Before: -1, Limit: coordinator.MaxListLimit})
		news := p.news()
		if g.swept {
			text += "\n" + news + "\n" + p.standing()
		}
		return text
	})
	for _, p := range g.players {
		for _, violation := range p.violations {
			rt.Error(violation)
		}
	}
}

// player is one store in a game. Checkpoints are named by the order of their triggers
// and not by their ids, since gaps between ids are normal.
type player struct {
	rig      *rig
	ids      []int64
	uploads  []runningUpload
	restores []coordinator.RestoreSource
	// tags are the last entity tags that this store told: of checkpoints, of shared
	// states, of entries, of the job.
	tags map[string]string
	// places are the ids of all events that were read, in their order.
	places []coordinator.EventID
	seen   map[int64]sighting
	// violations are broken promises that need no second store to see.
	violations []string
}

type runningUpload struct {
	upload coordinator.Upload
	part   coordinator.PartContent
}

// sighting is what was last seen of a checkpoint.
type sighting struct {
	revision int64
	text     string
}

func newPlayer(t *testing.T, storage Storage, clock *Clock) *player {
	return &player{rig: newRigAt(t, storage, clock), tags: map[string]string{}, seen: map[int64]sighting{}}
}

// close ends what the sequence left open, so that the next one finds no more of it.
func (p *player) close() {
	for _, source := range p.restores {
		if err := source.Close(); err != nil {
			p.rig.t.Errorf("close restore: %v", err)
		}
	}
	if err := p.rig.store.Close(); err != nil {
		p.rig.t.Errorf("close: %v", err)
	}
}

// id gives the id of trigger number n: [coordinator.Latest] for -1, and one that was
// never given for a number that is too high.
func (p *player) id(n int) int64 {
	switch {
	case n < 0:
		return coordinator.Latest
	case n < len(p.ids):
		return p.ids[n]
	default:
		return 1_000_000 + int64(n)
	}
}

// number is the inverse of id, as text.
func (p *player) number(id int64) string {
	if n := slices.Index(p.ids, id); n >= 0 {
		return fmt.Sprintf("#%d", n)
	}
	return "unknown"
}

func (p *player) numbers(ids []int64) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = p.number(id)
	}
	return fmt.Sprint(names)
}

// watch checks what revisions promise: whoever sees the same revision sees the same
// checkpoint.
func (p *player) watch(c *coordinator.Checkpoint, text string) {
	last, known := p.seen[c.ID]
	switch {
	case known && c.Revision < last.revision:
		p.violations = append(p.violations, fmt.Sprintf("the revision of %s fell from %d to %d", p.number(c.ID), last.revision, c.Revision))
	case known && c.Revision == last.revision && text != last.text:
		p.violations = append(p.violations, fmt.Sprintf("revision %d of %s is two things:\n%s\n%s", c.Revision, p.number(c.ID), last.text, text))
	}
	p.seen[c.ID] = sighting{c.Revision, text}
	p.tags["checkpoint"] = c.Tag()
	p.tags["shared"] = c.SharedTag()
}

// moves are the calls by name; each draws one.
func (g *game) moves() map[string]func(*rapid.T) move {
	all := map[string]func(*rapid.T) move{}
	for _, some := range []map[string]func(*rapid.T) move{g.changes(), g.transfers(), g.readings(), g.times(), g.jobChanges(), g.jobReadings()} {
		maps.Copy(all, some)
	}
	return all
}
