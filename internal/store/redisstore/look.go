package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// lookStep is how many jobs are looked at in one round trip.
const lookStep = 500

// lookFields are the fields of a job's hash of which at least one changes with everything that
// [Store.Jobs] answers and that gives the sweep something to do: what begins, ends or goes is an
// event (evlast), settings have a revision, a schedule moves its due. What only takes time, such
// as a lease, is not among it. ts tells a job from another one after Redis was emptied.
var lookFields = []string{"next", "epoch", "gone", "evlast", "srev", "due", "ts"}

// glance is a job as one plain command sees it.
type glance struct {
	// now is the clock of the server that has the job.
	now int64
	// stamp is the same while the fields are.
	stamp string
	// known is whether the job ever was there, gone whether it was deleted since.
	known, gone bool
	// cut is whether its hash lacks a counter: all of it, where nobody has used the job or the hash was lost.
	cut bool
	// next is the job's next id, 0 where the hash has none.
	next, epoch int64
	// seq is the number of the newest event.
	seq int64
	// err is Redis' refusal to read this very job.
	err error
}

// exists tells whether the job does.
func (g *glance) exists(job string) bool {
	return job == coordinator.DefaultJob || g.known && !g.gone
}

// look reads what tells whether jobs have changed, at a fraction of the cost of their scripts,
// and raises the floors of the jobs. The glances are in the order of the names.
func (s *Store) look(ctx context.Context, names []string) ([]glance, error) {
	found := make([]glance, 0, len(names))
	for some := range slices.Chunk(names, lookStep) {
		glances := make([]glance, len(some))
		err := s.fetch(ctx, "look at jobs", func(ctx context.Context) error {
			return s.client.spread(ctx, s.jobKeys(some), func(ctx context.Context, node *redis.Client, at []int) error {
				return s.lookAt(ctx, node, some, at, glances)
			})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, glances...)
	}
	return found, nil
}

// lookAt looks at those jobs of one server that stand at those places of names.
func (s *Store) lookAt(ctx context.Context, node *redis.Client, names []string, at []int, glances []glance) error {
	var clock *redis.TimeCmd
	cmds := make([]*redis.SliceCmd, len(at))
	_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if s.clock == nil {
			clock = pipe.Time(ctx)
		}
		for i, place := range at {
			cmds[i] = pipe.HMGet(ctx, s.keys(names[place]).job(), lookFields...)
		}
		return nil
	})
	if concernsAll(err) {
		return err
	}
	var now int64
	switch {
	case clock == nil:
		now = s.clock()
	case clock.Err() != nil:
		return clock.Err()
	default:
		now = clock.Val().UnixMilli()
	}
	for i, cmd := range cmds {
		if concernsAll(cmd.Err()) {
			return cmd.Err()
		}
		g := glanceOf(cmd)
		g.now = now
		if glances[at[i]] = g; g.known {
			s.floors.see(names[at[i]], floor{id: g.next - 1, epoch: g.epoch, seq: g.seq})
			s.floors.settle(names[at[i]], g.gone)
		}
	}
	return nil
}

// concernsAll tells whether an error of one command of a pipeline is about more than what that one asked for: Redis is away, or refuses
// commands. What a single job is refused with is none of the others' business.
func concernsAll(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	what, refusal := judge(err, true)
	return what != decided || coordinator.CodeOf(refusal) == coordinator.CodeStoreUnavailable
}

func glanceOf(cmd *redis.SliceCmd) glance {
	values, err := cmd.Result()
	if err != nil {
		_, refusal := judge(err, true)
		return glance{err: refusal}
	}
	var stamp strings.Builder
	for _, value := range values {
		if text, ok := value.(string); ok {
			stamp.WriteString(text)
		}
		stamp.WriteByte('|')
	}
	number := func(at int) int64 {
		text, _ := values[at].(string)
		n, _ := strconv.ParseInt(text, 10, 64)
		return max(n, 0)
	}
	event, _ := values[3].(string)
	newest, _ := parseEventID(event) // one that cannot be read is nobody's floor
	return glance{
		stamp: stamp.String(), next: number(0), epoch: number(1), seq: newest.Seq,
		known: values[0] != nil || values[1] != nil, cut: values[0] == nil || values[1] == nil, gone: values[2] == "1",
	}
}
