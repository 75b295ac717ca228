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

// readSteps reads the steps of a page between a mark and the next one.
func readSteps(t *testing.T, path, mark string) []step {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- run: "+mark+" -->")
	if !found {
		t.Fatalf("%s has nothing to run as %s", path, mark)
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

// needTools skips a test that runs what a page shows where that is not possible.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("what the page shows was not run: %s is not installed", tool)
		}
	}
}

func TestTheReadmesWalkThroughWorksAsPrinted(t *testing.T) {
	t.Parallel()
	needTools(t)
	walkthrough := readSteps(t, readmePath, "walkthrough")
	t.Run("on the embedded store", func(t *testing.T) {
		t.Parallel()
		config := defaults(t)
		config.Data = t.TempDir()
		walk(t, walkthrough, 6, map[string]string{"127.0.0.1:8080": start(t, config)})
	})
	t.Run("on two replicas over one Redis, in turn", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t, redistest.Options{Own: true})
		config := defaults(t)
		config.Redis, config.KeyPrefix = redis.URL, redis.Prefix
		walk(t, walkthrough, 6, map[string]string{"127.0.0.1:8080": start(t, config)}, map[string]string{"127.0.0.1:8080": start(t, config)})
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
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

// walk takes the steps of a page, at least so many, each with the next of the replacements of what the page names.
func walk(t *testing.T, steps []step, least int, places ...map[string]string) {
	t.Helper()
	if len(steps) < least {
		t.Fatalf("the page has only %d steps", len(steps))
	}
	for i, step := range steps {
		script := step.script
		for printed, place := range places[i%len(places)] {
			script = strings.ReplaceAll(script, printed, place)
		}
		// Answers end without a line break, so each call gets one for the comparison.
		script = "curl() { command curl -w '\\n' \"$@\"; }\ncheckpointd() { " + asMain + "=1 '" + os.Args[0] + "' \"$@\"; }\n" + script
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
			t.Fatalf("%s\nprinted\n%s\nbut the page shows\n%s", step.script, got, step.output)
		}
	}
}
