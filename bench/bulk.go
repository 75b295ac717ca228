package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
	"github.com/checkpointd/checkpointd/bench/standin"
)

// transfer moves the same bytes as the others that it is compared with.
type transfer struct {
	name    string
	bytes   int
	repeats int // in each round, so that a short one is measured well
	run     func(ctx context.Context) (time.Duration, error)
}

// interleaveTransfers is interleave for transfers. The rates of its results are MB/s, and CPU
// times those of a MB (1e6 bytes).
func (b *bench) interleaveTransfers(ctx context.Context, s *system, transfers []transfer) (map[string]rounds, error) {
	results := map[string]rounds{}
	for round := range b.rounds {
		for _, t := range alternate(transfers, round) {
			l, err := b.measure(ctx, s, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			b.sayf("round %d  %-40s %7.0f MB/s", round+1, t.name, l.PerSecond())
			results[t.name] = append(results[t.name], l)
		}
	}
	for _, t := range transfers {
		b.report.Transfers = append(b.report.Transfers, b.costs(t.name, 1, results[t.name]))
	}
	return results, nil
}

// measure makes a transfer a few times.
func (b *bench) measure(ctx context.Context, s *system, t transfer) (loaded, error) {
	profiled := func() error { return nil }
	if strings.HasPrefix(t.name, serverName) {
		profiled = b.profile(ctx, s, t.name)
	}
	before, began := read(s), time.Now()
	var took time.Duration
	for range t.repeats {
		once, err := t.run(ctx)
		if err != nil {
			return loaded{}, err
		}
		took += once
	}
	wall := time.Since(began)
	after := read(s)
	if err := profiled(); err != nil {
		return loaded{}, err
	}
	l, err := b.between(before, after, load.Result{Requests: int64(t.repeats*t.bytes) / 1e6, Elapsed: wall})
	// What was done between two transfers, to prepare one, does not count.
	l.Elapsed, l.repeats = took, t.repeats
	return l, err
}

// timesPerSecond is how often a second the whole transfer could be made.
func (r rounds) timesPerSecond() report.Samples {
	return r.each(func(l loaded) float64 { return float64(l.repeats) / l.Elapsed.Seconds() })
}

// bulk compares restores and uploads with what the bytes cost alone, and with plainer ways.
func (b *bench) bulk(ctx context.Context) error {
	steps := []step{withRedis, onRedis(), withStandIns}
	webdis := installed(webdisName)
	if webdis {
		steps = append(steps, withWebdis)
	} else {
		b.miss("B2: webdis is not installed")
	}
	s, err := b.start(ctx, steps...)
	if err != nil {
		return err
	}
	defer s.stop()
	id, size, err := b.snapshot(ctx, s, b.bulkEntries)
	if err != nil {
		return err
	}
	transfers := []transfer{
		b.restoring(s, id, size), b.rawGet(s, size), b.scanning(s, size),
	}
	if webdis {
		transfers = append(transfers, transfer{"webdis GET of one string", size, 1, func(ctx context.Context) (time.Duration, error) {
			return get(ctx, s.addresses[webdisName], "/GET/"+blobKey+".txt", size)
		}})
	}
	lines := entries(b.bulkEntries / 2)
	transfers = append(transfers, b.uploading(s, lines), b.plainUploading(s, lines))
	results, err := b.interleaveTransfers(ctx, s, transfers)
	if err != nil {
		return err
	}
	million := report.Grouped(int64(b.bulkEntries))
	restore := results[restoreName]
	b.report.Add(report.Row{
		Goal: "B1", Metric: "restore of " + million + " entries of 100 B ÷ raw socket GET of the bytes", AtLeast: 1,
		Samples: report.Ratios(restore.timesPerSecond(), results[rawName].timesPerSecond()),
	})
	b.report.Add(report.Row{
		Goal: "B2", Metric: "the same ÷ restore by HSCAN COUNT 1000", AtLeast: 14,
		Samples: report.Ratios(restore.timesPerSecond(), results[scanName].timesPerSecond()),
	})
	if webdis {
		b.report.Add(report.Row{
			Goal: "B2", Metric: "the same ÷ webdis GET of the bytes", AtLeast: 5,
			Samples: report.Ratios(restore.timesPerSecond(), results["webdis GET of one string"].timesPerSecond()),
		})
	}
	b.report.Add(report.Row{
		Goal: "C1", Metric: "NDJSON upload with full strictness ÷ without validation", AtLeast: 0.5,
		Samples: report.Ratios(results[uploadName].timesPerSecond(), results[plainName].timesPerSecond()),
	})
	return nil
}

// Names of transfers.
const (
	restoreName = "server, restore"
	rawName     = "Redis alone, raw socket GET"
	scanName    = "stand-in, restore by HSCAN"
	uploadName  = "server, upload"
	plainName   = "stand-in, upload without validation"
)

// Keys of what the peers read.
const (
	blobKey = "blob"
	hashKey = "hash"
)

// snapshot uploads a part of so many entries and completes its checkpoint. The peers get the
// same: as one string what a restore answers, and as a hash the entries.
func (b *bench) snapshot(ctx context.Context, s *system, n int) (id int64, size int, err error) {
	if id, err = b.trigger(ctx, s, 1); err != nil {
		return 0, 0, err
	}
	path := fmt.Sprintf("/checkpoints/%d", id)
	lines := entries(n)
	if _, _, err = put(ctx, s.addresses[serverName], path+"/tasks/task-1/state?ack=true", lines); err != nil {
		return 0, 0, err
	}
	restored, err := b.call(ctx, http.MethodGet, s.url(serverName, path+"/restore"), nil)
	if err != nil {
		return 0, 0, err
	}
	if got := bytes.Count(restored, []byte("\n")); got != n {
		return 0, 0, fmt.Errorf("the restore has %d entries of %d", got, n)
	}
	if err := s.redis.Set(ctx, blobKey, restored, 0).Err(); err != nil {
		return 0, 0, fmt.Errorf("storing the bytes for the peers: %w", err)
	}
	var pairs []any
	for line := range bytes.Lines(lines) {
		var entry struct {
			Key   string          `json:"key"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return 0, 0, fmt.Errorf("reading a line of our own: %w", err)
		}
		pairs = append(pairs, entry.Key, []byte(entry.Value))
		if len(pairs) == 2000 {
			if err := s.redis.HSet(ctx, hashKey, pairs...).Err(); err != nil {
				return 0, 0, fmt.Errorf("storing the entries for the peers: %w", err)
			}
			pairs = pairs[:0]
		}
	}
	return id, len(restored), nil
}

func (b *bench) restoring(s *system, id int64, size int) transfer {
	return transfer{restoreName, size, 3, func(ctx context.Context) (time.Duration, error) {
		return get(ctx, s.addresses[serverName], fmt.Sprintf("/checkpoints/%d/restore", id), size)
	}}
}

func (b *bench) rawGet(s *system, size int) transfer {
	return transfer{rawName, size, 3, func(ctx context.Context) (time.Duration, error) {
		return getString(ctx, s.addresses[redisName], blobKey, size)
	}}
}

func (b *bench) scanning(s *system, size int) transfer {
	return transfer{scanName, size, 1, func(ctx context.Context) (time.Duration, error) {
		// Its lines do not name the task, so they are a little shorter.
		return get(ctx, s.addresses[standInsName], "/scan?key="+hashKey, size/2)
	}}
}

// uploading hands in a part for a checkpoint of its own, which is aborted afterwards.
func (b *bench) uploading(s *system, lines []byte) transfer {
	return transfer{uploadName, len(lines), 3, func(ctx context.Context) (time.Duration, error) {
		id, err := b.trigger(ctx, s, 1)
		if err != nil {
			return 0, err
		}
		path := fmt.Sprintf("/checkpoints/%d", id)
		_, took, err := put(ctx, s.addresses[serverName], path+"/tasks/task-1/state", lines)
		if err != nil {
			return 0, err
		}
		_, err = b.call(ctx, http.MethodPost, s.url(serverName, path+"/abort"), strings.NewReader("{}"))
		return took, err
	}}
}

func (b *bench) plainUploading(s *system, lines []byte) transfer {
	return transfer{plainName, len(lines), 3, func(ctx context.Context) (time.Duration, error) {
		answer, took, err := put(ctx, s.addresses[standInsName], "/upload", lines)
		if err != nil {
			return 0, err
		}
		_, text, _ := strings.Cut(string(answer), "\r\n\r\n")
		pages, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("the stand-in answered %q", answer)
		}
		keys := make([]string, pages)
		for n := range keys {
			keys[n] = standin.Page(n)
		}
		if err := s.redis.Unlink(ctx, keys...).Err(); err != nil {
			return 0, fmt.Errorf("removing the pages: %w", err)
		}
		return took, nil
	}}
}
