package worker_test

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/worker"
)

func TestAWorkerWhoseSettingsAreOutOfRangeDoesNotStartAndNamesTheField(t *testing.T) {
	t.Parallel()
	refused := map[string][]func(*worker.Worker){
		"URL": {
			func(w *worker.Worker) { w.URL = "127.0.0.1:8080" },
			func(w *worker.Worker) { w.URL = "ftp://127.0.0.1" },
			func(w *worker.Worker) { w.URL = "http://" },
		},
		"Job":             {func(w *worker.Worker) { w.Job = "a b" }, func(w *worker.Worker) { w.Job = "-a" }, func(w *worker.Worker) { w.Job = strings.Repeat("j", 129) }},
		"Token":           {func(w *worker.Worker) { w.Token = "a b" }, func(w *worker.Worker) { w.Token = "secret\n" }},
		"Attempt":         {func(w *worker.Worker) { w.Attempt = -1 }, func(w *worker.Worker) { w.Attempt = 1 << 53 }},
		"Restore":         {func(w *worker.Worker) { w.Restore = nil }},
		"DrainTimeout":    {func(w *worker.Worker) { w.DrainTimeout = -1 }},
		"FinalCheckpoint": {func(w *worker.Worker) { w.FinalCheckpoint = true }},
		"ShutdownTimeout": {func(w *worker.Worker) { w.ShutdownTimeout = -1 }},
		"StreamTimeout":   {func(w *worker.Worker) { w.StreamTimeout = -1 }},
		"MaxBackoff":      {func(w *worker.Worker) { w.MaxBackoff = -1 }},
		"HTTPClient":      {func(w *worker.Worker) { w.HTTPClient = &http.Client{Timeout: time.Hour} }},
		"Share":           {func(w *worker.Worker) { w.Share = worker.Share{Index: 0, Of: 2} }, func(w *worker.Worker) { w.Share.Index = 1 }},
	}
	for _, id := range []string{"", ".", "..", "-", " a", "a\u00a0", "a\nb", "a\u0080b", "a\xff", strings.Repeat("x", 1025)} {
		refused["TaskID"] = append(refused["TaskID"], func(w *worker.Worker) { w.TaskID = id })
	}
	for _, key := range []string{"a b", "ü", "a\n", "\x7f", strings.Repeat("k", 256)} {
		refused["RecoveryKey"] = append(refused["RecoveryKey"], func(w *worker.Worker) { w.RecoveryKey = key })
	}
	for _, wait := range []time.Duration{-time.Second, time.Millisecond, 1500 * time.Millisecond, 61 * time.Second} {
		refused["PollWait"] = append(refused["PollWait"], func(w *worker.Worker) { w.PollWait = wait })
	}
	for field, spoilings := range refused {
		for _, spoil := range spoilings {
			w := settled()
			spoil(w)
			if err := w.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "worker: "+field) || strings.Contains(err.Error(), "\n") {
				t.Errorf("with a wrong %s (%+v) Run answered %v", field, w, err)
			}
		}
	}
}

func TestAWorkerTakesWhatIsAtTheEdgesOfItsSettings(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*worker.Worker){
		"nothing set": func(*worker.Worker) {},
		"low":         func(w *worker.Worker) { w.PollWait, w.RecoveryKey, w.Job, w.MaxBackoff = time.Second, "!", "0", 1 },
		"high": func(w *worker.Worker) {
			w.PollWait, w.Attempt, w.DrainTimeout = time.Minute, 1<<53-1, math.MaxInt64
			w.TaskID, w.RecoveryKey, w.Job = strings.Repeat("x", 1024), strings.Repeat("~", 255), strings.Repeat("j", 128)
		},
		"odd": func(w *worker.Worker) { w.TaskID, w.ExtendBy = "a b/%2F?ü…", -1 },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := settled()
		set(w)
		if err := w.Run(ctx); err != context.Canceled { //nolint:errorlint // What Run gives is the context's own.
			t.Errorf("%s: Run answered %v", name, err)
		}
	}
}

// settled is a worker that lacks nothing but a server.
func settled() *worker.Worker {
	return &worker.Worker{
		URL: "http://127.0.0.1:1", TaskID: "task-1",
		Restore:  func(context.Context, worker.Checkpoint, worker.Entries) error { return nil },
		Snapshot: func(context.Context, worker.Checkpoint) (worker.Entries, error) { return nil, nil },
	}
}
