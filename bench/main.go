// Command bench measures the server against its goals and its peers, on this machine and by
// itself: it builds the server from this tree, starts everything on the loopback, and ends
// what it started. docs/performance.md tells how to read what it writes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
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
	target string // that is under load now
	report report.Report
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

func comparisonNames() []string {
	names := make([]string, 0, len(comparisons))
	for _, c := range comparisons {
		names = append(names, c.name)
	}
	return names
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
	failure := b.compare(ctx)
	// What was measured is shown, whatever became of the rest.
	if err := errors.Join(b.report.WriteText(out), failure); err != nil || !o.write {
		return err
	}
	return b.report.WriteFiles(filepath.Join(o.root, "docs"))
}

// compare makes the comparisons. One that fails does not keep the others from being made.
func (b *bench) compare(ctx context.Context) error {
	began := time.Now()
	var failures []error
	for _, c := range comparisons {
		if len(b.only) > 0 && !slices.Contains(b.only, c.name) {
			continue
		}
		b.sayf("%s", c.name)
		if err := c.run(b, ctx); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", c.name, err))
			b.miss(c.name + ", or a part of it: it failed")
		}
		if ctx.Err() != nil {
			break
		}
	}
	b.report.Took = time.Since(began).Round(time.Second).String()
	return errors.Join(failures...)
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
		return errors.New("redis-server is not installed")
	}
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o750); err != nil {
			return fmt.Errorf("making the folder for profiles: %w", err)
		}
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
