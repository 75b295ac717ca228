package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
)

// A server that is to adopt waits for its Redis before it serves: a trigger that came earlier would
// be given an id below those of the library, and its completion would never be the latest.
const (
	adoptPatience = 30 * time.Second
	adoptPause    = 500 * time.Millisecond
)

// errNoRedis is for those who would adopt into the embedded store.
var errNoRedis = errors.New("the records of redis-streaming are adopted where they lie: name their Redis with --redis")

// adopt adopts at start, and tells the log of each record.
func (s *Server) adopt(ctx context.Context) error {
	began, tally := time.Now(), adoptionTally{}
	for {
		tally = adoptionTally{}
		err := adoptInto(ctx, s.store, s.config, false, func(a redisstore.Adoption) {
			tally.add(a)
			s.log.WithLevel(levelOf(a.Outcome)).Int64("checkpointId", a.ID).Str("outcome", string(a.Outcome)).Str("status", string(a.Status)).
				Str("code", a.Code).Str("detail", a.Detail).Msg("a record of redis-streaming")
		})
		if err == nil {
			break
		}
		if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable || time.Since(began) > adoptPatience {
			return err
		}
		s.log.Warn().Err(err).Msg("waiting for Redis, to adopt before serving")
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(adoptPause):
		}
	}
	s.log.Info().Stringer("records", tally).Dur("took", time.Since(began)).Msg("adopted the records of redis-streaming")
	return nil
}

func levelOf(outcome redisstore.Outcome) zerolog.Level {
	switch outcome {
	case redisstore.AdoptedBefore:
		return zerolog.DebugLevel
	case redisstore.NotAdopted:
		return zerolog.WarnLevel
	case redisstore.Adopted, redisstore.LeftPending:
	}
	return zerolog.InfoLevel
}

// Adopt adopts the records of the library redis-streaming in the Redis of the configuration, and
// writes what became of each to out, one JSON object a line. With takeOver its own records go.
func Adopt(ctx context.Context, config Config, takeOver bool, out io.Writer) (summary string, err error) {
	if config.Redis == "" {
		return "", errNoRedis
	}
	store, err := openStore(config, coordinator.Silence{})
	if err != nil {
		return "", err
	}
	var tally adoptionTally
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var failed error
	err = adoptInto(ctx, store, config, takeOver, func(a redisstore.Adoption) {
		tally.add(a)
		failed = errors.Join(failed, lines.Encode(newAdoptionLine(a)))
	})
	return tally.String(), errors.Join(err, failed, store.Close())
}

func adoptInto(ctx context.Context, store coordinator.Store, config Config, takeOver bool, report func(redisstore.Adoption)) error {
	redis, is := store.(*redisstore.Store)
	if !is {
		return errNoRedis
	}
	err := redis.Adopt(ctx, redisstore.AdoptCall{TimeoutMs: config.CheckpointTimeout.Milliseconds(), TakeOver: takeOver, Report: report})
	if err != nil {
		return fmt.Errorf("adopting the records of redis-streaming: %w", err)
	}
	return nil
}

// adoptionLine is what scripts read.
type adoptionLine struct {
	ID      int64              `json:"checkpointId"`
	Outcome redisstore.Outcome `json:"outcome"`
	Code    string             `json:"code,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	*adoptedLine
	TakenOver bool `json:"takenOver,omitempty"`
}

// adoptedLine is there for one that was just adopted.
type adoptedLine struct {
	Status  coordinator.Status `json:"status"`
	Version int                `json:"version"`
	Entries int64              `json:"entries"`
	Bytes   int64              `json:"bytes"`
}

func newAdoptionLine(a redisstore.Adoption) adoptionLine {
	line := adoptionLine{ID: a.ID, Outcome: a.Outcome, Code: a.Code, Detail: a.Detail, TakenOver: a.TakenOver}
	if a.Outcome == redisstore.Adopted {
		line.adoptedLine = &adoptedLine{Status: a.Status, Version: a.Version, Entries: a.Entries, Bytes: a.Bytes}
	}
	return line
}

// adoptionTally counts outcomes.
type adoptionTally struct{ adopted, before, pending, refused int }

func (t *adoptionTally) add(a redisstore.Adoption) {
	switch a.Outcome {
	case redisstore.Adopted:
		t.adopted++
	case redisstore.AdoptedBefore:
		t.before++
	case redisstore.LeftPending:
		t.pending++
	case redisstore.NotAdopted:
		t.refused++
	}
}

// String is for people.
func (t adoptionTally) String() string {
	return fmt.Sprintf("%d adopted, %d adopted before, %d left since they may still complete, %d not adopted", t.adopted, t.before, t.pending, t.refused)
}
