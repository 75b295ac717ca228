package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	root        string
	dir         string
	quick       bool
	write       bool
	rounds      int
	loadThreads int
	only        []string
	profiles    string
	scale
}

// scale is how much of everything a run takes.
type scale struct {
	warmUp, duration time.Duration // of a load
	bulkEntries      int           // of a snapshot
	turns            int           // single calls a round
	crowds           int           // checkpoints that a crowd acknowledges
	crowdTasks       int           // in each of them
	growthTurns      int           // calls a round in each scene
	manyCheckpoints  int           // in the largest scene
	foreignKeys      int
}

var (
	wholeScale = scale{
		warmUp: 500 * time.Millisecond, duration: 2500 * time.Millisecond, bulkEntries: 1_000_000, turns: 1000, crowds: 3, crowdTasks: tasksPerCheckpoint,
		growthTurns: 100, manyCheckpoints: 100_000, foreignKeys: 1_000_000,
	}
	quickScale = scale{
		warmUp: 200 * time.Millisecond, duration: 800 * time.Millisecond, bulkEntries: 400_000, turns: 200, crowds: 1, crowdTasks: tasksPerCheckpoint / 5,
		growthTurns: 25, manyCheckpoints: 5000, foreignKeys: 100_000,
	}
)

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "folder of the module whose server is measured; what calls the store directly is about the benchmark's own")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder to keep data in during the run; the durable goals are about its file system")
	flags.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds on less data: whether it works, and roughly how")
	flags.BoolVar(&o.write, "write", false, "write the results into the folder docs of the module")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each comparison; 0 is 5, with -quick 2")
	flags.IntVar(&o.loadThreads, "load-threads", max(1, runtime.NumCPU()/2), "threads of the load generator")
	flags.Func("only", "comparisons to make, with commas between, in place of all: "+strings.Join(comparisonNames(), ", "), func(names string) error {
		o.only = strings.Split(names, ",")
		for _, name := range o.only {
			if !slices.Contains(comparisonNames(), name) {
				return fmt.Errorf("there is no %q", name)
			}
		}
		return nil
	})
	flags.StringVar(&o.profiles, "profiles", "", "folder for CPU profiles of the server under each load; taking them costs a little")
	if err := flags.Parse(arguments); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if o.write && (o.quick || len(o.only) > 0 || o.profiles != "") {
		return o, errors.New("-write is for whole runs: without -quick, -only and -profiles")
	}
	rounds := 5
	o.scale = wholeScale
	if o.quick {
		rounds, o.scale = 2, quickScale
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	return o, nil
}
