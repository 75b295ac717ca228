package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// arguments are those of "checkpointd selftest".
type arguments struct {
	URL     string        `arg:"" help:"Where to be the coordinator, http://HOST:PORT; your worker connects there."`
	Worker  []string      `arg:"" optional:"" help:"After --, the command that runs your worker: selftest starts, kills (-9) and restarts it. {url}, {task}, {job}, {attempt} and {key} are replaced; CHECKPOINTD_URL, _TASK, _JOB, _ATTEMPT and _RECOVERY_KEY are in its environment. Without a command you are asked to do so."`
	Task    string        `default:"task-1" help:"Task that your worker is." placeholder:"NAME"`
	Job     string        `default:"default" help:"Job that your worker is in." placeholder:"NAME"`
	Timeout time.Duration `default:"30s" help:"How long your worker may take for each step." placeholder:"DURATION"`
	Only    []string      `help:"Play these scenarios only, separated by commas: ${scenarios}." placeholder:"NAME"`
	JSON    bool          `name:"json" help:"Write the report as one JSON document to standard output, and how it goes to standard error."`
}

// Main is "checkpointd selftest": it gives the exit code, 0 when the worker passed.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "checkpointd selftest: stopped by a signal; what it had started is gone")
		return 1
	case err != nil:
		fmt.Fprintln(os.Stderr, "checkpointd selftest:", err)
		return 1
	case !passed:
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (passed bool, err error) {
	var a arguments
	helped := false
	parser, err := kong.New(&a,
		kong.Name("checkpointd selftest"),
		kong.Description("Plays the coordinator for a worker that you write, in any language, and says what it does wrong, why that loses data, and what to do. "+
			"See docs/selftest.md. Example: checkpointd selftest http://127.0.0.1:9090 -- python3 worker.py {url} {task}"),
		kong.Vars{"scenarios": strings.Join(names(), ", ")},
		kong.Writers(out, errOut),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		return false, fmt.Errorf("describing the flags: %w", err)
	}
	_, err = parser.Parse(args)
	if helped {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w (see checkpointd selftest --help)", err)
	}
	progress := out
	if a.JSON {
		progress = errOut
	}
	var driver Driver
	if len(a.Worker) > 0 {
		driver = Command(a.Worker, errOut)
	} else {
		driver = Prompt(in, progress)
	}
	report, err := Run(ctx, Options{URL: a.URL, Task: a.Task, Job: a.Job, Timeout: a.Timeout, Only: a.Only, Driver: driver, Out: progress})
	if err != nil {
		return false, err
	}
	if a.JSON {
		document := json.NewEncoder(out)
		document.SetIndent("", "  ")
		document.SetEscapeHTML(false)
		if err := document.Encode(report); err != nil {
			return false, fmt.Errorf("writing the report: %w", err)
		}
	}
	return report.Passed, nil
}
