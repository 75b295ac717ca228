package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/engine"
	"github.com/checkpointd/checkpointd/worker"
)

// An engine counts words. It is stopped when the checkpoint has completed, and its next life
// goes on with the counts and at the word of that checkpoint.
func Example_engine() {
	server := checkpointtest.NewServer()
	defer server.Close()
	if err := live(server, "to be or not"); err != nil {
		fmt.Println(err)
	}
	if err := live(server, "to be or not to be, that is the question"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// from word 0 with map[]
	// at word 4 with map[be:1 not:1 or:1 to:1]
	// from word 4 with map[be:1 not:1 or:1 to:1]
	// at word 10 with map[be:2 is:1 not:1 or:1 question:1 that:1 the:1 to:2]
}

// live reads a text from where the life before got to, and hands in its state.
func live(server *checkpointtest.Server, text string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := engine.NewCoordinator(nil)
	counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
	if err != nil {
		return err
	}
	words, err := engine.NewKeyedStore[string, int](ctx, c, "words read", nil)
	if err != nil {
		return err
	}
	w := worker.Worker{
		URL: server.URL, TaskID: "task-1", Engine: c,
		OnCompleted: func(context.Context, int64) { stop() },
		Work: func(ctx context.Context) error {
			file := engine.WithKey(ctx, "hamlet.txt") // one position for each text
			from, err := words.Value(file)
			if err != nil {
				return err
			}
			if err := show(ctx, "from", from, counts); err != nil {
				return err
			}
			records := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[string]) error {
				for _, word := range strings.Fields(text)[from:] {
					if err := out.Emit(ctx, strings.Trim(word, ",")); err != nil {
						return err
					}
				}
				return nil
			})
			byWord := engine.KeyBy(records, func(word string) string { return word })
			if err := byWord.Each(ctx, func(ctx context.Context, _ string) error {
				// A checkpoint has both or neither: no word is lost, none counts twice.
				one := func(n int) int { return n + 1 }
				if err := counts.Update(ctx, one); err != nil {
					return err
				}
				return words.Update(engine.WithKey(ctx, "hamlet.txt"), one)
			}); err != nil {
				return err
			}
			at, err := words.Value(file)
			if err != nil {
				return err
			}
			if err := show(ctx, "at", at, counts); err != nil {
				return err
			}
			server.Trigger("task-1")
			<-ctx.Done()
			return nil
		},
	}
	if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // it was stopped
}

func show(ctx context.Context, where string, at int, counts *engine.KeyedStore[string, int]) error {
	all, err := counts.All(ctx)
	if err != nil {
		return err
	}
	fmt.Println(where, "word", at, "with", maps.Collect(all))
	return nil
}
