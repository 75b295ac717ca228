package server

import (
	"os"
	"runtime"
)

// ballast is memory that nobody touches, so that it takes no room. To the garbage collector
// it is part of the heap, which may double before it is collected.
var ballast []byte

const ballastBytes = 8 << 20

// TuneCollector lets some megabytes of garbage pile up before they are collected, which a
// busy server with a small heap would otherwise do hundreds of times a second. A large heap
// may still only double, as with GOGC=100: a higher GOGC would let it grow fivefold. Where the
// environment has GOGC or GOMEMLIMIT, the operator decides and this does nothing. It is for
// the whole process, so it is main that calls it.
func TuneCollector() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		ballast = make([]byte, ballastBytes)
		runtime.KeepAlive(ballast)
	}
}
