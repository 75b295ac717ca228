package selftest_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/selftest"
)

// person does what the kit asks for.
type person struct {
	worker  inProcess
	keys    *io.PipeWriter // nil for somebody who never presses Enter
	lock    sync.Mutex
	prompts []string
}

func (p *person) Write(text []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if !strings.HasPrefix(string(text), "→") {
		return len(text), nil
	}
	p.prompts = append(p.prompts, string(text))
	if len(p.prompts) == 1 {
		_, url, _ := strings.Cut(string(text), "URL ")
		url, _, _ = strings.Cut(url, ",")
		p.start(url)
		return len(text), nil
	}
	p.worker.Kill()
	p.start("")
	if p.keys != nil {
		go func() { _, _ = p.keys.Write([]byte("\n")) }()
	}
	return len(text), nil
}

func (p *person) start(url string) {
	if url != "" {
		live := p.worker.live
		p.worker.live = func(ctx context.Context, life selftest.Life) {
			life.URL, life.Task, life.Job = url, "task-1", "default"
			live(ctx, life)
		}
	}
	_ = p.worker.Start(context.Background(), selftest.Life{Number: len(p.prompts)})
}

func TestAPersonMayStartAndRestartTheWorker(t *testing.T) {
	t.Parallel()
	for name, presses := range map[string]bool{"who presses Enter": true, "whose input is closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, keys := io.Pipe()
			who := &person{worker: inProcess{live: habits{}.live}}
			if presses {
				who.keys = keys
				t.Cleanup(func() { keys.Close() })
			} else {
				keys.Close()
			}
			report, err := selftest.Run(t.Context(), selftest.Brisk(selftest.Options{
				URL: "http://127.0.0.1:0", Task: "task-1", Job: "default", Timeout: 10 * time.Second,
				Only:   []string{"fresh-start", "restart", "storage-down-at-start", "stale-attempt", "stale-epoch"},
				Driver: selftest.Prompt(in, who), Out: io.MultiWriter(who, t.Output()),
			}))
			who.worker.Kill()
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range report.Results {
				if result.Outcome != selftest.Passed {
					t.Errorf("%s: %s %s %+v", result.Name, result.Outcome, result.Note, result.Findings)
				}
			}
			if len(who.prompts) < 3 {
				t.Errorf("it was asked for %q", who.prompts)
			}
		})
	}
}
