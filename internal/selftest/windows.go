package selftest

import "time"

// windows are how long the kit watches a worker, and how long something is away from it.
type windows struct {
	// idle is how long a worker is watched that has nothing to do.
	idle time.Duration
	// settling is how long a worker is watched for what it had better not do again.
	settling time.Duration
	// outage is how long the server or its store is away.
	outage time.Duration
	// asked is what a refusal wants to be waited, in whole seconds; a little less is excused.
	asked time.Duration
	// early is how long a life may take until it restores before a checkpoint is triggered for it.
	early time.Duration
	// respawn is after how long a worker is started again that has ended itself.
	respawn time.Duration
}

var usual = windows{
	idle: 2 * time.Second, settling: 1500 * time.Millisecond, outage: 3 * time.Second, asked: 2 * time.Second,
	early: 3 * time.Second, respawn: 500 * time.Millisecond,
}

// excused is how soon a worker may come again that was asked to wait.
func (w windows) excused() time.Duration { return w.asked - w.asked/10 }
