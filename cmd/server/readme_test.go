package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/checkpointd/checkpointd/internal/server"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

const readmePath = "../../README.md"

// defaults is the configuration that the flags give when none is set.
func defaults(t *testing.T) server.Config {
	t.Helper()
	var cli commandLine
	if err := kong.ApplyDefaults(&cli); err != nil {
		t.Fatal(err)
	}
	return cli.Config
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// step is a shell block of the README with the output that it shows, if it does.
type step struct{ script, output string }

var block = regexp.MustCompile("(?s)```(sh|json|text)\n(.*?)```")

// walkthrough reads the steps between the mark and the next one.
func walkthrough(t *testing.T) []step {
	t.Helper()
	_, rest, found := strings.Cut(readme(t), "<!-- run: walkthrough -->")
	if !found {
		t.Fatal("README.md has no walk-through")
	}
	rest, _, _ = strings.Cut(rest, "<!-- run: ")
	var steps []step
	for _, match := range block.FindAllStringSubmatch(rest, -1) {
		if match[1] == "sh" {
			steps = append(steps, step{script: match[2]})
		} else {
			steps[len(steps)-1].output = match[2]
		}
	}
	return steps
}

// shown makes a pattern of an output in which "…" stands for anything.
func shown(output string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.TrimSpace(output))
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(quoted, "…", ".*") + `$`)
}

func TestTheReadmesWalkThroughWorksAsPrinted(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the walk-through was not run: %s is not installed", tool)
		}
	}
	t.Run("on the embedded store", func(t *testing.T) {
		t.Parallel()
		config := defaults(t)
		config.Data = t.TempDir()
		walk(t, start(t, config))
	})
	t.Run("on two replicas over one Redis, in turn", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t, redistest.Options{Own: true})
		config := defaults(t)
		config.Redis, config.KeyPrefix = redis.URL, redis.Prefix
		walk(t, start(t, config), start(t, config))
	})
}

// start runs a server until the test ends and gives its address.
func start(t *testing.T, config server.Config) string {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	s, err := server.New(config, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

// walk takes the steps of the README, each on the next of the servers.
func walk(t *testing.T, addresses ...string) {
	t.Helper()
	steps := walkthrough(t)
	if len(steps) < 6 {
		t.Fatalf("README.md has only %d steps", len(steps))
	}
	for i, step := range steps {
		// Answers end without a line break, so each call gets one for the comparison.
		script := strings.ReplaceAll(step.script, "127.0.0.1:8080", addresses[i%len(addresses)])
		script = "curl() { command curl -w '\\n' \"$@\"; }\n" + script
		command := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
		var output, complaint bytes.Buffer
		command.Stdout, command.Stderr = &output, &complaint
		if err := command.Run(); err != nil {
			t.Fatalf("%s\nfailed: %v\n%s", step.script, err, complaint.String())
		}
		var lines []string
		for line := range strings.Lines(output.String()) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		if got := strings.Join(lines, "\n"); !shown(step.output).MatchString(got) {
			t.Fatalf("%s\nprinted\n%s\nbut README.md shows\n%s", step.script, got, step.output)
		}
	}
}
