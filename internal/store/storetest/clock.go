package storetest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that stands still until a test moves it. It is safe for concurrent use.
type Clock struct {
	now atomic.Int64
}

// startOfTime is where every clock begins: far from zero, so that stepping back works.
const startOfTime int64 = 1_750_000_000_000

// NewClock makes a clock that shows an ordinary day.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(startOfTime)
	return c
}

// Now gives the time in Unix milliseconds.
func (c *Clock) Now() int64 { return c.now.Load() }

// Set moves the clock to an absolute time.
func (c *Clock) Set(ms int64) { c.now.Store(ms) }

// Advance moves the clock by ms; a negative number steps it back.
func (c *Clock) Advance(ms int64) { c.now.Add(ms) }

// ms turns a duration into the unit of the store's clock.
func ms(d time.Duration) int64 { return d.Milliseconds() }
