package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// contents is all that is stored under a prefix, by key without the prefix. Two runs with
// the same clock and the same tokens have the same contents; the token of the tasks in a
// job's settings, which the store makes by itself, reads "settings".
type contents map[string]any

// contentsOf reads everything.
func contentsOf(t testing.TB, client *redis.Client, prefix string) contents {
	t.Helper()
	ctx := t.Context()
	var keys []string
	scan := client.Scan(ctx, 0, prefix+"*", 10_000).Iterator()
	for scan.Next(ctx) {
		if strings.Contains(scan.Val(), "idem:answer:") {
			continue // it is gone after ten seconds, which a busy machine may well need
		}
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		t.Fatalf("SCAN: %v", err)
	}
	kinds := make([]*redis.StatusCmd, len(keys))
	pipelined(t, client, func(p redis.Pipeliner) {
		for i, key := range keys {
			kinds[i] = p.Type(ctx, key)
		}
	})
	values := make([]func() any, len(keys))
	pipelined(t, client, func(p redis.Pipeliner) {
		for i, key := range keys {
			values[i] = valueOf(ctx, p, key, kinds[i].Val())
		}
	})
	found := contents{}
	for i, key := range keys {
		found[strings.TrimPrefix(key, prefix)] = values[i]()
	}
	found.forgetRuns()
	for key, value := range found {
		if fields, isHash := value.(map[string]string); isHash && fields["s_names"] != "" {
			base, token := strings.TrimSuffix(key, "job"), fields["s_names"]
			fields["s_names"] = "settings"
			found[base+"tasks:settings"] = found[base+"tasks:"+token]
			delete(found, base+"tasks:"+token)
		}
	}
	return found
}

// forgetRuns takes out what tells one run of a server from another: after a restart a job's
// log passes over a thousand events.
func (c contents) forgetRuns() {
	for key, value := range c {
		switch v := value.(type) {
		case map[string]string:
			delete(v, "evrun")
			if _, has := v["evlast"]; has {
				v["evlast"] = "the end of the log"
			}
		case []redis.XMessage:
			for i := range v {
				epoch, _, _ := strings.Cut(v[i].ID, "-")
				v[i].ID = epoch + "-n"
			}
			c[key] = v
		}
	}
}

// pipelined sends what fill queues in one round trip, which matters where everything is read
// thousands of times.
func pipelined(t testing.TB, client *redis.Client, fill func(p redis.Pipeliner)) {
	t.Helper()
	if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { fill(p); return nil }); err != nil {
		t.Fatalf("read what is stored: %v", err)
	}
}

// valueOf queues the reading of a value of any type that a store writes; the value can be had
// when the pipeline is through.
func valueOf(ctx context.Context, p redis.Pipeliner, key, kind string) func() any {
	switch kind {
	case "hash":
		read := p.HGetAll(ctx, key)
		return func() any { return read.Val() }
	case "zset":
		read := p.ZRangeWithScores(ctx, key, 0, -1)
		return func() any { return read.Val() }
	case "stream":
		read := p.XRange(ctx, key, "-", "+")
		return func() any { return read.Val() }
	case "list":
		read := p.LRange(ctx, key, 0, -1)
		return func() any { return read.Val() }
	case "set":
		read := p.SMembers(ctx, key)
		return func() any { return slices.Sorted(slices.Values(read.Val())) }
	default:
		read := p.Get(ctx, key)
		return func() any { return read.Val() }
	}
}
