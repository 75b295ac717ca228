package redisstore

import (
	"context"
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
var lookFields = []string{"next", "epoch", "gone", "evlast", "srev", "due", "ts", "unpins"}

// look is what a glance at many jobs found, in the order of their names.
type look struct {
	now     int64
	glances []glance
}

// glance is a job as one plain command sees it.
type glance struct {
	// stamp is the same while the fields are.
	stamp string
	// known is whether the job ever was there, gone whether it was deleted since.
	known, gone bool
	// next is the job's next id, 0 where the hash has none.
	next int64
	// err is Redis' refusal to read this very job.
	err error
}

// exists tells whether the job does.
func (g *glance) exists(job string) bool {
	return job == coordinator.DefaultJob || g.known && !g.gone
}

// look reads what tells whether jobs have changed, at a fraction of the cost of their scripts,
// and raises the floors of ids.
func (s *Store) look(ctx context.Context, names []string) (look, error) {
	found := look{glances: make([]glance, 0, len(names))}
	if s.clock != nil {
		found.now = s.clock()
	}
	for some := range slices.Chunk(names, lookStep) {
		err := s.fetch(ctx, "look at jobs", func(ctx context.Context) error {
			return s.lookAt(ctx, some, &found)
		})
		if err != nil {
			return look{}, err
		}
	}
	return found, nil
}

func (s *Store) lookAt(ctx context.Context, names []string, found *look) error {
	var clock *redis.TimeCmd
	cmds := make([]*redis.SliceCmd, len(names))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if found.now == 0 {
			clock = pipe.Time(ctx)
		}
		for i, name := range names {
			cmds[i] = pipe.HMGet(ctx, s.keys(name).job(), lookFields...)
		}
		return nil
	})
	// What a single job is refused with is none of the others' business.
	if undecided(err) {
		return err
	}
	glances := make([]glance, len(names))
	for i, cmd := range cmds {
		if undecided(cmd.Err()) {
			return cmd.Err()
		}
		glances[i] = glanceOf(cmd)
		if next := glances[i].next; next > 0 {
			s.floors.see(names[i], next-1)
		}
	}
	if clock != nil {
		now, err := clock.Result()
		if err != nil {
			return err
		}
		found.now = now.UnixMilli()
	}
	found.glances = append(found.glances, glances...)
	return nil
}

// undecided tells whether a pipeline, or a command of it, is to be sent again.
func undecided(err error) bool {
	if err == nil {
		return false
	}
	what, _ := judge(err, true)
	return what != decided
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
	first, _ := values[0].(string)
	next, _ := strconv.ParseInt(first, 10, 64)
	return glance{
		stamp: stamp.String(), next: max(next, 0), known: values[0] != nil || values[1] != nil, gone: values[2] == "1",
	}
}
