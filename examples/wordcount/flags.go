package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// flags are those of the driver.
type flags struct {
	workers            []int
	kills, serverKills int
	seed               uint64
	gap, interval      time.Duration
	lines              int
	pace               float64
	text               string
	server, redis      string
	folder             string
}

func parseFlags(arguments []string, stderr io.Writer) (*flags, error) {
	f, set := &flags{workers: []int{3}}, flag.NewFlagSet("wordcount", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Func("workers", "`sizes` of the fleet, one after another, such as 3,5,2 (default 3)", f.setWorkers)
	set.IntVar(&f.kills, "kills", 50, "how many workers to kill")
	set.IntVar(&f.serverKills, "server-kills", 5, "how often to kill the server")
	set.Uint64Var(&f.seed, "seed", 0, "what the choice of moments and victims follows from (default drawn)")
	set.DurationVar(&f.gap, "gap", 1200*time.Millisecond, "mean time between two kills")
	set.DurationVar(&f.interval, "interval", time.Second, "time between two checkpoints, at least 50ms")
	set.IntVar(&f.lines, "lines", 240_000, "how many lines of text to count")
	set.Float64Var(&f.pace, "pace", 0, "`lines` a second and partition, 0 so that the text outlasts the kills")
	set.StringVar(&f.text, "text", "", "`folder` of Go files whose comments are the text (default Go's standard library)")
	set.StringVar(&f.server, "server", "", "`path` of a built server (default built from cmd/server)")
	set.StringVar(&f.redis, "redis", "", "`URL` of a Redis where the server keeps everything (default the embedded store)")
	set.StringVar(&f.folder, "dir", "", "`folder` for text, output and logs, kept afterwards (default a temporary one, kept when something is wrong)")
	if err := set.Parse(arguments); err != nil {
		return nil, err //nolint:wrapcheck // It has told the user.
	}
	if f.seed == 0 {
		f.seed = rand.Uint64N(1_000_000) + 1 //nolint:gosec // Not a secret.
	}
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("unknown argument %q", set.Arg(0))
	case f.kills < 0 || f.serverKills < 0 || f.gap <= 0 || f.interval < 50*time.Millisecond || f.lines < partitions || f.pace < 0:
		return nil, errors.New("a number is too small")
	case f.kills < len(f.workers)-1:
		return nil, errors.New("the size of the fleet changes when a worker is killed: there are more -workers than -kills")
	}
	return f, nil
}

func (f *flags) setWorkers(list string) error {
	f.workers = nil
	for size := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(size))
		if err != nil || n < 1 || n > partitions {
			return fmt.Errorf("%q is no number from 1 to %d", size, partitions)
		}
		f.workers = append(f.workers, n)
	}
	return nil
}
