package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// started tells when the worker wrote a number, which is the id of a process.
type started struct {
	lock sync.Mutex
	text bytes.Buffer
	pid  chan int
}

func (s *started) Write(p []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.text.Write(p)
	if _, number, found := strings.Cut(string(p), "worker | "); found {
		if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
			s.pid <- pid
		}
	}
	return len(p), nil
}

func needs(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("not tested: there is no %s on this machine", tool)
	}
}

func TestACtrlCEndsEverythingThatWasStarted(t *testing.T) {
	needs(t, "sh")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	worker := &started{pid: make(chan int, 1)}
	ended := make(chan error)
	go func() {
		_, err := run(ctx, []string{"http://127.0.0.1:0", "--", "sh", "-c", "sleep 1000 & echo $!; wait"}, nil, io.Discard, worker)
		ended <- err
	}()
	pid := <-worker.pid
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	// Its child was killed with it; who is killed may take a moment to go.
	deadline := time.Now().Add(30 * time.Second)
	for syscall.Kill(pid, 0) == nil && !zombie(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d goes on", pid)
		}
		<-time.After(10 * time.Millisecond)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
}

// zombie tells whether a process is dead and only waits for its parent, which may never ask.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestTheReportIsOneDocumentAndTheCommandKnowsWhereToConnect(t *testing.T) {
	t.Parallel()
	needs(t, "sh")
	var out bytes.Buffer
	progress := &started{pid: make(chan int, 1)}
	passed, err := run(t.Context(), []string{
		"--json", "--only", "fresh-start", "--timeout", "20s", "--task", "täsk", "--job", "orders", "http://127.0.0.1:0",
		"--", "sh", "-c", `echo "{url} {task} {job} {attempt} {key} = $CHECKPOINTD_URL $CHECKPOINTD_TASK $CHECKPOINTD_JOB $CHECKPOINTD_ATTEMPT $CHECKPOINTD_RECOVERY_KEY"; printf oops; exit 3`,
	}, nil, &out, progress)
	if passed || err != nil {
		t.Errorf("passed: %t, %v", passed, err)
	}
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if report.Passed || report.Task != "täsk" || report.Job != "orders" || len(report.Results) != 1 || report.Results[0].Outcome != Failed ||
		!strings.Contains(report.Results[0].Findings[0].What, "ended before it had sent anything") {
		t.Errorf("the report is %+v", report)
	}
	want := report.URL + " täsk orders 1 selftest-1"
	if !strings.Contains(progress.text.String(), "worker | "+want+" = "+want+"\n  worker | oops\n") {
		t.Errorf("the worker was told otherwise:\n%s", progress.text.String())
	}
}

func TestWhatCannotWorkIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"http://" + listener.Addr().String()}, "listens on " + listener.Addr().String() + " already"},
		{[]string{"http://" + listener.Addr().String()}, "name a free address, such as http://127.0.0.1:"},
		{[]string{"http://192.0.2.1:9090"}, "cannot listen on"},
		{[]string{"https://127.0.0.1:9090"}, "not of the form http://HOST:PORT"},
		{[]string{"http://127.0.0.1"}, "not of the form http://HOST:PORT"},
		{[]string{"http://127.0.0.1:0", "--only", "tea"}, `no scenario "tea", but fresh-start, `},
		{[]string{"http://127.0.0.1:0", "--job", "a b"}, "the kit's own server"},
		{[]string{"http://127.0.0.1:0", "--", "/no/such/worker"}, "starting your worker"},
		{[]string{}, "selftest --help"},
	} {
		passed, err := run(t.Context(), c.args, strings.NewReader(""), io.Discard, io.Discard)
		if passed || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestHelpNamesEachScenarioAndPasses(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	passed, err := run(t.Context(), []string{"--help"}, nil, &out, io.Discard)
	text := strings.Join(strings.Fields(out.String()), " ")
	if !passed || err != nil {
		t.Errorf("passed: %t, %v", passed, err)
	}
	for _, name := range names() {
		if !strings.Contains(text, name) {
			t.Errorf("%s is not in %s", name, text)
		}
	}
}

func TestTheDocumentationHasEachScenarioInItsOrder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/selftest.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "| `"); is {
			name, _, _ := strings.Cut(rest, "`")
			described = append(described, name)
		}
	}
	if got, want := strings.Join(described, " "), strings.Join(names(), " "); got != want {
		t.Errorf("docs/selftest.md describes\n%s\nand there are\n%s", got, want)
	}
}

func TestLongListsOfRequestsAreShortenedInTheMiddle(t *testing.T) {
	t.Parallel()
	for many, want := range map[int]int{0: 0, 24: 24, 25: 25, 1000: 25} {
		requests := make(fault.Requests, many)
		for i := range requests {
			requests[i].Path = fmt.Sprint("/", i)
		}
		if lines := shown(requests, time.Now()); len(lines) != want {
			t.Errorf("of %d there are %d: %q", many, len(lines), lines)
		}
	}
}

func TestEqualRequestsAreOneLineThatDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var requests fault.Requests
	for i := range 1000 {
		path := "/checkpoints"
		if i == 500 {
			path = "/the-one-that-matters"
		}
		requests = append(requests, fault.Request{Method: "GET", Path: path, Status: 200, At: began.Add(time.Duration(i) * 10 * time.Millisecond)})
	}
	want := []string{
		"  0.000s GET /checkpoints → 200  × 999, 100 a second, the last at 9.990s",
		"  5.000s GET /the-one-that-matters → 200",
	}
	if diff := cmp.Diff(want, shown(requests, began)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := shown(requests[:equalShown], began); len(lines) != equalShown {
		t.Errorf("a few are not written out: %q", lines)
	}
}

func TestABusyLoopIsOneThatLasts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n     int
		every time.Duration
		want  int
	}{
		"too many":                      {1000, 10 * time.Millisecond, 300},
		"just too many":                 {1000, 47 * time.Millisecond, 64},
		"not too many":                  {1000, 50 * time.Millisecond, 0},
		"many at once":                  {1000, 100 * time.Microsecond, 0},
		"many, for less than 3 seconds": {210, 10 * time.Millisecond, 0},
		"none":                          {0, time.Second, 0},
	} {
		var arrivals []time.Time
		for i := range c.n {
			arrivals = append(arrivals, time.Unix(0, 0).Add(time.Duration(i)*c.every))
		}
		if got := loopOf(arrivals); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestRequestsAboutDifferentCheckpointsAreOfOneKind(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/checkpoints":                      "GET /checkpoints",
		"/checkpoints/17/tasks/t%2F1/state": "GET /checkpoints/{id}/tasks/t%2F1/state",
		"/checkpoints/latest/restore":       "GET /checkpoints/latest/restore",
	} {
		if got := kind(fault.Request{Method: "GET", Path: path}); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
