package selftest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/pacetest"
	"github.com/checkpointd/checkpointd/internal/selftest"
	"github.com/checkpointd/checkpointd/worker"
)

// TestMain lets more tests run at once than there are processors: they wait more than they work.
func TestMain(m *testing.M) {
	pacetest.Waiting(12)
	pacetest.Long("workers that are played against the selftest")
	goleak.VerifyTestMain(m)
}

// play runs the kit against a worker, with short windows.
func play(t *testing.T, driver selftest.Driver, timeout time.Duration, only ...string) *selftest.Report {
	t.Helper()
	return playAs(t, selftest.Brisk(selftest.Options{Driver: driver, Timeout: timeout, Only: only}))
}

func playAs(t *testing.T, o selftest.Options) *selftest.Report {
	t.Helper()
	o.URL, o.Task, o.Job, o.Out = "http://127.0.0.1:0", cmp.Or(o.Task, "täsk/1 & more"), "default", t.Output()
	report, err := selftest.Run(t.Context(), o)
	if err != nil {
		t.Error(err)
		return &selftest.Report{Results: make([]selftest.Result, 1)}
	}
	return report
}

func TestAWorkerThatDoesNothingWrongPassesWithoutAdvice(t *testing.T) {
	t.Parallel()
	report := play(t, &inProcess{live: habits{}.live}, 30*time.Second)
	if len(report.Results) < 20 || !report.Passed {
		t.Errorf("of %d scenarios it did not pass all", len(report.Results))
	}
	withoutAdvice(t, report)
}

// withoutAdvice wants every scenario to be passed.
func withoutAdvice(t *testing.T, report *selftest.Report) {
	t.Helper()
	for _, result := range report.Results {
		if result.Outcome != selftest.Passed {
			t.Errorf("%s: %s %s %+v", result.Name, result.Outcome, result.Note, result.Findings)
		}
	}
}

// shares play all scenarios, each in one of some plays at once, with the windows that users have.
func shares(t *testing.T, o selftest.Options, driver func() selftest.Driver, judge func(*testing.T, *selftest.Report)) {
	t.Helper()
	const plays = 4
	for share := range plays {
		t.Run(fmt.Sprint("share ", share), func(t *testing.T) {
			t.Parallel()
			mine := o
			for i, name := range selftest.Names() {
				if i%plays == share {
					mine.Only = append(mine.Only, name)
				}
			}
			mine.Driver = driver()
			judge(t, playAs(t, mine))
		})
	}
}

func TestAWorkerThatDoesOtherwiseButNothingWrongIsNotBlamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scenarios string
		habits    habits
	}{
		"whose state never changes":                     {"restart", habits{states: 1}},
		"whose state comes round after two":             {"restart", habits{states: 2}},
		"whose state is its first one every other time": {"several restart", habits{states: 2}},
		"whose state comes round after three":           {"restart", habits{states: 3}},
		"that is slow to restore":                       {"restart", habits{slowToRestore: true}},
		"that ends on a 503 and comes again":            {"storage-down-at-start", habits{endsOn503: true}},
		"that recovers and waits for answers":           {"storage-down-at-start", habits{recoversFirst: true}},
		"that is slow to restore when all is away":      {"storage-down-at-start", habits{slowToRestore: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withoutAdvice(t, play(t, &inProcess{live: c.habits.live}, 30*time.Second, strings.Fields(c.scenarios)...))
		})
	}
}

// Each fault is found by the scenario that is for it, and named.
func TestEachWrongWorkerIsToldWhatItDoesWrong(t *testing.T) {
	t.Parallel()
	cases := map[string]wrong{
		"connects to nothing":                        {"fresh-start", habits{mute: true}, "did not connect within"},
		"sends what is no JSON":                      {"fresh-start", habits{badLines: true}, "refused as invalid_json"},
		"is another task":                            {"fresh-start", habits{otherTask: true}, "as another task than"},
		"takes part in the first two only":           {"several", habits{onlyFirst: true}, "did not hand anything in for checkpoint"},
		"takes the newest only":                      {"two-pending", habits{newestOnly: true}, "did not hand anything in"},
		"asks for what it has acknowledged":          {"acknowledged-once", habits{asksForAll: true}, "after its acknowledgement had been answered"},
		"knows all members":                          {"unknown-members", habits{strict: true}, "It ended while"},
		"sends once":                                 {"lost-request", habits{sendsOnce: true}, "did not acknowledge checkpoint"},
		"declines what did not get through":          {"lost-request", habits{declines: true}, "It declined checkpoint"},
		"declines when an answer was lost":           {"lost-answer", habits{declines: true}, "which had its part already"},
		"declines on a 503":                          {"refused-503", habits{declines: true}, "It declined checkpoint"},
		"ends without a server":                      {"server-away", habits{endsWithoutServer: true}, "because the server refused connections"},
		"ends when its poll is cut":                  {"connection-cut", habits{endsWithoutServer: true}, "It ended while"},
		"hears events only":                          {"connection-cut", habits{}, "did not hand anything in"},
		"takes every answer for JSON":                {"proxy-page", habits{parsesAll: true}, "It ended while"},
		"insists on an aborted checkpoint":           {"aborted-meanwhile", habits{insists: true}, "which was aborted"},
		"insists on an expired checkpoint":           {"expired-meanwhile", habits{insists: true}, "which was expired"},
		"ends when its checkpoint is aborted":        {"aborted-meanwhile", habits{endsOnRefusal: true}, "It ended because checkpoint"},
		"ends when its checkpoint is deleted":        {"deleted-meanwhile", habits{endsOnRefusal: true}, "It ended because checkpoint"},
		"freezes when its checkpoint is deleted":     {"deleted-meanwhile", habits{freezes: true}, "It sent nothing at all"},
		"restores nothing":                           {"restart", habits{forgets: true}, "handed in a part without having restored checkpoint"},
		"reads its restore and ignores it":           {"restart", habits{ignoresRestore: true}, "reads its restore and ignores it"},
		"begins each life with the same part":        {"restart", habits{beginsEmpty: true}, "After each of two restarts"},
		"restores the first checkpoint for ever":     {"restart", habits{restoresFirst: true}, "and the latest completed one is"},
		"recovers without a key":                     {"restart", habits{recoversWithoutKey: true}, "without an Idempotency-Key"},
		"takes half a restore for the whole":         {"restore-broken-off", habits{takesHalf: true}, "of its restore"},
		"resumes at the wrong byte":                  {"restore-broken-off", habits{skips: true}, "asked for those from"},
		"takes a login page for its state":           {"restore-page", habits{takesAnything: true}, "answered with a page of HTML"},
		"takes a 503 for a fresh start":              {"storage-down-at-start", habits{freshOn503: true}, "answered 503 when it asked what to restore"},
		"takes only its restore's 503 for that":      {"storage-down-at-start", habits{freshAtRestore: true}, "answered 503 when it asked what to restore"},
		"recovers well and takes that for fresh":     {"storage-down-at-start", habits{freshAtRestore: true, recoversFirst: true}, "answered 503 when it asked what to restore"},
		"starts without asking":                      {"storage-down-at-start", habits{forgets: true}, "It handed in a part without having restored"},
		"goes on after a recovery":                   {"stale-epoch", habits{ignoresStale: true}, "refused as stale_epoch"},
		"takes the new epoch without restoring":      {"stale-epoch", habits{adoptsEpoch: true}, "new epoch without having restored"},
		"is alive and does nothing after a recovery": {"stale-epoch", habits{silentWhenStale: true}, "neither ended nor began anew"},
		"goes on beside the later life of its task":  {"stale-attempt", habits{ignoresStale: true}, "refused as stale_attempt"},
		"sends another part when an answer is lost":  {"lost-answer", habits{otherBytes: true}, "another part than what it had sent"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := c.habits.live
			if c.habits == (habits{}) {
				live = deaf
			}
			patience := time.Minute // for what is found when it happens
			if c.waits() {
				patience = 6 * time.Second
			}
			expect(t, name, play(t, &inProcess{live: live}, patience, c.scenario), c.what)
		})
	}
}

// What counts requests must not share the machine with everything else.
func TestWhoAsksInATightLoopIsTold(t *testing.T) { //nolint:paralleltest // See above.
	loop := func(h habits, scenario string) *selftest.Report {
		return playAs(t, selftest.Options{Driver: &inProcess{live: h.live}, Timeout: 3500 * time.Millisecond, Only: []string{scenario}})
	}
	var all sync.WaitGroup
	all.Go(func() { expect(t, "idle", loop(habits{hotPoll: true}, "idle"), "while nothing was to be done") })
	all.Go(func() {
		report := loop(habits{impatient: true}, "refused-503")
		expect(t, "refused", report, "while its part was refused with Retry-After")
		if findings := report.Results[0].Findings; len(findings) != 1 {
			t.Errorf("one loop is told of more than once: %+v", findings)
		}
	})
	all.Go(func() {
		report := loop(habits{hotPoll: true, impatient: true, sendsOnce: true}, "lost-request")
		expect(t, "lost", report, "in a busy loop: GET /checkpoints, ")
		expect(t, "lost", report, "did not acknowledge checkpoint")
		requests := report.Results[0].Requests
		if text := strings.Join(requests, "\n"); len(requests) > 6 || !strings.Contains(text, "PUT ") || !strings.Contains(text, " a second, the last at ") {
			t.Errorf("the requests are shown as\n%s", text)
		}
	})
	all.Wait()
}

// wrong is what a worker does wrong, the scenario that finds it, and how it is named.
type wrong struct {
	scenario string
	habits   habits
	what     string
}

// waits tells whether it is found by what never comes.
func (w wrong) waits() bool {
	words := []string{"did not", "nothing at all", "neither", "as another task", "refused as invalid_json", "which was"}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(w.what, word) })
}

// expect looks for one finding of the only scenario.
func expect(t *testing.T, name string, report *selftest.Report, what string) {
	t.Helper()
	result := report.Results[0]
	for _, finding := range result.Findings {
		if strings.Contains(finding.What, what) {
			if finding.Must == report.Passed || finding.Do == "" || len(result.Requests) == 0 && !strings.Contains(what, "connect") {
				t.Errorf("%s: passed: %t, %d requests are shown, %+v", name, report.Passed, len(result.Requests), finding)
			}
			return
		}
	}
	t.Errorf("%s: %q is not in %s %+v", name, what, result.Outcome, result.Findings)
}

func TestAWorkerThatIsBeyondHelpIsNotTriedTwentyTimes(t *testing.T) {
	t.Parallel()
	lives := 0
	driver := &inProcess{live: func(ctx context.Context, life selftest.Life) {
		lives = life.Number
		habits{mute: true}.live(ctx, life)
	}}
	report := play(t, driver, 100*time.Millisecond)
	if report.Passed || lives != 2 || report.Results[0].Outcome != selftest.Failed {
		t.Errorf("after %d lives the first result is %+v", lives, report.Results[0])
	}
	for _, result := range report.Results[1:] {
		if result.Outcome != selftest.Skipped || !strings.Contains(result.Note, "not played") {
			t.Errorf("%s: %s %s", result.Name, result.Outcome, result.Note)
		}
	}
}

// The other examples go through the kit in their own folder.
func TestTheWorkerInShellPasses(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("THE WORKER IN SHELL CANNOT BE TESTED: there is no %s, and CI must not skip", tool)
			}
			t.Skipf("THE WORKER IN SHELL IS NOT TESTED: there is no %s on this machine", tool)
		}
	}
	shares(t, selftest.Options{Task: "task-1", Timeout: 30 * time.Second}, func() selftest.Driver {
		return selftest.Command([]string{"../../examples/shell/worker.sh", "{url}", "{task}"}, t.Output())
	}, func(t *testing.T, report *selftest.Report) {
		t.Helper()
		for _, result := range report.Results {
			if result.Outcome == selftest.Failed {
				t.Errorf("%s: %+v", result.Name, result.Findings)
			}
		}
	})
}

func TestAWorkerInGoPassesWithoutAdvice(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"by itself": false, "with a recovery": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := func(ctx context.Context, life selftest.Life) {
				t.Logf("life %d ended: %v", life.Number, liveInGo(ctx, life, recovers))
			}
			shares(t, selftest.Options{Timeout: 30 * time.Second}, func() selftest.Driver { return &inProcess{live: live} }, withoutAdvice)
		})
	}
}

// liveInGo is a life of a worker made with the library.
func liveInGo(ctx context.Context, life selftest.Life, recovers bool) error {
	var lock sync.Mutex
	counts := map[string]int{}
	w := worker.Worker{
		URL: life.URL, Job: life.Job, TaskID: life.Task, Attempt: int64(life.Number), MaxBackoff: 200 * time.Millisecond, PollWait: time.Second,
		Restore: func(_ context.Context, _ worker.Checkpoint, entries worker.Entries) error {
			return worker.IntoMap(counts, entries)
		},
		Snapshot: func(_ context.Context, checkpoint worker.Checkpoint) (worker.Entries, error) {
			lock.Lock()
			defer lock.Unlock()
			counts[fmt.Sprint("n", checkpoint.ID%3)]++
			return worker.FromMap(maps.Clone(counts)), nil
		},
	}
	if recovers {
		w.RecoveryKey = life.RecoveryKey()
	}
	return w.Run(ctx)
}
