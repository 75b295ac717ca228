package engine

import (
	"math"
	"time"
)

// Window is a span of event time, in milliseconds: from Start, up to but without End. One
// that would reach beyond what an int64 holds is cut off there, and what comes at
// math.MaxInt64, which no End is after, counts as a millisecond earlier.
type Window struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

func (w Window) overlaps(other Window) bool { return w.Start < other.End && other.Start < w.End }

func (w Window) cover(other Window) Window {
	return Window{min(w.Start, other.Start), max(w.End, other.End)}
}

// Assigner says which windows a record belongs to: [Tumbling], [Sliding] or [Session].
type Assigner struct {
	assign func(at int64) []Window
	// merging joins windows of a key that overlap.
	merging bool
}

// Tumbling windows follow one another, each as long as size. It panics unless size is at
// least a millisecond.
func Tumbling(size time.Duration) Assigner { return Sliding(size, size) }

// Sliding windows are as long as size, and one begins every slide: a record is in all
// that cover it. It panics unless both are at least a millisecond.
func Sliding(size, slide time.Duration) Assigner {
	length, step := milliseconds("size", size), milliseconds("slide", slide)
	return Assigner{assign: func(at int64) []Window {
		at = min(at, math.MaxInt64-1)
		var windows []Window
		for before := (at%step + step) % step; before < length; before += step { // also before 1970
			windows = append(windows, Window{plus(at, -before), plus(at, length-before)})
		}
		return windows
	}}
}

// Session windows last from a key's first record until there is none for as long as gap,
// and no longer: a record that comes exactly gap later is in the next one. It panics
// unless gap is at least a millisecond.
func Session(gap time.Duration) Assigner {
	length := milliseconds("gap", gap)
	return Assigner{merging: true, assign: func(at int64) []Window {
		at = min(at, math.MaxInt64-1)
		return []Window{{at, plus(at, length)}}
	}}
}

// plus is a moment some milliseconds later or earlier, or the last or first one there is.
func plus(at, by int64) int64 {
	sum := at + by
	switch {
	case by > 0 && sum < at:
		return math.MaxInt64
	case by < 0 && sum > at:
		return math.MinInt64
	}
	return sum
}

func milliseconds(name string, d time.Duration) int64 {
	if d < time.Millisecond {
		panic("engine: the " + name + " of a window is less than a millisecond: " + d.String())
	}
	return d.Milliseconds()
}

// Decision is what a [Trigger] wants done with a window.
type Decision int

// A window goes on, gives its result and goes on, or gives its result and is forgotten.
const (
	Continue Decision = iota
	Fire
	FireAndPurge
)

// Trigger decides when a window gives its result. Each window of each key has one of its
// own. Triggers are no part of checkpoints.
type Trigger interface {
	// OnRecord is called after a record has been added, with its event time.
	OnRecord(at int64, w Window) Decision
	// OnClose is called when the watermark has reached the end of the window, and again
	// when it does after a late record; and when the input has ended, after which the
	// window gives its result whatever the answer is.
	OnClose(w Window) Decision
}

// OnceClosed is the trigger of windows that are not given another: it waits for the end of
// the window, and purges it then.
func OnceClosed() Trigger { return onceClosed{} }

type onceClosed struct{}

func (onceClosed) OnRecord(int64, Window) Decision { return Continue }
func (onceClosed) OnClose(Window) Decision         { return FireAndPurge }

// EveryCount returns a trigger that fires with every n-th record of a window; what is left
// fires when the input ends.
func EveryCount(n int) Trigger { return &everyCount{n: n} }

type everyCount struct{ n, seen int }

func (e *everyCount) OnRecord(int64, Window) Decision {
	if e.seen++; e.seen < e.n {
		return Continue
	}
	e.seen = 0
	return Fire
}

func (*everyCount) OnClose(Window) Decision { return Continue }

// Purging returns a trigger that purges whenever t fires.
func Purging(t Trigger) Trigger { return purging{t} }

type purging struct{ inner Trigger }

func (p purging) OnRecord(at int64, w Window) Decision { return purge(p.inner.OnRecord(at, w)) }
func (p purging) OnClose(w Window) Decision            { return purge(p.inner.OnClose(w)) }

func purge(d Decision) Decision {
	if d == Fire {
		return FireAndPurge
	}
	return d
}
