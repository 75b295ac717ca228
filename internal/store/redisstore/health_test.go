package redisstore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func codes(t testing.TB, s *Store) []string {
	t.Helper()
	warnings, err := s.Health(t.Context())
	if err != nil {
		t.Fatalf("health: %v", err)
	}
	return warningCodes(warnings)
}

func warningCodes(warnings []coordinator.Warning) []string {
	found := []string{}
	for _, warning := range warnings {
		found = append(found, warning.Code)
	}
	return found
}

func TestHealth(t *testing.T) {
	t.Parallel()

	t.Run("has no warnings about a Redis that keeps everything", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Config: []string{"--appendonly", "yes", "--maxmemory-policy", "noeviction"}})
		if diff := cmp.Diff([]string{}, codes(t, open(t, server))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("takes points of RDB snapshots for persistence", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Config: []string{"--save", "900 1"}})
		if diff := cmp.Diff([]string{}, codes(t, open(t, server))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("warns of eviction and of missing persistence", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Config: []string{"--maxmemory-policy", "allkeys-lru"}})
		if diff := cmp.Diff([]string{WarnEviction, WarnPersistence}, codes(t, open(t, server))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("reads the configuration again once Redis was away", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Own: true})
		s := open(t, server)
		if diff := cmp.Diff([]string{WarnPersistence}, codes(t, s)); diff != "" {
			t.Fatal(diff)
		}
		client := server.Client(t)
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{WarnPersistence}, codes(t, s)); diff != "" {
			t.Errorf("it was read although nothing happened:\n%s", diff)
		}
		server.Kill(t)
		_, err := s.Health(t.Context())
		wantCode(t, "health without Redis", err, coordinator.CodeStoreUnavailable)
		server.Start(t)
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{WarnEviction, WarnPersistence}, codes(t, s)); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("is an error where Redis is a read-only replica, and none again once it is promoted", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Own: true, Config: []string{"--appendonly", "yes"}})
		s := open(t, server)
		if diff := cmp.Diff([]string{}, codes(t, s)); diff != "" {
			t.Fatal(diff)
		}
		must(t, server.Client(t).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
		_, err := s.Health(t.Context())
		wantCode(t, "health of a replica", err, coordinator.CodeStoreUnavailable)
		if cause, known := coordinator.CauseOf(err); !known || !strings.Contains(cause.Says, "replica") {
			t.Errorf("the cause is %v", err)
		}
		server.Promote(t)
		if diff := cmp.Diff([]string{}, codes(t, s)); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("warns while Redis has no memory left", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Own: true, Config: []string{"--appendonly", "yes"}})
		s, client := open(t, server), server.Client(t)
		for _, step := range []struct {
			limit string
			want  []string
		}{{"0", []string{}}, {"100kb", []string{WarnFull}}, {"1gb", []string{}}} {
			must(t, client.ConfigSet(t.Context(), "maxmemory", step.limit).Err())
			if diff := cmp.Diff(step.want, codes(t, s)); diff != "" {
				t.Errorf("with maxmemory %s:\n%s", step.limit, diff)
			}
		}
	})

	t.Run("calls unknown what Redis does not tell", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{Own: true})
		client := server.Client(t)
		if err := client.Do(t.Context(), "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-info", "-config").Err(); err != nil {
			t.Fatal(err)
		}
		limited := *server
		limited.URL = "redis://limited:pw@" + server.Addr
		s := open(t, &limited)
		if diff := cmp.Diff([]string{WarnEvictionUnknown, WarnPersistenceUnknown, WarnRunIDUnknown}, codes(t, s)); diff != "" {
			t.Error(diff)
		}
		// And ids are given all the same.
		if a, b := trigger(t, s).ID, trigger(t, s).ID; a != 0 || b != 1 {
			t.Errorf("ids %d and %d, want 0 and 1", a, b)
		}
	})
}

func TestWarningsOfOldVersions(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "10.1.0": false, "": false, "unknown": false,
	} {
		f := facts{version: version, runID: "x", policy: "noeviction", aof: "1"}
		want := []string{}
		if old {
			want = []string{WarnVersion}
		}
		if diff := cmp.Diff(want, warningCodes(f.warnings(false, 0))); diff != "" {
			t.Errorf("version %q:\n%s", version, diff)
		}
	}
}
