package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// standIn is what an acknowledgement would be if it were nothing but a count: the five calls that
// the goals of Redis' time for one are measured against.
var standIn = redis.NewScript(`
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'pending' then
  return -1
end
redis.call('SADD', KEYS[2], ARGV[1])
local acked = redis.call('SCARD', KEYS[2])
local required = tonumber(redis.call('HGET', KEYS[1], 'required'))
redis.call('HSET', KEYS[1], 'acked', acked)
if acked >= required then
  redis.call('HSET', KEYS[1], 'status', 'completed')
end
return acked`)

// ackBench acknowledges in a Redis of its own, whose time it reads.
type ackBench struct {
	testing.TB
	store  *Store
	client *redis.Client
	keys   keyspace
	job    string
	// next numbers the tasks: none acknowledges twice.
	next atomic.Int64
}

func newAckBench(b testing.TB) *ackBench {
	b.Helper()
	server := redistest.Start(b, redistest.Options{Own: true})
	bench := &ackBench{TB: b, store: open(b, server), client: server.Client(b), job: "orders"}
	bench.keys = newKeyspace(server.Prefix, bench.job)
	ctx := b.Context()
	must(b, standIn.Load(ctx, bench.client).Err())
	must(b, acknowledgeScript.text.Load(ctx, bench.client).Err())
	must(b, bench.client.HSet(ctx, "cp:1", "status", "pending", "required", "1000000000", "acked", "0").Err())
	return bench
}

// checkpoint makes one that never completes by itself.
func (b *ackBench) checkpoint() int64 { return b.requires(100_000) }

func (b *ackBench) requires(required int) int64 {
	b.Helper()
	call := aTriggerCall()
	call.Job, call.RequiredTaskAcks, call.TimeoutMs = b.job, required, new(int64(3600_000))
	result, err := b.store.Trigger(context.WithoutCancel(b.Context()), call)
	must(b, err)
	return result.Checkpoint.ID
}

func (b *ackBench) task() string { return "task-" + strconv.FormatInt(b.next.Add(1), 10) }

func (b *ackBench) items(n int) []coordinator.AckItem {
	items := make([]coordinator.AckItem, n)
	for i := range items {
		items[i].TaskID = b.task()
	}
	return items
}

func (b *ackBench) ack(id int64, items ...coordinator.AckItem) coordinator.AckResult {
	result, err := b.store.Acknowledge(context.Background(), coordinator.AckCall{Job: b.job, ID: id, Items: items, Token: orNewToken("")})
	if err != nil || len(result.Outcomes) != len(items) || result.Outcomes[0].Outcome != coordinator.AckAccepted {
		b.Errorf("acknowledge: %+v, %v", result, err)
	}
	return result
}

// bare sends the script without anything of the store.
func (b *ackBench) bare(ctx context.Context, client redis.Scripter, id int64, items ...coordinator.AckItem) *redis.Cmd {
	args := append([]any{""}, acks(id, orNewToken(""), 5, items...)...)
	return client.EvalSha(ctx, acknowledgeScript.text.Hash(), []string{b.keys.job()}, args...)
}

// pipeline sends n commands, sixteen in a round trip.
func (b *ackBench) pipeline(n int, send func(ctx context.Context, pipe redis.Pipeliner)) {
	b.Helper()
	ctx := context.Background()
	for left := n; left > 0; left -= 16 {
		pipe := b.client.Pipeline()
		for range min(left, 16) {
			send(ctx, pipe)
		}
		_, err := pipe.Exec(ctx)
		must(b, err)
	}
}

func (b *ackBench) standIns(n int) {
	b.Helper()
	b.pipeline(n, func(ctx context.Context, pipe redis.Pipeliner) {
		standIn.EvalSha(ctx, pipe, []string{"cp:1", "cp:1:acks"}, "task-"+strconv.FormatInt(b.next.Add(1)%100_000, 10))
	})
}

// spent is how much processor time Redis takes for f.
func (b *ackBench) spent(f func()) time.Duration {
	b.Helper()
	before := b.processorTime()
	f()
	return b.processorTime() - before
}

func (b *ackBench) processorTime() time.Duration {
	b.Helper()
	text, err := b.client.Info(context.Background(), "cpu").Result()
	must(b, err)
	var sum float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			must(b, err)
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// rounds collects what interleaved rounds measured; a metric is their median.
type rounds map[string][]float64

func (r rounds) add(name string, value float64) { r[name] = append(r[name], value) }

func (r rounds) report(b *testing.B) {
	b.Helper()
	for name, values := range r {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }

// ackRounds is how often what is compared takes turns.
const ackRounds = 7

// BenchmarkAckScript measures the time of Redis for an acknowledgement by how many share a call,
// and what it is to the pipelined stand-in.
func BenchmarkAckScript(b *testing.B) {
	for _, size := range []int{1, 4, 16, 64, 256, 1000} {
		b.Run(fmt.Sprintf("items=%d", size), func(b *testing.B) {
			for b.Loop() {
				bench, r := newAckBench(b), rounds{}
				const acksPerRound = 8000
				bench.standIns(4000)
				for range ackRounds {
					id := bench.checkpoint()
					ours := bench.spent(func() {
						bench.pipeline(acksPerRound/size, func(ctx context.Context, pipe redis.Pipeliner) {
							bench.bare(ctx, pipe, id, bench.items(size)...)
						})
					})
					theirs := bench.spent(func() { bench.standIns(acksPerRound) })
					r.add("redis-µs/ack", micros(ours, acksPerRound/size*size))
					r.add("÷standin", micros(ours, acksPerRound/size*size)/micros(theirs, acksPerRound))
				}
				r.report(b)
			}
		})
	}
}

// BenchmarkAckOneCaller compares one caller of the store with one of the bare script.
func BenchmarkAckOneCaller(b *testing.B) {
	for b.Loop() {
		bench, r := newAckBench(b), rounds{}
		const acksPerTurn, turns = 50, 40
		for range ackRounds {
			id := bench.checkpoint()
			var ours, theirs time.Duration
			// Short turns, so that what disturbs one disturbs the other.
			for range turns {
				started := time.Now()
				for range acksPerTurn {
					bench.ack(id, coordinator.AckItem{TaskID: bench.task()})
				}
				ours += time.Since(started)
				started = time.Now()
				for range acksPerTurn {
					must(b, bench.bare(context.Background(), bench.client, id, coordinator.AckItem{TaskID: bench.task()}).Err())
				}
				theirs += time.Since(started)
			}
			r.add("store-µs", micros(ours, turns*acksPerTurn))
			r.add("evalsha-µs", micros(theirs, turns*acksPerTurn))
			r.add("÷evalsha", float64(ours)/float64(theirs))
		}
		r.report(b)
	}
}

// BenchmarkAckAllocations is one caller, for what the store itself allocates.
func BenchmarkAckAllocations(b *testing.B) {
	bench := newAckBench(b)
	id := bench.checkpoint()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%50_000 == 0 {
			id = bench.checkpoint()
		}
		bench.ack(id, coordinator.AckItem{TaskID: "task-" + strconv.Itoa(n)})
	}
}

// BenchmarkAckCallers has many callers acknowledge at once, beside the pipelined stand-in.
func BenchmarkAckCallers(b *testing.B) {
	for _, c := range []struct{ callers, checkpoints, items int }{{64, 1, 1}, {256, 1, 1}, {64, 16, 1}, {256, 16, 1}, {64, 1, 64}} {
		b.Run(fmt.Sprintf("callers=%d,checkpoints=%d,items=%d", c.callers, c.checkpoints, c.items), func(b *testing.B) {
			for b.Loop() {
				bench, r := newAckBench(b), rounds{}
				const acksPerRound = 20_000
				for range ackRounds {
					ids := make([]int64, c.checkpoints)
					for i := range ids {
						ids[i] = bench.checkpoint()
					}
					var took time.Duration
					calls := bench.scriptCalls()
					ours := bench.spent(func() {
						started := time.Now()
						bench.storm(c.callers, acksPerRound/c.items, c.items, ids)
						took = time.Since(started)
					})
					calls = bench.scriptCalls() - calls
					theirs := bench.spent(func() { bench.standIns(acksPerRound) })
					r.add("acks/s", acksPerRound/took.Seconds())
					r.add("acks/script", acksPerRound/float64(calls))
					r.add("redis-µs/ack", micros(ours, acksPerRound))
					r.add("÷standin", float64(ours)/float64(theirs))
				}
				r.report(b)
			}
		})
	}
}

// storm has callers acknowledge, in so many calls.
func (b *ackBench) storm(callers, calls, items int, ids []int64) {
	var left atomic.Int64
	left.Store(int64(calls))
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				b.ack(ids[i%len(ids)], b.items(items)...)
			}
		})
	}
	all.Wait()
}

// scriptCalls is how many scripts Redis has run by their hash.
func (b *ackBench) scriptCalls() int64 {
	b.Helper()
	text, err := b.client.Info(context.Background(), "commandstats").Result()
	must(b, err)
	_, after, _ := strings.Cut(text, "cmdstat_evalsha:calls=")
	number, _, _ := strings.Cut(after, ",")
	calls, _ := strconv.ParseInt(number, 10, 64)
	return calls
}

// BenchmarkAckTasks shows that it does not matter how many tasks have acknowledged before.
func BenchmarkAckTasks(b *testing.B) {
	for b.Loop() {
		bench, r := newAckBench(b), rounds{}
		sizes := []int{10, 1000, 99_000}
		ids := make([]int64, len(sizes))
		for i, size := range sizes {
			ids[i] = bench.checkpoint()
			for some := range slices.Chunk(bench.items(size), 500) {
				bench.ack(ids[i], some...)
			}
		}
		const acksPerTurn, turns = 10, 10
		for range ackRounds {
			took, cpu := make([]time.Duration, len(sizes)), make([]time.Duration, len(sizes))
			for range turns {
				for i, id := range ids {
					started := time.Now()
					cpu[i] += bench.spent(func() {
						started = time.Now()
						for range acksPerTurn {
							bench.ack(id, coordinator.AckItem{TaskID: bench.task()})
						}
						took[i] += time.Since(started)
					})
				}
			}
			for i, size := range sizes {
				r.add(fmt.Sprintf("µs@%d", size), micros(took[i], turns*acksPerTurn))
				r.add(fmt.Sprintf("redis-µs@%d", size), micros(cpu[i], turns*acksPerTurn))
			}
			r.add("÷@10", float64(took[2])/float64(took[0]))
		}
		r.report(b)
	}
}
