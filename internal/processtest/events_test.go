package processtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/tmaxmax/go-sse"
)

// event is what tests look at in the data of an event.
type event struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	At           int64  `json:"at"`
	CheckpointID int64  `json:"checkpointId"`
	Status       string `json:"status"`
}

// follow reads events behind lastID until f is done with one, or the connection ends. The
// parser is none of ours.
func (p *process) follow(ctx context.Context, job, lastID string, f func(sse.Event) (done bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := request{method: "GET", url: p.url + "/events?job=" + job, header: map[string]string{"Accept": "text/event-stream"}}
	if lastID != "" {
		r.header["Last-Event-ID"] = lastID
	}
	response, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("events are answered %s", response.Status)
	}
	for e, err := range sse.Read(response.Body, nil) {
		if err != nil {
			return err
		}
		if f(e) {
			return nil
		}
	}
	return errors.New("the stream ended")
}

// place is the newest event of a job's log, as a new stream begins with it.
func (p *process) place(t *testing.T, job string) string {
	t.Helper()
	response, err := request{method: "GET", url: p.url + "/events?job=" + job}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if id, found := strings.CutPrefix(lines.Text(), "id: "); found {
			return id
		}
	}
	t.Fatalf("a new stream of job %s has no id: %s (%v)", job, response.Status, lines.Err())
	return ""
}

// events reads the whole log of a job.
func (p *process) events(t *testing.T, job string) []event {
	t.Helper()
	last := p.place(t, job)
	if last == "0-0" {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []event
	err := p.follow(ctx, job, "0-0", func(e sse.Event) bool {
		var got event
		if err := json.Unmarshal([]byte(e.Data), &got); err != nil || e.Type == "gap" {
			t.Errorf("event %s of type %s has data %q (%v)", e.LastEventID, e.Type, e.Data, err)
		}
		all = append(all, got)
		return e.LastEventID == last
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// order is the place of an event in its log, for comparing.
func order(t *testing.T, id string) (epoch, seq int64) {
	t.Helper()
	if _, err := fmt.Sscanf(id, "%d-%d", &epoch, &seq); err != nil {
		t.Errorf("%q is no event id: %v", id, err)
	}
	return epoch, seq
}

func TestAClientThatIsKilledFiftyTimesReceivesEachEventOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const wanted, kills = 2000, 50
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			replicas := []*process{serve(t, where)}
			if where.redis != nil {
				replicas = append(replicas, serve(t, where), serve(t, where))
			}
			start := replicas[0].place(t, "default")
			made := make(chan struct{})
			go func() {
				defer close(made)
				// Triggered, completed, and from the sixth on deleted: three events each.
				for n := range wanted/3 + 10 {
					p := replicas[n%len(replicas)]
					id := p.trigger(t, "{}")
					p.acknowledge(t, id, "task-1")
					if n%100 == 50 {
						p.must(t, http.StatusOK, "POST", "/checkpoints/recover", "")
					}
				}
			}()

			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			var got []event
			last := start
			lives := 0
			for len(got) < wanted && ctx.Err() == nil {
				lives++
				dies := min(wanted, len(got)+1+rand.IntN(wanted/kills))
				if lives > kills {
					dies = wanted
				}
				err := replicas[rand.IntN(len(replicas))].follow(ctx, "default", last, func(e sse.Event) bool {
					var one event
					if err := json.Unmarshal([]byte(e.Data), &one); err != nil || one.ID != e.LastEventID || one.Type != e.Type {
						t.Errorf("event %s of type %s has data %q (%v)", e.LastEventID, e.Type, e.Data, err)
					}
					got, last = append(got, one), e.LastEventID
					return len(got) >= dies
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			<-made
			t.Logf("%d events in %d lives", len(got), lives)
			all := replicas[0].events(t, "default")
			if len(got) < wanted || len(all) < len(got) {
				t.Fatalf("%d events were received, and the log has %d", len(got), len(all))
			}
			for i := range got {
				if got[i] != all[i] {
					t.Fatalf("event %d is %+v, in the log it is %+v", i, got[i], all[i])
				}
				if i == 0 {
					continue
				}
				epoch, seq := order(t, got[i].ID)
				lastEpoch, lastSeq := order(t, got[i-1].ID)
				if seq != lastSeq+1 || epoch < lastEpoch {
					t.Fatalf("event %s follows %s", got[i].ID, got[i-1].ID)
				}
			}
		})
	}
}
