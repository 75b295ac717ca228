package selftest

import "time"

// Brisk halves the windows in which the kit watches, for workers of tests that answer at once.
func Brisk(o Options) Options {
	o.windows = &windows{
		idle: time.Second, settling: 700 * time.Millisecond, outage: 1500 * time.Millisecond, asked: time.Second,
		early: time.Second, respawn: 200 * time.Millisecond,
	}
	return o
}

// Names are those of all scenarios.
func Names() []string { return names() }
