package examples_test

import (
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/selftest"
)

// What the kit tells authors of workers to do, the examples have to do.
func TestAWorkerPassesTheSelftest(t *testing.T) {
	t.Parallel()
	each(t, func(t leg) {
		report, err := selftest.Run(t.Context(), selftest.Options{
			URL: "http://127.0.0.1:0", Task: awkward, Job: "default", Timeout: time.Minute, Out: t.Output(),
			Driver: selftest.Command(append(t.arguments(t.file), "{url}", "{task}", "{attempt}"), t.Output()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !report.Passed {
			t.Error("it did not, see above")
		}
	})
}
