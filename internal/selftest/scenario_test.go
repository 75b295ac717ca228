package selftest_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/checkpointd/checkpointd/internal/selftest"
	"github.com/checkpointd/checkpointd/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the kit against a worker.
func play(t *testing.T, driver selftest.Driver, timeout time.Duration, only ...string) *selftest.Report {
	t.Helper()
	report, err := selftest.Run(t.Context(), selftest.Options{
		URL: "http://127.0.0.1:0", Task: "täsk/1 & more", Job: "default", Timeout: timeout, Only: only, Driver: driver, Out: t.Output(),
	})
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
	for _, result := range report.Results {
		if result.Outcome != selftest.Passed {
			t.Errorf("%s: %s %s %+v", result.Name, result.Outcome, result.Note, result.Findings)
		}
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
		"takes every answer for JSON":                {"proxy-page", habits{parsesAll: true}, "It ended while"},
		"insists on an aborted checkpoint":           {"aborted-meanwhile", habits{insists: true}, "which was aborted"},
		"insists on an expired checkpoint":           {"expired-meanwhile", habits{insists: true}, "which was expired"},
		"ends when its checkpoint is aborted":        {"aborted-meanwhile", habits{endsOnRefusal: true}, "It ended because checkpoint"},
		"ends when its checkpoint is deleted":        {"deleted-meanwhile", habits{endsOnRefusal: true}, "It ended because checkpoint"},
		"freezes when its checkpoint is deleted":     {"deleted-meanwhile", habits{freezes: true}, "It sent nothing at all"},
		"restores nothing":                           {"restart", habits{forgets: true}, "It did not restore checkpoint"},
		"restores the first checkpoint for ever":     {"restart", habits{restoresFirst: true}, "and the latest completed one is"},
		"recovers without a key":                     {"restart", habits{recoversWithoutKey: true}, "without an Idempotency-Key"},
		"takes half a restore for the whole":         {"restore-broken-off", habits{takesHalf: true}, "of its restore"},
		"resumes at the wrong byte":                  {"restore-broken-off", habits{skips: true}, "asked for those from"},
		"takes a login page for its state":           {"restore-page", habits{takesAnything: true}, "answered with a page of HTML"},
		"takes a 503 for a fresh start":              {"storage-down-at-start", habits{freshOn503: true}, "answered 503 when it asked what to restore"},
		"starts without asking":                      {"storage-down-at-start", habits{forgets: true}, "without having restored"},
		"goes on after a recovery":                   {"stale-epoch", habits{ignoresStale: true}, "refused as stale_epoch"},
		"takes the new epoch without restoring":      {"stale-epoch", habits{adoptsEpoch: true}, "new epoch without having restored"},
		"is alive and does nothing after a recovery": {"stale-epoch", habits{silentWhenStale: true}, "neither ended nor began anew"},
		"goes on beside the later life of its task":  {"stale-attempt", habits{ignoresStale: true}, "refused as stale_attempt"},
		"sends another part when an answer is lost":  {"lost-answer", habits{otherBytes: true}, "another part than what it had sent"},
	}
	// They wait more than they work: more at once than there are processors.
	var all sync.WaitGroup
	atOnce := make(chan struct{}, 12)
	all.Go(func() {
		expect(t, "hears events only", play(t, &inProcess{live: deaf}, 3*time.Second, "connection-cut"), "did not hand anything in")
	})
	for name, c := range cases {
		all.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			expect(t, name, play(t, &inProcess{live: c.habits.live}, 3*time.Second, c.scenario), c.what)
		})
	}
	all.Wait()
}

// What counts requests must not share the machine with others that do.
func TestWhoAsksInATightLoopIsTold(t *testing.T) { //nolint:paralleltest // See above.
	expect(t, "idle", play(t, &inProcess{live: habits{hotPoll: true}.live}, 3*time.Second, "idle"), "while nothing was to be done")
	expect(t, "refused", play(t, &inProcess{live: habits{impatient: true}.live}, 3*time.Second, "refused-503"), "while its part was refused with Retry-After")
}

// wrong is what a worker does wrong, the scenario that finds it, and how it is named.
type wrong struct {
	scenario string
	habits   habits
	what     string
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
	report, err := selftest.Run(t.Context(), selftest.Options{
		URL: "http://127.0.0.1:0", Task: "task-1", Job: "default", Timeout: 30 * time.Second, Out: t.Output(),
		Driver: selftest.Command([]string{"../../examples/shell/worker.sh", "{url}", "{task}"}, t.Output()),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		if result.Outcome == selftest.Failed {
			t.Errorf("%s: %+v", result.Name, result.Findings)
		}
	}
}

func TestAWorkerInGoPassesWithoutAdvice(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"by itself": false, "with a recovery": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := func(ctx context.Context, life selftest.Life) {
				t.Logf("life %d ended: %v", life.Number, liveInGo(ctx, life, recovers))
			}
			for _, result := range play(t, &inProcess{live: live}, 30*time.Second).Results {
				if result.Outcome != selftest.Passed {
					t.Errorf("%s: %s %s %+v", result.Name, result.Outcome, result.Note, result.Findings)
				}
			}
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
