// Command wordcount shows that nothing is counted twice or lost, whatever is killed. It starts a
// checkpointd and a fleet of workers that count the words of a text, kills both with -9 again
// and again, changes the size of the fleet, and compares what comes out with a run in which
// nothing went wrong, byte by byte. README.md says more.
//
//	go run ./examples/wordcount -workers 3,5,2 -kills 50 -server-kills 5 -seed 7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// run is the driver, or a worker of its fleet.
func run(ctx context.Context, arguments []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "worker" {
		f, err := parseWorkerFlags(arguments[1:], stderr)
		if err != nil {
			return err
		}
		return runWorker(ctx, f, stdin, stdout, stderr)
	}
	f, err := parseFlags(arguments, stderr)
	if err != nil {
		return err
	}
	return show(ctx, f, stdout, stderr)
}
