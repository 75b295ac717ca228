package examples_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/selftest"
)

// telling are the scenarios in which an example can go wrong by what its language does for it, such as its HTTP
// library and its way to read a stream: answers that break off, are no JSON, or come late. The rest of the
// contract is tested elsewhere in this folder.
var telling = [][]string{
	{"unknown-members", "lost-request", "lost-answer", "connection-cut", "proxy-page", "restore-broken-off"},
	{"restart", "restore-page", "storage-down-at-start"},
}

// What the kit tells authors of workers to do, the examples have to do. With CHECKPOINTD_SELFTEST=all they
// play every scenario.
func TestAWorkerPassesTheSelftest(t *testing.T) {
	t.Parallel()
	plays := telling
	if os.Getenv("CHECKPOINTD_SELFTEST") == "all" {
		plays = [][]string{nil}
	}
	each(t, func(t leg) {
		command := append(t.arguments(t.file), "{url}", "{task}", "{attempt}")
		var all sync.WaitGroup // at once: they wait more than they work
		for _, only := range plays {
			all.Go(func() {
				report, err := selftest.Run(t.Context(), selftest.Options{
					URL: "http://127.0.0.1:0", Task: awkward, Job: "default", Timeout: time.Minute, Only: only, Out: t.Output(),
					Driver: selftest.Command(command, t.Output()),
				})
				if err != nil {
					t.Error(err)
				} else if !report.Passed {
					t.Error("it did not, see above")
				}
			})
		}
		all.Wait()
	})
}
