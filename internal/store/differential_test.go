// Package store_test holds the two stores to each other.
package store_test

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/filestore"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestStoresAgree drives both stores side by side: whoever moves from one to the other
// finds the same answers and the same refusals, also where the design leaves a choice.
func TestStoresAgree(t *testing.T) {
	t.Parallel()
	storetest.Lockstep(t, redis, files)
}

// TestAJobMovesBetweenTheStores takes a job from one store to the other and back.
func TestAJobMovesBetweenTheStores(t *testing.T) {
	t.Parallel()
	storetest.Move(t, redis, files, redis, files)
}

func redis(t testing.TB) storetest.Storage {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	return storetest.Storage{
		Replicas: true,
		Open: func(t testing.TB, options storetest.Options) coordinator.Store {
			t.Helper()
			s, err := redisstore.New(redisstore.Options{
				URL: server.URL, KeyPrefix: server.Prefix, Clock: options.Clock, Observer: options.Observer,
			})
			if err != nil {
				t.Fatalf("open the Redis store: %v", err)
			}
			return s
		},
	}
}

func files(t testing.TB) storetest.Storage {
	t.Helper()
	dir := t.TempDir()
	return storetest.Storage{
		Open: func(t testing.TB, options storetest.Options) coordinator.Store {
			t.Helper()
			s, err := filestore.Open(dir, filestore.Options{Clock: options.Clock, Observer: options.Observer})
			if err != nil {
				t.Fatalf("open the embedded store: %v", err)
			}
			return s
		},
	}
}
