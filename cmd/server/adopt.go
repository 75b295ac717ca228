package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/checkpointd/checkpointd/internal/server"
)

// adoptLine is the command line of "checkpointd adopt": it takes the server's flags and
// environment, so that it finds the same Redis in the same way.
type adoptLine struct {
	server.Config
	TakeOver bool `env:"-" help:"Put the adopted records in the place of the library's own, which is gone then: it can no longer read them."`
}

// adoptMain is "checkpointd adopt"; it gives the exit code.
func adoptMain(args []string) int {
	var cli adoptLine
	parser := kong.Must(&cli, kong.Name("checkpointd adopt"), kong.DefaultEnvars("CHECKPOINTD"),
		kong.Description("Adopts the checkpoints that the Java library redis-streaming keeps in --redis as JSON, as --adopt does at start, "+
			"and prints what became of each. Of the server's flags it heeds those about Redis and --checkpoint-timeout. See docs/migration.md."))
	_, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	summary, err := server.Adopt(ctx, cli.Config, cli.TakeOver, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkpointd adopt:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "checkpointd adopt:", summary)
	return 0
}
