package selftest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/selftest"
)

// habits are what a worker of these tests does wrong, or may do; without any it does nothing wrong.
type habits struct {
	mute, badLines, otherTask, onlyFirst, hotPoll, newestOnly, asksForAll, strict, sendsOnce, declines, impatient bool
	endsWithoutServer, parsesAll, insists, endsOnRefusal, forgets, restoresFirst, takesHalf, skips, takesAnything bool
	freshOn503, ignoresStale, adoptsEpoch, recoversWithoutKey, freezes, otherBytes, silentWhenStale               bool
	freshAtRestore, recoversFirst, ignoresRestore, beginsEmpty                                                    bool
	// These are right.
	endsOn503, slowToRestore bool
	// states is how many there are, one after the other; without it each is another.
	states int
}

// sloppy is one life of such a worker.
type sloppy struct {
	habits
	selftest.Life

	ctx    context.Context //nolint:containedctx // It is that of its one life.
	client *http.Client
	epoch  int64
	count  int
	done   map[int64]bool
}

func (h habits) live(ctx context.Context, life selftest.Life) {
	transport := &http.Transport{DisableKeepAlives: true}
	s := &sloppy{habits: h, Life: life, ctx: ctx, client: &http.Client{Transport: transport}, done: map[int64]bool{}}
	if s.mute {
		<-ctx.Done()
		return
	}
	if s.begin() {
		for s.round() {
		}
	}
}

// send makes a call; the status is 0 when there was no answer.
func (s *sloppy) send(method, path string, body []byte, header ...string) (int, []byte, http.Header) {
	request, err := http.NewRequestWithContext(s.ctx, method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !s.takesHalf && !s.skips {
		return 0, nil, nil
	}
	return response.StatusCode, text, response.Header
}

func (s *sloppy) pause(header http.Header) {
	seconds, _ := strconv.Atoi(header.Get("Retry-After"))
	wait := max(time.Duration(seconds)*time.Second, 200*time.Millisecond)
	if s.impatient {
		wait = time.Millisecond
	}
	select {
	case <-time.After(wait):
	case <-s.ctx.Done():
	}
}

func (s *sloppy) begin() bool {
	if s.recoversWithoutKey {
		s.send("POST", "/checkpoints/recover", nil)
	}
	for key := []string{"Idempotency-Key", s.RecoveryKey()}; s.recoversFirst && s.ctx.Err() == nil; {
		status, _, head := s.send("POST", "/checkpoints/recover", nil, key...)
		if status/100 == 2 || status == http.StatusConflict {
			break
		}
		s.pause(head)
	}
	s.readEpoch()
	if s.slowToRestore && s.Number > 1 {
		s.pause(http.Header{"Retry-After": {"2"}})
	}
	path := "/checkpoints/latest/restore?taskId=" + url.QueryEscape(s.Task)
	if s.restoresFirst {
		path = strings.Replace(path, "latest", "0", 1)
	}
	var offset int
	for s.ctx.Err() == nil && !s.forgets {
		var header []string
		if offset > 0 {
			header = []string{"Range", fmt.Sprintf("bytes=%d-", offset)}
			path = "/checkpoints/" + strconv.Itoa(s.latest()) + "/restore?taskId=" + url.QueryEscape(s.Task)
		}
		status, text, head := s.send("GET", path, nil, header...)
		fresh := status == http.StatusNotFound || s.restoresFirst && status == http.StatusConflict ||
			(s.freshOn503 || s.freshAtRestore) && status == http.StatusServiceUnavailable
		if s.endsOn503 && status == http.StatusServiceUnavailable {
			return false
		}
		if s.skips && len(text) > 0 && head.Get("Content-Length") != strconv.Itoa(len(text)) {
			offset = len(text) + 1
			continue
		}
		page := !strings.Contains(head.Get("Content-Type"), "ndjson") && !s.takesAnything
		if fresh || status/100 == 2 && !page {
			_, value, _ := strings.Cut(string(text), `"value":`)
			s.count, _ = strconv.Atoi(strings.TrimRight(value, "}\n"))
			if s.ignoresRestore {
				s.count = 0
			}
			return true
		}
		s.pause(head)
	}
	return s.forgets
}

func (s *sloppy) latest() int {
	var latest struct{ CheckpointID int }
	_, text, _ := s.send("GET", "/checkpoints/latest", nil)
	_ = json.Unmarshal(text, &latest)
	return latest.CheckpointID
}

func (s *sloppy) readEpoch() {
	for s.ctx.Err() == nil {
		status, text, head := s.send("GET", "/jobs/"+s.Job, nil)
		var job struct{ Status struct{ Epoch int64 } }
		if status == http.StatusOK && json.Unmarshal(text, &job) == nil {
			s.epoch = job.Status.Epoch
			return
		}
		if s.freshOn503 && status == http.StatusServiceUnavailable {
			return
		}
		s.pause(head)
	}
}

// round asks what there is to do and does it.
func (s *sloppy) round() bool {
	query := url.Values{"status": {"pending"}, "notAckedBy": {s.Task}, "wait": {"30"}}
	if s.hotPoll {
		query.Del("wait")
	}
	if s.asksForAll {
		query = url.Values{"status": {"pending"}}
	}
	status, text, head := s.send("GET", "/checkpoints?"+query.Encode(), nil)
	var list struct {
		Checkpoints []struct {
			CheckpointID int64           `json:"checkpointId"`
			Other        json.RawMessage `json:"-"`
		}
	}
	switch {
	case s.ctx.Err() != nil, status == 0 && s.endsWithoutServer:
		return false
	case status != http.StatusOK && !s.parsesAll:
		s.pause(head)
		return true
	}
	if s.strict && bytes.Contains(text, []byte("selftestUnknown")) {
		return false
	}
	if err := json.Unmarshal(text, &list); err != nil {
		s.pause(nil)
		return !s.parsesAll
	}
	if s.asksForAll {
		s.pause(nil)
	}
	slices.Reverse(list.Checkpoints)
	if s.newestOnly && len(list.Checkpoints) > 0 {
		list.Checkpoints = list.Checkpoints[len(list.Checkpoints)-1:]
		for id := range list.Checkpoints[0].CheckpointID {
			s.done[id] = true
		}
	}
	idle := true
	for _, c := range list.Checkpoints {
		if s.done[c.CheckpointID] || s.onlyFirst && len(s.done) > 1 {
			continue
		}
		if idle = false; !s.handIn(c.CheckpointID) {
			return false
		}
		s.done[c.CheckpointID] = !s.asksForAll && (s.sendsOnce || s.onlyFirst || s.newestOnly)
	}
	if idle && len(list.Checkpoints) > 0 {
		s.pause(nil)
	}
	return true
}

func (s *sloppy) handIn(id int64) bool {
	for s.count++; s.ctx.Err() == nil; {
		task := s.Task
		if s.otherTask {
			task = "somebody"
		}
		if s.states > 0 {
			s.count %= s.states
		}
		if s.beginsEmpty && len(s.done) == 0 {
			s.done[-1], s.count = true, 1 // what was under way is done, and there is more later
		} else if s.beginsEmpty {
			s.count += 1000 * s.Number
		}
		body := fmt.Sprintf(`{"key":"count","value":%d}`, s.count)
		if s.badLines {
			body = "count: 1"
		}
		if s.otherBytes {
			s.count++
		}
		path := fmt.Sprintf("/checkpoints/%d/tasks/%s/state?ack=true&epoch=%d&attempt=%d", id, url.PathEscape(task), s.epoch, s.Number)
		status, text, head := s.send("PUT", path, []byte(body+"\n"), "Content-Type", "application/x-ndjson")
		var problem struct{ Code string }
		_ = json.Unmarshal(text, &problem)
		stale := strings.HasPrefix(problem.Code, "stale_")
		switch {
		case status == http.StatusOK, s.sendsOnce, s.badLines, s.otherTask:
			return true
		case s.declines && (status == 0 || status >= 500):
			s.send("POST", fmt.Sprintf("/checkpoints/%d/abort", id), fmt.Appendf(nil, `{"taskId":%q,"attempt":%d,"reason":"no answer"}`, s.Task, s.Number))
			return true
		case stale && s.adoptsEpoch:
			s.readEpoch()
			s.forgets = true
			continue
		case stale && s.silentWhenStale:
			<-s.ctx.Done()
			return false
		case stale && !s.ignoresStale, status/100 == 4 && s.endsOnRefusal:
			return false
		case status/100 == 4 && s.freezes:
			<-s.ctx.Done()
			return false
		case status/100 == 4 && !s.insists:
			return true
		}
		s.pause(head)
	}
	return false
}

// deaf hears of checkpoints by events only, and does not resume.
func deaf(ctx context.Context, life selftest.Life) {
	s := &sloppy{Life: life, ctx: ctx, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, done: map[int64]bool{}}
	if !s.begin() {
		return
	}
	for first := true; ctx.Err() == nil; first = false {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, life.URL+"/events?type=checkpoint.triggered", nil)
		if err != nil {
			panic(err)
		}
		response, err := s.client.Do(request)
		if err != nil {
			s.pause(nil)
			continue
		}
		if first { // what was pending before it listened
			short, cancel := context.WithTimeout(ctx, time.Second)
			listen := *s
			listen.ctx = short
			listen.round()
			cancel()
		}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			var event struct {
				CheckpointID *int64 `json:"checkpointId"`
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is && json.Unmarshal([]byte(data), &event) == nil && event.CheckpointID != nil {
				s.handIn(*event.CheckpointID)
			}
		}
		response.Body.Close()
	}
}

// inProcess runs lives in goroutines.
type inProcess struct {
	live   func(context.Context, selftest.Life)
	kill   context.CancelFunc
	exited chan struct{}
}

func (d *inProcess) Start(_ context.Context, life selftest.Life) error {
	ctx, kill := context.WithCancel(context.Background())
	exited := make(chan struct{})
	d.kill, d.exited = kill, exited
	go func() {
		defer close(exited)
		d.live(ctx, life)
	}()
	return nil
}

func (d *inProcess) Kill() {
	if d.kill != nil {
		d.kill()
		<-d.exited
	}
}

func (d *inProcess) Exited() <-chan struct{} { return d.exited }
