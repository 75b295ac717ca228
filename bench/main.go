// Command bench measures the server against its goals and its peers, on this machine and by
// itself: it builds the server from this tree, starts everything on the loopback, and ends
// what it started. docs/performance.md tells how to read what it writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/checkpointd/checkpointd/bench/process"
	"github.com/checkpointd/checkpointd/bench/report"
	"github.com/checkpointd/checkpointd/bench/standin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if len(os.Args) > 1 && os.Args[1] == standin.Argument {
		code = standin.Main(ctx, os.Args[2:])
	} else if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// bench is one run of the benchmark.
type bench struct {
	options
	out    io.Writer
	folder string // of everything that is kept during the run
	self   string // this binary, which is the stand-ins too
	server string // the binary that is measured
	group  process.Group
	client *http.Client
	report report.Report
}

// options are the command line.
type options struct {
	root            string
	dir             string
	quick           bool
	write           bool
	rounds          int
	loadThreads     int
	warmUp          time.Duration
	duration        time.Duration
	bulkEntries     int
	turns           int
	growthTurns     int
	manyCheckpoints int
	foreignKeys     int
	crowds          int
	only            string
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "folder of the server's module")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder to keep data in during the run; the durable goals are about its file system")
	flags.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds on less data: whether it works, and roughly how")
	flags.BoolVar(&o.write, "write", false, "write the results into docs")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each comparison; 0 is 5, with -quick 2")
	flags.IntVar(&o.loadThreads, "load-threads", max(1, runtime.NumCPU()/2), "threads of the load generator")
	flags.StringVar(&o.only, "only", "", "names of the comparisons to make, with commas between; all when empty")
	if err := flags.Parse(arguments); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if o.write && (o.quick || o.only != "") {
		return o, errors.New("-write is for whole runs: without -quick and -only")
	}
	o.warmUp, o.duration = 500*time.Millisecond, 2500*time.Millisecond
	o.bulkEntries = 1_000_000
	o.turns = 1000
	o.growthTurns, o.manyCheckpoints, o.foreignKeys = 100, 100_000, 1_000_000
	rounds := 5
	if o.quick {
		o.warmUp, o.duration = 200*time.Millisecond, 800*time.Millisecond
		o.bulkEntries = 400_000
		o.turns = 200
		o.growthTurns, o.manyCheckpoints, o.foreignKeys = 25, 5000, 100_000
		rounds = 2
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	o.crowds = o.rounds
	if o.quick {
		o.crowds = 1
	}
	return o, nil
}

// atMost is how long a whole run may take; what hangs ends it with an error.
const atMost = 15 * time.Minute

// comparisons are the parts of a run, in order.
var comparisons = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"acks", (*bench).acks},
	{"durable", (*bench).durable},
	{"bulk", (*bench).bulk},
	{"memory", (*bench).memory},
	{"single", (*bench).single},
	{"crowd", (*bench).crowd},
	{"growth", (*bench).growth},
	{"cost", (*bench).cost},
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, fmt.Errorf("the run took longer than %s", atMost))
	defer cancel()
	folder, err := os.MkdirTemp(o.dir, "checkpointd-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	b := &bench{options: o, out: out, folder: folder, client: newClient()}
	b.group.Folder = folder
	defer b.group.StopAll()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	began := time.Now()
	for _, c := range comparisons {
		if o.only != "" && !strings.Contains(","+o.only+",", ","+c.name+",") {
			continue
		}
		b.sayf("%s", c.name)
		if err := c.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	b.report.Took = time.Since(began).Round(time.Second).String()
	if err := b.report.WriteText(out); err != nil {
		return err
	}
	if !o.write {
		return nil
	}
	return b.report.WriteFiles(filepath.Join(o.root, "docs"))
}

// prepare builds the server and notes what is measured where.
func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	b.server = filepath.Join(b.folder, "checkpointd")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.server, "./cmd/server") //nolint:gosec // the folder is this run's own
	build.Dir = b.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, output)
	}
	if !installed("redis-server") {
		return fmt.Errorf("redis-server is not installed")
	}
	b.report.Date = time.Now().UTC().Format("2006-01-02 15:04 UTC")
	b.report.Commit = b.commit(ctx)
	b.report.Machine = process.Machine()
	b.report.Versions = versions(ctx)
	b.report.Rounds, b.report.Quick = b.rounds, b.quick
	return nil
}

// sayf tells how far the run is.
func (b *bench) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// miss notes what cannot be measured here.
func (b *bench) miss(what string) {
	b.report.Missed = append(b.report.Missed, what)
}
