package redisstore

import (
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
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		t.Fatalf("SCAN: %v", err)
	}
	found := contents{}
	for _, key := range keys {
		if strings.Contains(key, "idem:answer:") {
			continue // it is gone after ten seconds, which a busy machine may well need
		}
		value, err := valueOf(t, client, key)
		if err != nil {
			t.Fatalf("read %s: %v", key, err)
		}
		found[strings.TrimPrefix(key, prefix)] = value
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

// valueOf reads a value of any type that a store writes.
func valueOf(t testing.TB, client *redis.Client, key string) (any, error) {
	t.Helper()
	ctx := t.Context()
	kind, err := client.Type(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "hash":
		return client.HGetAll(ctx, key).Result()
	case "zset":
		return client.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "stream":
		return client.XRange(ctx, key, "-", "+").Result()
	case "list":
		return client.LRange(ctx, key, 0, -1).Result()
	case "set":
		members, err := client.SMembers(ctx, key).Result()
		slices.Sort(members)
		return members, err
	default:
		return client.Get(ctx, key).Result()
	}
}
