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

// importLine is the command line of "checkpointd import": it takes the server's flags and
// environment, so that it finds the same Redis in the same way.
type importLine struct {
	server.Config
	TakeOver bool `env:"-" help:"Put the adopted records in the place of the library's own, which is gone then: it can no longer read them."`
}

// importMain is "checkpointd import"; it gives the exit code.
func importMain(args []string) int {
	var cli importLine
	parser := kong.Must(&cli, kong.Name("checkpointd import"), kong.DefaultEnvars("CHECKPOINTD"),
		kong.Description("Adopts the checkpoints that the Java library redis-streaming keeps in --redis as JSON, as --adopt does at start, "+
			"and prints what became of each. Of the server's flags it heeds those about Redis and --checkpoint-timeout. See docs/migration.md."))
	_, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	summary, err := server.Import(ctx, cli.Config, cli.TakeOver, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkpointd import:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "checkpointd import:", summary)
	return 0
}
