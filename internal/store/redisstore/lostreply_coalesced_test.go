package redisstore

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// replyCut lets the reply of the first script of a round trip through, then closes the connection.
const replyCut fault = "a reply cut off"

func init() {
	toxics[replyCut] = `{"name":"fault","type":"limit_data","stream":"downstream","attributes":{"bytes":100}}`
}

// crowdedCalls are a trip of one checkpoint or of four, with every kind of outcome in it. One is completed
// in the middle, one is not there, and one is simply acknowledged.
type crowdedCalls struct {
	*crowd
	calls []*awaited
}

// newCrowdedCalls makes them, with a fault at command number at. Command 0 is the one that the others wait for.
func newCrowdedCalls(t testing.TB, server *redistest.Server, checkpoints int, what fault, at int) *crowdedCalls {
	t.Helper()
	c := &crowdedCalls{crowd: newCrowd(t, server)}
	open := c.pending(9)
	full, calm := c.pending(3), c.pending(9)
	c.accept(open, "known")
	c.accept(full, "x")
	c.begin(what, at)
	_, release := c.first(open, "first")
	c.calls = c.queue(open,
		coordinator.AckItem{TaskID: "a", Part: partContent("a part\n")},
		coordinator.AckItem{TaskID: "known", Attempt: 3},
		coordinator.AckItem{TaskID: "a", Attempt: 1, Digest: digestOf("other")},
		coordinator.AckItem{TaskID: "b", Attempt: 4},
	)
	if checkpoints > 1 {
		c.calls = append(c.calls, c.queue(full, items("y", "z", "late")...)...)
		c.calls = append(c.calls, c.queue(77, items("nobody")...)...)
		c.calls = append(c.calls, c.queue(calm, items("m", "n")...)...)
	}
	release()
	return c
}

// What a connection that breaks in the middle of a trip does to those who share it: nothing.
func TestALostMessageOfATripIsEveryCallersOwnTruth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	want := []string{
		"acknowledged 3 pending", "duplicate 3 pending", "refused 3 pending ack_conflict", "acknowledged 4 pending",
		"acknowledged 2 pending", "acknowledged 3 completed", "refused 3 completed checkpoint_completed", "checkpoint_not_found",
		"acknowledged 1 pending", "acknowledged 2 pending",
	}
	// Of several, those that the first script call has left alone go once more.
	for _, trip := range []struct{ checkpoints, outcomes, commands int }{{1, 4, 2}, {4, 10, 3}} {
		undisturbed := newCrowdedCalls(t, server, trip.checkpoints, noFault, 0)
		undisturbed.same("outcomes", undisturbed.outcomes(undisturbed.calls), want[:trip.outcomes])
		undisturbed.same("commands sent", len(undisturbed.wire.heal()), trip.commands)
		stored, ended := undisturbed.stored(), undisturbed.heard.sorted("ended")
		for at := 1; at < trip.commands; at++ {
			for _, what := range []fault{replyLost, requestLost, replyCut} {
				t.Run(fmt.Sprintf("%s of %d checkpoints at %d", what, trip.checkpoints, at), func(t *testing.T) {
					t.Parallel()
					c := newCrowdedCalls(t, server, trip.checkpoints, what, at)
					c.same("outcomes", c.outcomes(c.calls), want[:trip.outcomes])
					if sent := len(c.wire.heal()); sent <= trip.commands && what != replyCut {
						t.Errorf("%d commands were sent: nothing was lost", sent)
					}
					c.same("reported ends", c.heard.sorted("ended"), ended)
					c.same("what is stored", c.stored(), stored)
				})
			}
		}
	}
}

// newTokens are those that the store gives to calls that it has joined.
var newTokens = regexp.MustCompile(`[A-Z2-7]{16}`)

// stored is what Redis holds, a line for each key, without what differs from run to run.
func (c *crowdedCalls) stored() []string {
	c.Helper()
	var lines []string
	for key, value := range c.contents() {
		lines = append(lines, newTokens.ReplaceAllString(fmt.Sprint(key, " ", value), "token"))
	}
	slices.Sort(lines)
	return lines
}

// Redis is there and does not answer, or is gone: nobody is told more than is known, and everybody
// within two seconds.
func TestATripWithoutAnAnswerIsUnknownToEveryCaller(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Own: true})
	for _, checkpoints := range []int{1, 4} {
		for _, what := range []fault{everyReplyLost, silence} {
			if what == everyReplyLost && checkpoints > 1 {
				continue // the wire loses one reply at a time, and they are sent again at the same time
			}
			t.Run(fmt.Sprintf("%s of %d checkpoints", what, checkpoints), func(t *testing.T) {
				t.Parallel()
				c := newCrowdedCalls(t, server, checkpoints, what, 1)
				started := time.Now()
				for _, outcome := range c.outcomes(c.calls) {
					c.same("outcome", outcome, string(coordinator.CodeOutcomeUnknown))
				}
				if took := time.Since(started); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
				c.wire.heal()
			})
		}
	}
}
