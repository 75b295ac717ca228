package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/checkpointd/checkpointd/internal/doors"
)

// tokenLine is the command line of "checkpointd token".
type tokenLine struct {
	Name  string       `arg:"" help:"What the log and the events call it; not secret."`
	Roles []doors.Role `required:"" help:"What it may do: trigger, ack, state, read, admin, events." placeholder:"ROLE,…"`
	Jobs  []string     `help:"Patterns of the jobs in which it may; all without it." placeholder:"PATTERN,…"`
	Tasks []string     `help:"Patterns of the tasks for which it may upload, acknowledge and decline; all without it." placeholder:"PATTERN,…"`
}

// tokenMain is "checkpointd token"; it gives the exit code.
func tokenMain(args []string) int {
	var cli tokenLine
	parser := kong.Must(&cli, kong.Name("checkpointd token"),
		kong.Description("Makes a token and prints it, and below it the line with which the file of --tokens knows it. The file has the hash only: "+
			"what is printed here is the only copy of the token. See docs/security.md."))
	_, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	token, line, err := doors.NewToken(cli.Name, cli.Roles, cli.Jobs, cli.Tasks)
	if err == nil {
		_, err = fmt.Fprintf(os.Stdout, "%s\n%s\n", token, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkpointd token:", err)
		return 1
	}
	return 0
}
