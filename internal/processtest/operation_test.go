package processtest

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestASecondProcessOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	where := embedded(t)
	first := serve(t, where)
	second := launch(t, append([]string{"--listen", "127.0.0.1:0"}, where.flags...)...)
	if code := second.exitCode(t); code == 0 {
		t.Error("the second process ended as if all were well")
	}
	if said := second.log.tail(5); !strings.Contains(said, where.flags[1]) || !strings.Contains(said, "another process") {
		t.Errorf("the second process said\n%s", said)
	}
	first.complete(t)
	first.kill()
	serve(t, where).must(t, http.StatusOK, "GET", "/checkpoints/latest", "")
}

func TestExpiryIsSeenEverywhereWithinASecondWithoutAnyRequest(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where)
			created := p.must(t, http.StatusCreated, "POST", "/checkpoints", `{"requiredTaskAcks":1,"timeoutMs":700}`).message()
			written := p.awaitEntry(t, "checkpoint ended", func(e entry) bool { return e.Message == "checkpoint ended" && e.Status == "expired" })
			// The log counts in seconds, so the moment is that of its arrival here.
			if late := time.Since(time.UnixMilli(created.Deadline)); late > time.Second || written.CheckpointID != created.CheckpointID {
				t.Errorf("the expiry of %d was written %s after its deadline", written.CheckpointID, late)
			}
			got := p.must(t, http.StatusOK, "GET", at(created.CheckpointID, ""), "").message()
			if got.Status != "expired" || got.EndedAt-created.Deadline > 1000 {
				t.Errorf("its status is %+v", got)
			}
			listed := p.must(t, http.StatusOK, "GET", "/checkpoints?status=expired", "").message().Checkpoints
			if len(listed) != 1 || listed[0].CheckpointID != created.CheckpointID {
				t.Errorf("the list has %+v", listed)
			}
			metrics := p.metrics(t)
			for sample, want := range map[string]string{
				`checkpointd_checkpoints_ended_total{job="default",reason="expired",status="expired"}`: "1",
				`checkpointd_pending_checkpoints{job="default"}`:                                       "0",
			} {
				if metrics[sample] != want {
					t.Errorf("%s is %q, want %s", sample, metrics[sample], want)
				}
			}
			late := p.refused(t, http.StatusConflict, "checkpoint_expired", "POST", at(created.CheckpointID, "/acks"), `{"taskId":"task-1"}`).message()
			if late.Current != nil || late.Latest != nil {
				t.Errorf("there is nothing to go on with, and a late acknowledgement is told of %v, %v", late.Current, late.Latest)
			}
		})
	}
}

// metrics reads all samples: name with labels → value.
func (p *process) metrics(t *testing.T) map[string]string {
	t.Helper()
	samples := map[string]string{}
	for line := range strings.Lines(p.must(t, http.StatusOK, "GET", "/metrics", "").body) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		samples[line[:end]] = line[end+1:]
	}
	return samples
}

func TestLateAcknowledgementsAreToldWhereToGoOn(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where)
			old := p.complete(t)
			aborted := p.trigger(t, `{"requiredTaskAcks":1}`)
			p.must(t, http.StatusOK, "POST", at(aborted, "/abort"), `{"reason":"a test"}`)
			latest, current := p.complete(t), p.trigger(t, `{"requiredTaskAcks":1}`)
			for id, code := range map[int64]string{old: "checkpoint_completed", aborted: "checkpoint_aborted"} {
				got := p.refused(t, http.StatusConflict, code, "POST", at(id, "/acks"), `{"taskId":"late"}`).message()
				if got.Current == nil || *got.Current != current || got.Latest == nil || *got.Latest != latest {
					t.Errorf("%s names %v and %v, want %d and %d", code, got.Current, got.Latest, current, latest)
				}
			}
		})
	}
}

func TestTheSeriesOfADeletedJobGo(t *testing.T) {
	t.Parallel()
	p := serve(t, embedded(t))
	p.must(t, http.StatusCreated, "POST", "/checkpoints?job=short-lived", "{}")
	p.must(t, http.StatusOK, "POST", "/checkpoints/0/acks?job=short-lived", `{"taskId":"task-1"}`)
	about := func() bool {
		return strings.Contains(p.must(t, http.StatusOK, "GET", "/metrics", "").body, `job="short-lived"`)
	}
	eventually(t, "the job has series", about)
	p.must(t, http.StatusNoContent, "DELETE", "/jobs/short-lived", "")
	eventually(t, "its series are gone", func() bool { return !about() })
}

// documentedMetrics reads the table in ARCHITECTURE.md.
func documentedMetrics(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			names = append(names, "checkpointd_"+name[1])
		}
	}
	if len(names) < 10 {
		t.Fatalf("ARCHITECTURE.md documents %v", names)
	}
	slices.Sort(names)
	return names
}

func TestMetricsHaveTheDocumentedNames(t *testing.T) {
	t.Parallel()
	where := onRedis(t)
	p := serve(t, where)
	p.complete(t)
	p.must(t, http.StatusOK, "GET", "/checkpoints/latest/restore", "")
	p.must(t, http.StatusOK, "POST", "/checkpoints/recover", "")
	p.must(t, http.StatusNoContent, "DELETE", at(0, ""), "")
	// Errors of the store are counted while it is away, and it warns when it is back.
	where.redis.Kill(t)
	p.await(t, "background work failed; it is tried again")
	p.await(t, "the store does not answer; requests get 503 until it does")
	p.must(t, http.StatusServiceUnavailable, "GET", "/checkpoints/latest", "")
	where.redis.Start(t)
	p.ready(t)
	p.complete(t)
	p.putJob(t, "default", `{"intervalMs":3600000}`)

	var served []string
	eventually(t, "warnings are back", func() bool {
		served = nil
		body := p.must(t, http.StatusOK, "GET", "/metrics", "").body
		for _, family := range regexp.MustCompile(`(?m)^# TYPE (checkpointd_\S+)`).FindAllStringSubmatch(body, -1) {
			served = append(served, family[1])
		}
		return slices.Contains(served, "checkpointd_store_warning")
	})
	// Only a server with tokens or TLS has the one, and only one with too many connections the other.
	served = append(served, "checkpointd_credentials_valid", "checkpointd_connections_closed_total")
	slices.Sort(served)
	if want := documentedMetrics(t); !slices.Equal(served, want) {
		t.Errorf("/metrics has\n%v\nARCHITECTURE.md has\n%v", served, want)
	}
	samples := p.metrics(t)
	for name, want := range map[string]string{
		`checkpointd_checkpoints_triggered_total{job="default"}`:                           "2",
		`checkpointd_checkpoints_ended_total{job="default",reason="",status="completed"}`:  "2",
		`checkpointd_acks_total{job="default",outcome="acknowledged"}`:                     "2",
		`checkpointd_recoveries_total{job="default"}`:                                      "1",
		`checkpointd_restores_total{job="default",outcome="finished"}`:                     "1",
		`checkpointd_checkpoints_deleted_total{job="default",why="request"}`:               "1",
		`checkpointd_http_requests_total{method="POST",route="/checkpoints",status="201"}`: "2",
		`checkpointd_store_up`: "1",
		fmt.Sprintf(`checkpointd_store_warning{warning=%q}`, "redis_persistence"): "1",
	} {
		if samples[name] != want {
			t.Errorf("%s is %q, want %s", name, samples[name], want)
		}
	}
}
