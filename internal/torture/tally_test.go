package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
)

// tally counts what happened in many histories.
type tally struct {
	mu       sync.Mutex
	calls    map[certainty]int
	verbs    map[verb]int
	refusals map[string]int
	faults   map[string]int
	verdicts map[porcupine.CheckResult]int
}

func newTally() *tally {
	return &tally{calls: map[certainty]int{}, verbs: map[verb]int{}, refusals: map[string]int{}, faults: map[string]int{}, verdicts: map[porcupine.CheckResult]int{}}
}

func (n *tally) count(in input, out output, sure certainty) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[sure]++
	if sure != unchanged {
		n.verbs[in.Verb]++
	}
	if out.Code != "" {
		n.refusals[out.Code]++
	}
}

func (n *tally) fault(what string, times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[what] += times
}

func (n *tally) verdict(v porcupine.CheckResult) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verdicts[v]++
}

func (n *tally) judged(v porcupine.CheckResult) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.verdicts[v]
}

// log writes all counts.
func (n *tally) log(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	t.Logf("calls: %s\nof them: %s\nrefusals: %s\nfaults: %s\nhistories: %s",
		counts(n.calls), counts(n.verbs), counts(n.refusals), counts(n.faults), counts(n.verdicts))
}

func counts[K ~string](m map[K]int) string {
	var words []string
	total := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", k, m[k]))
		total += m[k]
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(words, ", "))
}
