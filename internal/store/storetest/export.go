package storetest

import (
	"bytes"
	"context"
	"embed"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Exports of servers before the first release, as they wrote them: embedded.ndjson and redis.ndjson by commit 2d96f04.
//
//go:embed testdata/*.ndjson
var earlierExports embed.FS

func testExport(t *testing.T, s suite) {
	for _, name := range []string{"embedded", "redis"} {
		s.rule(t, "what an earlier server exported from the "+name+" store is imported, and exported as the same bytes", func(t *testing.T, r *rig) {
			text, err := earlierExports.ReadFile("testdata/" + name + ".ndjson")
			r.check("read", err)
			r = r.in("orders")
			r.check("import", r.importInto("orders", string(text)))
			if diff := cmp.Diff(string(text), r.export()); diff != "" {
				t.Errorf("the export (-before +after):\n%s", diff)
			}
		})
	}
	s.rule(t, "each export under load is imported, and exported as the same bytes but for what pends", func(t *testing.T, r *rig) {
		r.tolerant = true // what the load leaves is not what is looked at
		rounds := 20
		if n, err := strconv.Atoi(os.Getenv("CHECKPOINTD_EXPORTS")); err == nil {
			rounds = n
		}
		from := r.in("orders")
		from.defaults.Keep = 3
		from.completed()
		loaded, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		defer load.Wait()
		defer stop()
		for worker := range 2 {
			load.Go(func() {
				for turn := 0; loaded.Err() == nil; turn++ {
					from.turn(loaded, strconv.Itoa(worker)+"-"+strconv.Itoa(turn), turn)
				}
			})
		}
		for round := range rounds {
			into := r.in("into-" + strconv.Itoa(round))
			text := from.export()
			r.check("import", into.importInto(into.job, text))
			// Only the first and the last line may differ: the job's name, and the digest of it.
			if diff := cmp.Diff(inner(text), inner(into.export())); diff != "" {
				t.Fatalf("export %d (-exported +imported):\n%s", round, diff)
			}
		}
	})
}

// turn triggers a checkpoint and ends it in one of several ways. Refusals are part of the load.
func (r *rig) turn(ctx context.Context, name string, turn int) {
	call := coordinator.TriggerCall{
		Job: r.job, RequiredTaskAcks: 1, Defaults: r.defaults, Idempotency: coordinator.Idempotency{Token: "trigger-" + name, Fingerprint: "body"},
	}
	made, err := r.store.Trigger(ctx, call)
	if err != nil {
		return
	}
	id := made.Checkpoint.ID
	if turn%4 == 3 {
		_, _ = r.store.Abort(ctx, coordinator.AbortCall{Job: r.job, ID: id, Token: "abort-" + name})
		return
	}
	content := part("a", "k", strconv.Itoa(turn))
	_, _ = r.store.Acknowledge(ctx, coordinator.AckCall{
		Job: r.job, ID: id, Items: []coordinator.AckItem{item("a", with(content))}, Retention: r.defaults.Retention, Token: "ack-" + name,
	})
}

// inner is an export without its first and its last line.
func inner(text string) string {
	lines := bytes.SplitAfter([]byte(text), []byte("\n"))
	return string(bytes.Join(lines[1:len(lines)-2], nil))
}
