package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/pacetest"
)

// language is an example worker and how it is run.
type language struct {
	// file is its source.
	file string
	// runtime is the program that is needed to run it.
	runtime string
	// required tells that .ci/run installs the runtime, so that CI must not skip the worker.
	required bool
	// command runs a source; without it the source is Go and compiled first.
	command []string
	// snapshot is a line of the source that takes the cut, failing what stands before it to
	// fail once, with the words "disk is full".
	snapshot, failing string
	// lines is how many the whole file may have; 0 is as many as it likes.
	lines int
	// carries is JSON that it can hold in its state without changing it; empty where its state
	// is no more than a number.
	carries string
	// extends tells that it asks for more time while it uploads, so that nothing expires under it.
	extends bool
	// environment is added to that of the test.
	environment []string
	// checkpoints is how many it takes part in while it is killed.
	checkpoints int
}

var languages = map[string]language{
	"python": {
		file: "python/worker.py", runtime: "python3", required: true, lines: 43, checkpoints: 40,
		command:  []string{"python3"},
		snapshot: `            state["count"] += 1`,
		failing: `            if not globals().get("failed"):
                failed = True
                raise OSError("disk is full")
`,
		carries: `[9007199254740993,1.0,-0.25,true,null,{"tab\t":"quote\" back\\ é 😀 \u0001"},[]]`,
	},
	"node": {
		file: "node/worker.mjs", runtime: "node", required: true, checkpoints: 40,
		command:  []string{"node"},
		snapshot: `    state.set('count'`,
		failing: `    if (!globalThis.failed) {
      globalThis.failed = true
      throw new Error('disk is full')
    }
`,
		carries: `[9007199254740991,-0.25,true,null,{"tab\t":"quote\" back\\ é 😀 \u0001"},[]]`,
	},
	"java": {
		file: "java/Worker.java", runtime: "java", checkpoints: 15,
		// The options make a short life shorter. Compiled anew in each, it would take more of the
		// processors than all other workers.
		command:  []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"},
		snapshot: "            state.computeIfPresent(",
		failing: `            if (System.getProperties().put("failed", "") == null) throw new IllegalStateException("disk is full");
`,
		carries: `[9007199254740993,1.0,-0.25,true,null,{"tab\t":"quote\" back\\ é 😀 \u0001"},[]]`,
	},
	"go": {
		file: "go/main.go", runtime: "go", required: true, lines: 29, checkpoints: 40, extends: true,
		snapshot: "		return worker.FromMap(",
		failing: `		if os.Setenv("FAILED", os.Getenv("FAILED")+"x"); os.Getenv("FAILED") == "x" {
			return nil, fmt.Errorf("disk is full")
		}
`,
	},
}

// leg is a test of one of them.
type leg struct {
	*testing.T
	language
}

// each runs a test for every language whose runtime is there, and says loudly where it is not.
func each(t *testing.T, test func(t leg)) {
	t.Helper()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(l.runtime); err != nil {
				if l.required && os.Getenv("CI") == "true" {
					t.Fatalf("THE WORKER IN %s CANNOT BE TESTED: there is no %s, and CI must not skip", strings.ToUpper(name), l.runtime)
				}
				t.Skipf("THE WORKER IN %s IS NOT TESTED: there is no %s on this machine", strings.ToUpper(name), l.runtime)
			}
			test(leg{t, l})
		})
	}
}

// built has each source of a Go worker compiled once, and not again for each life.
var built sync.Map

// compiled gives what compile makes of a source in a folder.
func compiled(t *testing.T, source string, compile func(source, folder string) (string, error)) string {
	t.Helper()
	once, _ := built.LoadOrStore(source, sync.OnceValues(func() (string, error) {
		folder, err := os.MkdirTemp(buildFolder, "") //nolint:usetesting // It outlives the test that compiles first.
		if err != nil {
			return "", err
		}
		return compile(source, folder)
	}))
	program, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// build compiles a copy of examples/go/main.go where the module is that it needs.
func build(source, folder string) (string, error) {
	original, err := filepath.Abs("go/main.go")
	if err != nil {
		return "", err
	}
	overlay, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "worker")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, original, source), 0o600); err != nil {
		return "", err
	}
	return program, said(exec.Command("go", "build", "-overlay", overlay, "-o", program, "./go"))
}

// javac compiles into the folder, where java finds the classes.
func javac(source, folder string) (string, error) {
	return folder, said(exec.Command("javac", "-d", folder, source))
}

// said runs a command; its error has what the command has said.
func said(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// buildFolder outlives the test that compiles first.
var buildFolder string

func TestMain(m *testing.M) {
	pacetest.Waiting(6)
	pacetest.Long("example workers as processes")
	folder, err := os.MkdirTemp("", "examples")
	if err != nil {
		panic(err)
	}
	buildFolder = folder
	code := m.Run()
	_ = os.RemoveAll(folder) // it is a temporary one
	os.Exit(code)
}

// life is a worker that runs.
type life struct {
	command *exec.Cmd
	done    chan struct{}
	said    bytes.Buffer
}

// start runs the worker, until the test ends if need be.
func (t leg) start(url, task string) *life {
	t.Helper()
	return t.run(t.arguments(t.file), url, task)
}

// arguments are the command that runs a source.
func (t leg) arguments(source string) []string {
	t.Helper()
	changed := source != t.file
	source, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	if len(t.command) == 0 {
		return []string{compiled(t.T, source, build)}
	}
	// A changed source lives once, and is launched as the README does it.
	if _, err := exec.LookPath("javac"); t.runtime == "java" && !changed && err == nil {
		return append(slices.Clone(t.command), "-cp", compiled(t.T, source, javac), strings.TrimSuffix(filepath.Base(source), ".java"))
	}
	return append(slices.Clone(t.command), source)
}

// startFailing runs the worker with a snapshot that fails once.
func (t leg) startFailing(url, task string) *life {
	t.Helper()
	text, err := os.ReadFile(t.file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), t.snapshot) != 1 {
		t.Fatalf("%s has no one line %q", t.file, t.snapshot)
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(t.file))
	if err := os.WriteFile(copied, []byte(strings.Replace(string(text), t.snapshot, t.failing+t.snapshot, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return t.run(t.arguments(copied), url, task)
}

func (t leg) run(arguments []string, url, task string) *life {
	t.Helper()
	life := &life{done: make(chan struct{})}
	life.command = exec.CommandContext(context.WithoutCancel(t.Context()), arguments[0], append(arguments[1:], url, task)...)
	life.command.Env = append(os.Environ(), t.environment...)
	life.command.Stdout, life.command.Stderr = &life.said, &life.said
	if err := life.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(life.done)
		_ = life.command.Wait() // its state tells how it ended
	}()
	t.Cleanup(func() {
		life.kill()
		if t.Failed() {
			t.Logf("a worker said: %s", life.said.Bytes())
		}
	})
	return life
}

// kill ends the worker as kill -9 does.
func (l *life) kill() {
	_ = l.command.Process.Kill() // it may have ended by itself
	<-l.done
}

// ended waits until the worker has ended by itself, and gives its exit code and what it said.
func (l *life) ended(t *testing.T) (code int, said string) {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(time.Minute):
		t.Fatal("the worker goes on")
	}
	return l.command.ProcessState.ExitCode(), l.said.String()
}
