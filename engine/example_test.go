package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/engine"
)

func Example() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
	if err != nil {
		panic(err)
	}
	words := engine.FromSlice(c, strings.Fields("to be or not to be"))
	byWord := engine.KeyBy(words, func(word string) string { return word })
	count := func(ctx context.Context, _ string) error {
		return counts.Update(ctx, func(n int) int { return n + 1 })
	}

	if err := byWord.Each(ctx, count); err != nil {
		panic(err)
	}
	cp, err := c.Trigger(ctx) // at any time, from any goroutine
	if err != nil {
		panic(err)
	}
	fmt.Println(engine.Read[map[string]int](cp, "counts"))
	// Output: map[be:2 not:1 or:1 to:2] <nil>
}

// What was written after a checkpoint is gone when it is restored.
func ExampleCoordinator_Restore() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
	if err != nil {
		panic(err)
	}
	apples := engine.WithKey(ctx, "apple")
	if err := counts.Set(apples, 1); err != nil {
		panic(err)
	}
	cp, err := c.Trigger(ctx)
	if err != nil {
		panic(err)
	}
	if err := counts.Set(apples, 2); err != nil {
		panic(err)
	}

	fmt.Println(c.Restore(ctx, cp.ID()))
	fmt.Println(counts.Value(apples))
	// Output:
	// <nil>
	// 1 <nil>
}

// Values that are changed in place need a Clone function.
func ExampleStoreOptions() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	lists, err := engine.NewKeyedStore[string, []int](ctx, c, "lists",
		&engine.StoreOptions[[]int]{Clone: slices.Clone[[]int]})
	if err != nil {
		panic(err)
	}
	key := engine.WithKey(ctx, "k")
	list := []int{1, 2, 3}
	if err := lists.Set(key, list); err != nil {
		panic(err)
	}
	list[0] = 99
	fmt.Println(lists.Value(key))
	// Output: [1 2 3] <nil>
}

// Several writes within one hold are in a checkpoint together or not at all.
func ExampleFence_Do() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	balance, err := engine.NewKeyedStore[string, int](ctx, c, "balance", nil)
	if err != nil {
		panic(err)
	}
	transfer := func(ctx context.Context, from, to string, amount int) error {
		return c.Fence().Do(ctx, func(ctx context.Context) error {
			err := balance.Update(engine.WithKey(ctx, from), func(b int) int { return b - amount })
			if err != nil {
				return err
			}
			return balance.Update(engine.WithKey(ctx, to), func(b int) int { return b + amount })
		})
	}

	if err := transfer(ctx, "ann", "bob", 10); err != nil {
		panic(err)
	}
	cp, err := c.Trigger(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(engine.Read[map[string]int](cp, "balance"))
	// Output: map[ann:-10 bob:10] <nil>
}

// A reader's offset belongs into the same cut as what was made of its records.
func ExampleRegister() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	offset := 0
	err := engine.Register(ctx, c, "offset",
		func(context.Context) (int, error) { return offset, nil },
		func(_ context.Context, stored int) error { offset = stored; return nil })
	if err != nil {
		panic(err)
	}

	offset = 42
	cp, err := c.Trigger(ctx)
	if err != nil {
		panic(err)
	}
	offset = 99
	fmt.Println(c.Restore(ctx, cp.ID()), offset)
	// Output: <nil> 42
}

// Checkpoints are stored elsewhere, and brought back, as entries of JSON.
func ExampleNewCheckpoint() {
	ctx := context.Background()
	c := engine.NewCoordinator(nil)
	counts, err := engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
	if err != nil {
		panic(err)
	}
	for i, word := range []string{"a", "b"} {
		if err := counts.Set(engine.WithKey(ctx, word), i+1); err != nil {
			panic(err)
		}
	}
	cp, err := c.Trigger(ctx)
	if err != nil {
		panic(err)
	}
	kept := map[string][]engine.Entry{}
	for _, source := range cp.Sources() {
		for entry, err := range cp.Entries(source) {
			if err != nil {
				panic(err)
			}
			fmt.Printf("%s/%s = %s\n", source, entry.Key, entry.Value)
			kept[source] = append(kept[source], entry)
		}
	}

	// In another process:
	c = engine.NewCoordinator(nil)
	if err := c.Adopt(ctx, engine.NewCheckpoint(cp.ID(), cp.Time(), kept)); err != nil {
		panic(err)
	}
	counts, err = engine.NewKeyedStore[string, int](ctx, c, "counts", nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(counts.Value(engine.WithKey(ctx, "b")))
	// Output:
	// counts/a = 1
	// counts/b = 2
	// 2 <nil>
}
