package engine

import (
	"context"
	"math"
	"sync"
	"time"
)

// NoWatermark is the watermark before the first: everything may still come.
const NoWatermark = math.MinInt64

// WatermarkState is how far a stream has come in event time: no record with an earlier
// timestamp is expected. Its methods may be called by any goroutine.
type WatermarkState struct {
	mu      sync.Mutex
	current Watermark
	// acted is the watermark that timers and windows were told of last.
	acted int64
}

// Watermark is what a checkpoint has of a [WatermarkState].
type Watermark struct {
	// At is in milliseconds of event time. In JSON it is a string, since NoWatermark is
	// beyond what many readers of JSON keep exactly.
	At int64 `json:"at,string"`
	// Idle tells that the stream expects no records for now.
	Idle bool `json:"idle"`
}

// NewWatermarkState returns a state at [NoWatermark] that is not idle.
func NewWatermarkState() *WatermarkState {
	return &WatermarkState{current: Watermark{At: NoWatermark}, acted: NoWatermark}
}

// Emit raises the watermark to a moment in milliseconds; it never falls. A stream that is
// idle stays so.
func (w *WatermarkState) Emit(at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current.At = max(w.current.At, at)
}

// MarkIdle notes that no records are expected for now. It does not change the watermark.
func (w *WatermarkState) MarkIdle() { w.setIdle(true) }

// MarkActive notes that records are expected again.
func (w *WatermarkState) MarkActive() { w.setIdle(false) }

func (w *WatermarkState) setIdle(idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current.Idle = idle
}

// Current returns the watermark and whether the stream is idle.
func (w *WatermarkState) Current() Watermark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// replay makes what was restored the state, also if that is lower: records that follow
// a restore are those of that time, and would all be late for a watermark from later.
func (w *WatermarkState) replay(to Watermark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.acted = to, to.At
}

// rise tells whether the watermark is higher than it was when rise was called last, or
// than what was restored since.
func (w *WatermarkState) rise() (at int64, risen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, risen = w.current.At, w.current.At > w.acted
	w.acted = at
	return at, risen
}

// AssignTimestamps gives each record its event time, in milliseconds, and lets advance
// move the watermark after each record has been worked on; nil never moves it, so that
// timers and windows wait for the end of the input. See [Ascending] and [BoundedLateness].
// What another goroutine raises meanwhile is acted on after the next record. Any number is
// a time: a record at [NoWatermark] belongs to the earliest window there is.
//
// Each consumption has a [WatermarkState] of its own, which is part of the checkpoints
// under the first free one of the names watermark-1, watermark-2, …: to find it again after
// a restart, begin to consume streams in the same order. A restore replays value and idle
// flag. Timers and windows move on when the watermark rises, so a source
// that is read again from its beginning closes nothing before it has passed the point
// that was restored.
func AssignTimestamps[T any](
	s *Stream[T], timestamp func(record T) int64, advance func(w *WatermarkState, record T, at int64),
) *Stream[T] {
	return &Stream[T]{coordinator: s.coordinator, attach: func(ctx context.Context, r *run, down operator[T]) error {
		state := NewWatermarkState()
		if err := r.register(ctx, "watermark", state.source()); err != nil {
			return err
		}
		return s.attach(ctx, r, operator[T]{
			record: func(ctx context.Context, record T) error {
				at := timestamp(record)
				if err := down.record(withTimestamp(ctx, at), record); err != nil {
					return err
				}
				if advance == nil {
					return nil
				}
				advance(state, record, at)
				if at, risen := state.rise(); risen {
					return down.watermark(ctx, at)
				}
				return nil
			},
			// This stage's watermark replaces that of a stage before it.
			watermark: func(context.Context, int64) error { return nil },
			end:       down.end,
		})
	}}
}

func (w *WatermarkState) source() *source {
	return newSource("", valueCodec[Watermark]{},
		func(context.Context) (Watermark, error) { return w.Current(), nil },
		func(_ context.Context, to Watermark) error {
			w.replay(to)
			return nil
		})
}

// Ascending is for [AssignTimestamps] of records in the order of their event times: the
// watermark is that of the last record.
func Ascending[T any](w *WatermarkState, _ T, at int64) { w.Emit(at) }

// BoundedLateness is for [AssignTimestamps] of records that may be late by some time: the
// watermark stays that far behind the latest record.
func BoundedLateness[T any](late time.Duration) func(w *WatermarkState, record T, at int64) {
	return func(w *WatermarkState, _ T, at int64) { w.Emit(plus(at, -late.Milliseconds())) }
}
