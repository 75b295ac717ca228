package load

import "runtime"

// Turns let few of many transfers compute at a time. All that have bytes at hand would
// otherwise stand in the way of small requests, which the scheduler of Go has in the same
// queue: behind fifty uploads an acknowledgement waited for seconds.
type Turns chan struct{}

// newTurns leaves a processor to the others, where there is more than one.
func newTurns() Turns { return make(Turns, max(1, runtime.GOMAXPROCS(0)-1)) }

// Begin waits for a turn; those who wait have it in the order in which they came.
func (t Turns) Begin() { t <- struct{}{} }

// End gives the turn to the next. Nobody keeps one while it waits for something else.
func (t Turns) End() { <-t }
