package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/engine"
)

// rounds is how often a hammer strikes: CHECKPOINTD_HAMMER_ROUNDS, or 50.
var rounds = sync.OnceValue(func() int {
	text := os.Getenv("CHECKPOINTD_HAMMER_ROUNDS")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		panic("CHECKPOINTD_HAMMER_ROUNDS must be a number from 10, not " + text)
	}
	return n
})

// bank is money on the accounts of two stores, the number of transfers as a source without
// keys, and for each account how many it had. A transfer takes from one store and gives to
// the other. In every cut the money adds up to nothing, and the transfers to their number.
type bank struct {
	c           *engine.Coordinator
	left, right *engine.KeyedStore[int, int]
	had         *engine.KeyedStore[string, int]
	transfers   int
	// seen are checkpoints with what was read of them at first.
	mu   sync.Mutex
	seen map[*engine.Checkpoint]books
}

// books are what a checkpoint has of a bank.
type books struct {
	Left, Right map[int]int
	Had         map[string]int
	Transfers   int
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{c: engine.NewCoordinator(&engine.Options{Retain: 4}), seen: map[*engine.Checkpoint]books{}}
	b.left, b.right = store[int, int](t, b.c, "left"), store[int, int](t, b.c, "right")
	b.had = store[string, int](t, b.c, "had")
	registerValue(t, b.c, "transfers", &b.transfers)
	return b
}

type transfer struct{ from, to, amount int }

func randomTransfer(random *rand.Rand) transfer {
	return transfer{random.IntN(20), random.IntN(20), random.IntN(1000)}
}

// do writes four states, and lets others run wherever a cut would tear them apart.
func (b *bank) do(ctx context.Context, random *rand.Rand, r transfer) error {
	yield := func() {
		if random.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	if err := b.left.Update(engine.WithKey(ctx, r.from), func(n int) int { return n - r.amount }); err != nil {
		return err
	}
	yield()
	if err := b.right.Update(engine.WithKey(ctx, r.to), func(n int) int { return n + r.amount }); err != nil {
		return err
	}
	yield()
	b.transfers++
	yield()
	return b.had.Update(engine.WithKey(ctx, fmt.Sprint(r.from)), func(n int) int { return n + 1 })
}

func sum[K comparable](of map[K]int) int {
	total := 0
	for n := range maps.Values(of) {
		total += n
	}
	return total
}

// audit reads a checkpoint and looks whether it is one cut.
func (b *bank) audit(t *testing.T, cp *engine.Checkpoint) books {
	t.Helper()
	has := books{
		Left: read[map[int]int](t, cp, "left"), Right: read[map[int]int](t, cp, "right"),
		Had: read[map[string]int](t, cp, "had"), Transfers: read[int](t, cp, "transfers"),
	}
	if money, transfers := sum(has.Left)+sum(has.Right), sum(has.Had); money != 0 || transfers != has.Transfers {
		t.Errorf("checkpoint %d is torn: %d of money from nowhere, %d transfers of %d", cp.ID(), money, transfers, has.Transfers)
	}
	return has
}

// trigger takes a checkpoint and keeps some for a second look.
func (b *bank) trigger(ctx context.Context, t *testing.T) error {
	t.Helper()
	before := b.c.Latest()
	cp, err := b.c.Trigger(ctx)
	if err != nil {
		return err
	}
	if before != nil && cp.ID() <= before.ID() {
		t.Errorf("checkpoint %d was taken after %d", cp.ID(), before.ID())
	}
	has := b.audit(t, cp)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) < 20 {
		b.seen[cp] = has
	}
	return nil
}

// Whatever happens at the same time, every checkpoint is one cut and stays what it was.
func TestHammer_EveryCheckpointIsOneCutWhateverHappensAtTheSameTime(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	for round := range rounds() {
		hammer(t, rand.New(rand.NewPCG(seed, uint64(round))))
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

func hammer(t *testing.T, random *rand.Rand) {
	t.Helper()
	b := newBank(t)
	must(t, b.trigger(t.Context(), t))
	var all sync.WaitGroup
	also := func(do func(ctx context.Context, random *rand.Rand) error) {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		all.Go(func() {
			if err := do(t.Context(), own); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		also(func(ctx context.Context, random *rand.Rand) error { return b.streams(ctx, t, random) })
	}
	also(func(ctx context.Context, random *rand.Rand) error { return b.writes(ctx, random) })
	for range 2 {
		also(func(ctx context.Context, random *rand.Rand) error { return b.triggers(ctx, t, random) })
	}
	also(func(ctx context.Context, random *rand.Rand) error { return b.restores(ctx, random) })
	also(func(ctx context.Context, random *rand.Rand) error { return b.registers(ctx, random) })
	all.Wait()

	must(t, b.trigger(t.Context(), t))
	for cp, had := range b.seen {
		equal(t, "what was in a checkpoint, and is in it", b.audit(t, cp), had)
	}
	b.moves(t)
}

// streams is a source that is far ahead of its consumer, so that it is blocked most of the
// time, often with its emission lock held. Some records trigger or restore.
func (b *bank) streams(ctx context.Context, t *testing.T, random *rand.Rand) error {
	t.Helper()
	seed, records := random.Uint64(), engine.HandOff+random.IntN(400)
	source := engine.FromSource(b.c, func(ctx context.Context, out *engine.Emitter[transfer]) error {
		random := rand.New(rand.NewPCG(seed, 1)) // the consumer has one of its own
		for left := records; left > 0; {
			burst := min(left, 1+random.IntN(100))
			left -= burst
			err := out.Lock().Do(ctx, func(ctx context.Context) error {
				for range burst {
					if err := out.Emit(ctx, randomTransfer(random)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return engine.KeyBy(source, func(r transfer) int { return r.from }).Each(ctx, func(ctx context.Context, r transfer) error {
		if random.IntN(100) == 0 {
			if err := b.trigger(ctx, t); err != nil {
				return err
			}
		}
		if err := b.do(ctx, random, r); err != nil {
			return err
		}
		if random.IntN(200) == 0 {
			return b.c.Restore(ctx, b.c.Latest().ID())
		}
		return nil
	})
}

// writes transfers without a stream, for as long as nobody cancels.
func (b *bank) writes(ctx context.Context, random *rand.Rand) error {
	for range 300 {
		ctx, cancel := context.WithCancel(ctx)
		if random.IntN(10) == 0 {
			cancel()
		}
		err := b.c.Fence().Do(ctx, func(ctx context.Context) error {
			if random.IntN(10) == 0 {
				cancel() // too late: it is inside
			}
			return b.do(ctx, random, randomTransfer(random))
		})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

func (b *bank) triggers(ctx context.Context, t *testing.T, random *rand.Rand) error {
	t.Helper()
	for range 100 {
		ctx, cancel := context.WithCancel(ctx)
		if random.IntN(10) == 0 {
			go cancel()
		}
		err := b.trigger(ctx, t)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

func (b *bank) restores(ctx context.Context, random *rand.Rand) error {
	for range 50 {
		err := b.c.Restore(ctx, b.c.Latest().ID()-random.Int64N(3))
		if err != nil && !errors.Is(err, engine.ErrNoCheckpoint) {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

// registers has stores come and go.
func (b *bank) registers(ctx context.Context, random *rand.Rand) error {
	for n := range 50 {
		name := fmt.Sprint("guest-", n)
		guest, err := engine.NewKeyedStore[int, int](ctx, b.c, name, nil)
		if err != nil {
			return err
		}
		if err := guest.Set(engine.WithKey(ctx, n), n); err != nil {
			return err
		}
		if random.IntN(2) == 0 {
			if err := b.c.Unregister(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// moves brings the latest checkpoint to another coordinator, by its entries.
func (b *bank) moves(t *testing.T) {
	t.Helper()
	from := b.c.Latest()
	parts := map[string][]engine.Entry{}
	for _, name := range from.Sources() {
		for entry, err := range from.Entries(name) {
			must(t, err)
			if !json.Valid(entry.Value) {
				t.Errorf("%q is no JSON", entry.Value)
			}
			parts[name] = append(parts[name], entry)
		}
	}
	other := newBank(t)
	must(t, other.c.Adopt(t.Context(), engine.NewCheckpoint(from.ID(), from.Time(), parts)))
	must(t, other.trigger(t.Context(), t))
	equal(t, "what has moved", other.audit(t, other.c.Latest()), b.audit(t, from))
}

// Of the records that a window operator was given, each is in one window, or in one result.
func TestHammer_NoRecordIsBetweenAWindowAndItsResult(t *testing.T) {
	t.Parallel()
	for range rounds() {
		c := engine.NewCoordinator(&engine.Options{Retain: 1})
		given, fired := store[int, int](t, c, "given"), store[int, int](t, c, "fired")
		const records = 600
		source := engine.FromSource(c, func(ctx context.Context, out *engine.Emitter[int]) error {
			for n := range records {
				if err := out.Emit(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
		stream := engine.KeyBy(engine.AssignTimestamps(source, self, engine.BoundedLateness[int](ms(7))), func(n int) int { return n % 5 })
		counted := engine.KeyBy(engine.Map(stream.Stream, func(ctx context.Context, n int) (int, error) {
			return n, given.Update(ctx, func(n int) int { return n + 1 })
		}), func(n int) int { return n % 5 })
		consumed := begin(t, func(ctx context.Context) error {
			return engine.Count(engine.WindowBy(counted, engine.Tumbling(ms(20)))).Each(ctx,
				func(ctx context.Context, r engine.WindowResult[int, int]) error {
					runtime.Gosched()
					return fired.Update(ctx, func(n int) int { return n + r.Value })
				})
		})
		check := func() (total int) {
			cp := trigger(t, c)
			open := 0
			for _, bucket := range cpBuckets(t, cp) {
				open += bucket.Contents.(int)
			}
			total = sum(read[map[int]int](t, cp, "given"))
			if results := sum(read[map[int]int](t, cp, "fired")); total != open+results {
				t.Fatalf("of %d records %d are in windows and %d in results", total, open, results)
			}
			return total
		}
		for range 20 {
			check()
		}
		happens(t, "the end", consumed)
		equal(t, "records", check(), records)
	}
}

func cpBuckets(t *testing.T, cp *engine.Checkpoint) []engine.Bucket {
	t.Helper()
	buckets, err := engine.Read[[]engine.Bucket](cp, "window-1")
	if err != nil && !errors.Is(err, engine.ErrNoSource) { // it has not begun
		t.Fatal(err)
	}
	return buckets
}
