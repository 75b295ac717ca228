// Command server runs checkpointd: HTTP in front of the embedded store or of Redis.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/selftest"
	"github.com/checkpointd/checkpointd/internal/server"
)

// commandLine is the configuration and what is asked instead of running.
type commandLine struct {
	server.Config
	Healthcheck bool             `env:"-" help:"Ask the server at --listen whether it is alive, and exit 0 or 1."`
	Version     kong.VersionFlag `env:"-" help:"Print the version and exit."`
}

func main() {
	commands := map[string]func(args []string) int{"selftest": selftest.Main, "adopt": adoptMain, "token": tokenMain}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil { // with flags of its own
		os.Exit(commands[os.Args[1]](os.Args[2:]))
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" // seconds would be too coarse to follow deadlines
	var cli commandLine
	kong.Parse(&cli, kong.Name("checkpointd"), kong.DefaultEnvars("CHECKPOINTD"), kong.Vars{"version": server.Version()},
		kong.Description("Coordinates checkpoints of stream workers over HTTP. To test a worker: checkpointd selftest --help. To adopt checkpoints of redis-streaming: checkpointd adopt --help. To make a token: checkpointd token --help"))
	if err := run(&cli); err != nil {
		fmt.Fprintln(os.Stderr, "checkpointd:", err)
		os.Exit(1)
	}
}

func run(cli *commandLine) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cli.Healthcheck {
		return server.CheckHealth(ctx, cli.Listen, cli.TLSCert != "")
	}
	server.TuneCollector()
	s, err := server.New(cli.Config, os.Stderr)
	if err != nil {
		return err
	}
	// Who is asked to stop while it still waits for Redis does so, and that is no failure.
	if err := s.Start(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.Failed():
	}
	stop() // so that a second signal during the drain kills at once
	return s.Stop(context.Background())
}
