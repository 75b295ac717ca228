package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestSentinelsPutAReplicaInThePlaceOfAKilledMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.SentinelOptions{})
	if addrs := s.Sentinels[0].Addr + "," + s.Sentinels[1].Addr + "," + s.Sentinels[2].Addr; s.URL() != "redis+sentinel://"+addrs+"/0?master="+s.MasterName() {
		t.Errorf("the URL is %s", s.URL())
	}
	master := s.Master(t)
	if master != s.Nodes[0] {
		t.Fatalf("the master is %s, want the first node", master.Addr)
	}
	set(t, master, "kept")
	s.AwaitInSync(t)
	master.Cut(t)
	set(t, master, "lost")
	master.Kill(t)

	next := s.AwaitFailover(t, master)
	wantKeys(t, next, "kept")
	master.Start(t)
	s.AwaitQuorum(t)
	s.AwaitInSync(t)
	if s.Master(t) != next {
		t.Error("the killed master came back as the master")
	}
	wantKeys(t, master, "kept")
}

func TestAPausedMasterIsReplacedAsWell(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: 200 * time.Millisecond})
	master := s.Master(t)
	master.Pause(t)
	next := s.AwaitFailover(t, master)
	master.Resume(t)
	s.AwaitInSync(t)
	if s.Master(t) != next {
		t.Error("the paused master is the master again")
	}
}

func TestAClusterPutsAReplicaInThePlaceOfAKilledMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	if !strings.HasPrefix(c.URL(), "redis+cluster://"+c.Nodes[0].Addr+",") || strings.Count(c.URL(), ",") != 5 {
		t.Errorf("the URL is %s", c.URL())
	}
	slot := c.Slot(t, "kept")
	master := c.Master(t, slot)
	set(t, master, "kept")
	c.AwaitInSync(t)
	master.Cut(t)
	set(t, master, "{kept}lost")
	master.Kill(t)

	next := c.AwaitFailover(t, slot, master)
	wantKeys(t, next, "kept")
	master.Start(t)
	c.AwaitOK(t)
	c.AwaitInSync(t)
	if c.Master(t, slot) != next {
		t.Error("the killed master serves the slot again")
	}
}

func TestASlotMovesWithItsKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	slot := c.Slot(t, "a")
	from := c.Master(t, slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	set(t, from, "a")
	set(t, from, "{a}b")
	move := c.BeginMove(t, slot, to)
	if n := move.Keys(t, 1); n != 1 {
		t.Fatalf("moved %d keys, want 1", n)
	}
	answers := map[string]bool{}
	for _, key := range []string{"a", "{a}b"} {
		err := from.Client(t).Get(t.Context(), key).Err()
		word := ""
		if err != nil {
			word, _, _ = strings.Cut(err.Error(), " ")
		}
		answers[word] = true
	}
	if !answers[""] || !answers["ASK"] {
		t.Errorf("amid the move its master answers %v, want one key and one ASK", answers)
	}
	move.Finish(t)
	if c.Master(t, slot) != to {
		t.Error("the slot has not moved")
	}
	wantKeys(t, to, "a", "{a}b")
	if err := from.Client(t).Get(t.Context(), "a").Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("its former master answers %v, want MOVED", err)
	}
}

func TestAServerWithTLSAndAUserTakesNobodyElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{TLS: true, User: "app", Password: "secret"})
	if !strings.HasPrefix(s.URL, "rediss://app:secret@127.0.0.1:") || s.CAFile == "" {
		t.Errorf("URL %s, authority %q", s.URL, s.CAFile)
	}
	set(t, s, "k")
	s.Restart(t)
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	stranger := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: s.Client(t).Options().TLSConfig, MaxRetries: -1})
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a user: %v", err)
	}
	plain := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "app", Password: "secret", MaxRetries: -1})
	defer plain.Close()
	if err := plain.Ping(t.Context()).Err(); err == nil {
		t.Error("without TLS it answers")
	}
}

func set(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	if err := s.Client(t).Set(t.Context(), key, "v", 0).Err(); err != nil {
		t.Fatalf("SET %s at %s: %v", key, s.Addr, err)
	}
}

func wantKeys(t *testing.T, s *redistest.Server, want ...string) {
	t.Helper()
	got, err := s.Client(t).Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%s has the keys %q, want %q", s.Addr, got, want)
	}
	for _, key := range want {
		if s.Client(t).Exists(t.Context(), key).Val() != 1 {
			t.Errorf("%s has the keys %q, want %q", s.Addr, got, want)
		}
	}
}
