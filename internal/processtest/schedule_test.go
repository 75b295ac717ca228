package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// triggers gives when each checkpoint of a job was triggered (Unix ms), in the order of
// the job's log, and fails unless their ids rise.
func (p *process) triggers(t *testing.T, job string) []int64 {
	t.Helper()
	var times []int64
	last := int64(-1)
	for _, event := range p.events(t, job) {
		if event.Type != "checkpoint.triggered" {
			continue
		}
		if event.CheckpointID <= last {
			t.Errorf("job %s triggered %d after %d", job, event.CheckpointID, last)
		}
		last = event.CheckpointID
		times = append(times, event.At)
	}
	return times
}

// rhythm checks the triggers of a schedule: never two in one period, and at most so many
// periods without one.
func rhythm(t *testing.T, job string, times []int64, interval time.Duration, mayMiss int) {
	t.Helper()
	if len(times) < 2 {
		t.Errorf("job %s triggered %d times", job, len(times))
		return
	}
	every := interval.Milliseconds()
	for i := 1; i < len(times); i++ {
		if apart := times[i] - times[i-1]; apart < every/2 {
			t.Errorf("job %s triggered twice within %d ms, its interval is %d ms", job, apart, every)
		}
	}
	periods := int((times[len(times)-1]-times[0]+every/2)/every) + 1
	if missed := periods - len(times); missed > mayMiss {
		t.Errorf("job %s triggered in %d of %d periods", job, len(times), periods)
	}
}

// putJob gives a job settings.
func (p *process) putJob(t *testing.T, job, settings string) {
	t.Helper()
	if got := p.call(t, "PUT", "/jobs/"+job, settings); got.status != http.StatusCreated && got.status != http.StatusOK {
		t.Fatalf("the settings of %s are answered %s", job, got)
	}
}

// pendingOf reads how many checkpoints of a job its statistics call pending.
func (p *process) pendingOf(t *testing.T, job string) int {
	t.Helper()
	var stats struct{ Counts struct{ Pending int } }
	body := p.must(t, http.StatusOK, "GET", "/checkpoints/stats?job="+job, "").body
	if err := json.Unmarshal([]byte(body), &stats); err != nil {
		t.Fatal(err)
	}
	return stats.Counts.Pending
}

// At full scale: CHECKPOINTD_SCHEDULE_SECONDS=60.
func TestThreeReplicasTriggerOncePerPeriodThoughOneIsKilledAndOneStops(t *testing.T) { //nolint:paralleltest // Its rhythm is measured.
	const (
		jobs     = 20
		interval = 200 * time.Millisecond
	)
	const seconds = 12 // beside other tests, where a tick may be late by more than half a period
	lasts := time.Duration(setting(t, "CHECKPOINTD_SCHEDULE_SECONDS", seconds)) * time.Second
	missable := func(triggers int) int {
		if lasts == seconds*time.Second {
			return 2 + triggers/20
		}
		return 1 + triggers/100
	}
	where := onRedis(t)
	a, b, c := serve(t, where), serve(t, where), serve(t, where)
	name := func(n int) string { return fmt.Sprintf("job-%d", n) }
	for n := range jobs {
		// Nobody acknowledges, so each expires before the next is due.
		a.putJob(t, name(n), fmt.Sprintf(`{"intervalMs":%d,"timeoutMs":100}`, interval.Milliseconds()))
	}
	<-time.After(lasts / 3)
	a.kill()
	<-time.After(lasts / 6)
	b.signal(t, syscall.SIGSTOP)
	<-time.After(lasts / 6)
	b.signal(t, syscall.SIGCONT)
	<-time.After(lasts / 3)
	for n := range jobs {
		times := c.triggers(t, name(n))
		t.Logf("%s triggered %d times within %d ms", name(n), len(times), times[len(times)-1]-times[0])
		rhythm(t, name(n), times, interval, missable(len(times)))
	}
}

func TestTheEmbeddedStoreKeepsTheRhythmThroughARestart(t *testing.T) {
	t.Parallel()
	const interval = 400 * time.Millisecond
	where := embedded(t)
	p := serve(t, where)
	p.putJob(t, "job", fmt.Sprintf(`{"intervalMs":%d,"timeoutMs":100}`, interval.Milliseconds()))
	eventually(t, "three triggers", func() bool { return len(p.triggers(t, "job")) >= 3 })
	p.kill()
	p = serve(t, where)
	before := len(p.triggers(t, "job"))
	eventually(t, "three more triggers", func() bool { return len(p.triggers(t, "job")) >= before+3 })
	times := p.triggers(t, "job")
	rhythm(t, "job", times, interval, len(times)) // how long the restart took is not its fault
}

func TestAScheduleGoesOnByItselfAfterRedisWasAway(t *testing.T) {
	t.Parallel()
	const interval = time.Second
	where := onRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	servers := []*process{serve(t, where), serve(t, where)}
	servers[0].putJob(t, "job", fmt.Sprintf(`{"intervalMs":%d,"timeoutMs":0,"maxConcurrentCheckpoints":1000}`, interval.Milliseconds()))
	eventually(t, "two triggers", func() bool { return len(servers[1].triggers(t, "job")) >= 2 })
	where.redis.Stop(t)
	<-time.After(5 * time.Second)
	before := time.Now()
	where.redis.Start(t)
	back := time.Now()
	var times []int64
	eventually(t, "a trigger after the outage", func() bool {
		if servers[1].call(t, "GET", "/readyz", "").status != http.StatusOK {
			return false
		}
		times = servers[1].triggers(t, "job")
		return time.UnixMilli(times[len(times)-1]).After(before)
	})
	first := times[0]
	for _, at := range times {
		if time.UnixMilli(at).After(before) {
			first = at
			break
		}
	}
	// One period is what is promised; beside other tests everything is late.
	late := time.UnixMilli(first).Sub(back)
	t.Logf("the first trigger came %s after Redis was back, the interval is %s", late, interval)
	if late > interval+3*time.Second {
		t.Errorf("the schedule took %s to go on", late)
	}
	var readers sync.WaitGroup
	for _, p := range servers {
		readers.Go(func() {
			eventually(t, "the statistics count what is pending", func() bool {
				return p.pendingOf(t, "job") == len(p.triggers(t, "job"))
			})
		})
	}
	readers.Wait()
	eventually(t, "the rhythm is back", func() bool { return len(servers[0].triggers(t, "job")) >= len(times)+2 })
	rhythm(t, "job", servers[0].triggers(t, "job"), interval, 8)
}
