//go:build unix

package engine_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has had of the processors. Neighbours make a benchmark wait,
// but they add little to this.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
