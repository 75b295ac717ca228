package redisstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
	"github.com/checkpointd/checkpointd/internal/store/storetest"
)

func TestAServerWithTLSIsTrustedByItsAuthority(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TLS: true})
	trigger(t, openAt(t, Options{URL: server.URL, CAFile: server.CAFile, KeyPrefix: server.Prefix}))
	_, err := openAt(t, Options{URL: server.URL, KeyPrefix: server.Prefix}).Trigger(t.Context(), aTriggerCall())
	wantCode(t, "a trigger at a stranger", err, coordinator.CodeStoreUnavailable)
}

func TestFilesOfTLSThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	for want, options := range map[string]Options{
		"begins with rediss":      {URL: "redis://h", CAFile: empty},
		"has no certificate":      {URL: "rediss+cluster://h", CAFile: empty},
		"no such file":            {URL: "rediss+sentinel://h?master=m", CAFile: empty + "x"},
		"read the certificate":    {URL: "rediss://h", CertFile: empty, KeyFile: empty},
		"read the certificate fo": {URL: "rediss://h", CertFile: empty},
	} {
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): %v, want something about %q", options, err, want)
		}
	}
}

// The rights that docs/redis.md gives a user are enough for every rule of the suite that is run with them.
func TestAUserNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/redis.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "ACL SETUSER checkpointd on >PASSWORD ")
	rights, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("docs/redis.md has no user")
	}
	server := redistest.Start(t, redistest.Options{Own: true})
	client := server.Client(t)
	storetest.Run(t, func(t testing.TB) storetest.Storage {
		t.Helper()
		prefix := ownPrefix()
		user := strings.Trim(prefix, ":")
		args := []any{"ACL", "SETUSER", user, "on", ">p@ss/w"}
		for right := range strings.FieldsSeq(strings.ReplaceAll(rights, DefaultKeyPrefix, prefix)) {
			args = append(args, right)
		}
		must(t, client.Do(t.Context(), args...).Err())
		return storageOf(client, Options{URL: "redis://" + user + ":p%40ss%2Fw@" + server.Addr, KeyPrefix: prefix}, newKeyspace)
	}, "ack", "upload", "shared state", "restore", "delete job", "listen", "sweep")
	t.Run("health", func(t *testing.T) {
		t.Parallel()
		must(t, client.Do(t.Context(), "ACL", "SETUSER", "health", "on", ">pw", "+@all", "-@admin", "-@dangerous", "+info", "+config|get", "~checkpoint:*").Err())
		warnings, err := openAt(t, Options{URL: "redis://health:pw@" + server.Addr}).Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, warning := range warnings {
			if strings.HasSuffix(warning.Code, "unknown") {
				t.Errorf("%s: %s", warning.Code, warning.Detail)
			}
		}
	})
}

func TestSentinelsLeadToTheNewMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSentinel(t, redistest.SentinelOptions{})
	s := openAt(t, Options{URL: cluster.URL(), KeyPrefix: cluster.Prefix})
	trigger(t, s)
	cluster.AwaitInSync(t)
	master := cluster.Master(t)
	master.Kill(t)
	_, err := s.Trigger(t.Context(), aTriggerCall())
	if code := coordinator.CodeOf(err); code != coordinator.CodeStoreUnavailable && code != coordinator.CodeOutcomeUnknown {
		t.Errorf("a trigger without a master: %v", err)
	}
	cluster.AwaitFailover(t, master)
	// Another run_id: the new master may have lost what the old one had confirmed.
	if id := trigger(t, s).ID; id != 1001 {
		t.Errorf("the id after a failover is %d, want 1001", id)
	}
}

// A sentinel that takes connections and never answers must not be the end of all new connections.
func TestASentinelThatHangsIsPassedOver(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: time.Minute})
	s := openAt(t, Options{URL: cluster.URL(), KeyPrefix: cluster.Prefix})
	trigger(t, s)
	for _, watcher := range cluster.Sentinels {
		watcher.Pause(t)
		must(t, cluster.Nodes[0].Client(t).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
		soon(t, "a trigger on a new connection", func() {
			_, err := s.Trigger(t.Context(), aTriggerCall())
			if code := coordinator.CodeOf(err); err != nil && code != coordinator.CodeOutcomeUnknown { // the cut connection was written to
				t.Errorf("trigger: %v", err)
			}
		})
		trigger(t, s)
		watcher.Resume(t)
	}
}

func TestAReplicaIsNotTakenForTheMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSentinel(t, redistest.SentinelOptions{})
	for i, node := range cluster.Nodes[:2] {
		err := openAt(t, Options{URL: node.URL}).client.Ping(t.Context()).Err()
		if refused := caused(err); refused != (i == 1) {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

func TestAURLOfOneServerAtANodeOfAClusterIsAWarning(t *testing.T) {
	t.Parallel()
	node := redistest.StartCluster(t, redistest.ClusterOptions{}).Nodes[0]
	s := openAt(t, Options{URL: node.URL, KeyPrefix: "p:"})
	warnings, err := s.configuration(t.Context(), []*redis.Client{s.client.server}, nil)
	if err != nil || len(warnings) == 0 || warnings[0].Code != WarnClusterURL {
		t.Errorf("warnings %v, %v", warnings, err)
	}
}
