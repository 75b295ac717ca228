// Package pacetest says in one place which tests the quick run leaves out, and how many tests of a package
// run at a time where they wait more than they compute. A TestMain calls it before it runs anything.
package pacetest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Waiting lets n tests of the package run at a time, unless -parallel says otherwise: they wait for Redis,
// disks, timers and processes, and the default, one for each processor, would leave the processors idle.
func Waiting(n int) {
	if err := flag.Set("test.parallel", fmt.Sprint(n)); err != nil { // -parallel is read later, and counts
		panic(err)
	}
}

// Long ends the process well where -short was given, and says what was left out. It is for packages whose
// every test starts processes, kills them or waits for real timers.
func Long(what string) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintf(os.Stderr, "LEFT OUT by -short: %s\n", what)
		os.Exit(0)
	}
}
