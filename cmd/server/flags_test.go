package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/server"
)

var update = flag.Bool("update", false, "rewrite the flag table of README.md")

// flagTable renders the table from the very model that --help is printed from.
func flagTable(t *testing.T) string {
	t.Helper()
	var cli commandLine
	parser, err := kong.New(&cli, kong.Name("checkpointd"), kong.DefaultEnvars("CHECKPOINTD"), kong.Vars{"version": "test"})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
	for _, group := range parser.Model.AllFlags(true) {
		for _, f := range group {
			if f.Name == "help" {
				continue
			}
			env := ""
			if len(f.Envs) > 0 && f.Envs[0] != "-" {
				env = "`" + f.Envs[0] + "`"
			}
			value := ""
			if f.Default != "" {
				value = "`" + f.Default + "`"
			}
			name := "--" + f.Name
			if f.Target.Kind() != reflect.Bool {
				name += " " + f.PlaceHolder
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, env, value, f.Help)
		}
	}
	return table.String()
}

func TestTheReadmesFlagTableIsThatOfHelp(t *testing.T) {
	t.Parallel()
	const mark = "<!-- flags: generated from --help, checked by a test -->\n"
	head, rest, found := strings.Cut(readme(t), mark)
	if !found {
		t.Fatal("README.md has no flag table")
	}
	_, tail, _ := strings.Cut(rest, "\nFurther reading")
	want := head + mark + flagTable(t) + "\nFurther reading" + tail
	if want == readme(t) {
		return
	}
	if !*update {
		t.Fatal("README.md has another flag table than --help; run: go test ./cmd/server -run Readme -update")
	}
	if err := os.WriteFile(readmePath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFlagsWinOverTheEnvironmentAndAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Setenv("CHECKPOINTD_CHECKPOINTS_TO_KEEP", "7")
	t.Setenv("CHECKPOINTD_MAX_PART", "64KiB")
	parse := func(args ...string) (commandLine, error) {
		var cli commandLine
		parser, err := kong.New(&cli, kong.DefaultEnvars("CHECKPOINTD"), kong.Vars{"version": "test"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(args)
		return cli, err
	}
	cli, err := parse("--checkpoints-to-keep", "9")
	if err != nil || cli.CheckpointsToKeep != 9 || cli.MaxPart != 64<<10 {
		t.Errorf("keep %d, part %s, %v", cli.CheckpointsToKeep, cli.MaxPart, err)
	}
	_, err = parse("--listen", "nowhere", "--redis", "http://x", "--key-prefix", "a{b}", "--max-concurrent-checkpoints", "0", "--pprof", "6060")
	for _, flag := range []string{"--listen", "--redis", "--key-prefix", "--max-concurrent-checkpoints", "--pprof"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not in: %v", flag, err)
		}
	}
}

// The flags state their defaults for --help; the domain's, which tests run on, are the same.
func TestTheFlagsDefaultsAreTheDomains(t *testing.T) {
	t.Parallel()
	config := defaults(t)
	if got, want := config.Settings(), coordinator.DefaultSettings(); got != want {
		t.Errorf("flags give %+v, the domain %+v", got, want)
	}
	if got, want := config.Bounds, server.DefaultBounds(); got != want {
		t.Errorf("flags give %+v, the bounds by themselves are %+v", got, want)
	}
}
