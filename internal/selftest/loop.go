package selftest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// More than loopRate requests of one kind in each of loopSeconds seconds, one after another, are a busy loop.
const (
	loopRate    = 20
	loopSeconds = 3
)

// kind is what a request asks for, whatever the checkpoint and the query.
func kind(r fault.Request) string {
	path := strings.Split(r.Path, "/")
	for i, segment := range path {
		if i > 1 && number(segment) != nil {
			path[i] = "{id}"
		}
	}
	return r.Method + " " + strings.Join(path, "/")
}

// loops notes busy loops of this scenario, each kind once in a run: a worker that asks in
// one does so in each scenario.
func (p *play) loops() {
	arrivals := map[string][]time.Time{}
	for _, request := range p.seen() {
		if restores([]fault.Request{request}) != nil && request.Status/100 == 2 && request.Status != http.StatusNoContent {
			continue // piece by piece, each of which brings it further
		}
		arrivals[kind(request)] = append(arrivals[kind(request)], request.At)
	}
	for _, kind := range slices.Sorted(maps.Keys(arrivals)) {
		n := loopOf(arrivals[kind])
		if n == 0 || p.told[kind] {
			continue
		}
		p.told[kind] = true
		p.wrong(fmt.Sprintf("It asks in a busy loop: %s, %d times within %d seconds.", kind, n, loopSeconds),
			"A fleet that asks in a tight loop is an attack on its own coordinator, and keeps one down that is coming back.",
			"Pause after each answer that is not what was hoped for, longer each time, and let the server keep questions open (&wait=30).")
	}
}

// tell notes that a loop of these requests was found by the scenario itself.
func (p *play) tell(requests fault.Requests) {
	for _, request := range requests {
		p.told[kind(request)] = true
	}
}

// loopOf counts the requests in the first seconds of a busy loop; 0 is none. The arrivals are in
// their order.
func loopOf(arrivals []time.Time) int {
	for i := range arrivals {
		from := i
		for second := 1; second <= loopSeconds; second++ {
			end := arrivals[i].Add(time.Duration(second) * time.Second)
			to, _ := slices.BinarySearchFunc(arrivals, end, time.Time.Compare)
			if to-from <= loopRate {
				from = -1
				break
			}
			from = to
		}
		if from >= 0 {
			return from - i
		}
	}
	return 0
}
