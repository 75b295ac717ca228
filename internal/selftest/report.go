package selftest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// Outcome is how a scenario went.
type Outcome string

// Advice is a pass with something to improve. A scenario is skipped where the worker
// does not use what it is about, or where its state is too small.
const (
	Passed  Outcome = "passed"
	Advice  Outcome = "advice"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Finding is one thing about the worker. Without Must it is advice.
type Finding struct {
	Must bool `json:"must"`
	// What the worker did.
	What string `json:"what"`
	// Why that loses data, or hangs.
	Why string `json:"why,omitempty"`
	// Do says what to change.
	Do string `json:"do"`
}

// Result is one scenario's.
type Result struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Outcome  Outcome   `json:"outcome"`
	Note     string    `json:"note,omitempty"` // why it was skipped
	Findings []Finding `json:"findings,omitempty"`
	// Requests are those of the worker during a scenario that did not pass, with the seconds since its
	// beginning; many equal ones are one line, and in the middle of many lines some are left out.
	Requests []string `json:"requests,omitempty"`
}

// Report is the whole run's.
type Report struct {
	URL     string   `json:"url"`
	Task    string   `json:"task"`
	Job     string   `json:"job"`
	Passed  bool     `json:"passed"`
	Results []Result `json:"scenarios"`
}

const (
	// requestsShown of the begin and of the end of a scenario are in the report.
	requestsShown = 12
	// equalShown lines are written out; more of them are one line, so that they do not hide the others.
	equalShown = 6
)

func shown(requests fault.Requests, since time.Time) []string {
	equal := map[string][]time.Time{}
	for _, request := range requests {
		equal[request.String()] = append(equal[request.String()], request.At)
	}
	var lines []string
	for _, request := range requests {
		text := request.String()
		times, folded := equal[text]
		if !folded {
			continue // with the first of them
		}
		line := fmt.Sprintf("%7.3fs %s", request.At.Sub(since).Seconds(), text)
		if n := len(times); n > equalShown {
			delete(equal, text)
			line += fmt.Sprintf("  × %d%s, the last at %.3fs", n, rate(times), times[n-1].Sub(since).Seconds())
		}
		lines = append(lines, line)
	}
	if more := len(lines) - 2*requestsShown; more > 0 {
		lines = slices.Concat(lines[:requestsShown], []string{fmt.Sprintf("… %d more …", more)}, lines[len(lines)-requestsShown:])
	}
	return lines
}

// rate says how many of these there were a second, where there were several.
func rate(times []time.Time) string {
	took := times[len(times)-1].Sub(times[0]).Seconds()
	if perSecond := float64(len(times)-1) / max(took, 0.001); perSecond >= 2 {
		return fmt.Sprintf(", %.0f a second", perSecond)
	}
	return ""
}

// String is a result as it is read.
func (r *Result) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-8s%s: %s\n", map[Outcome]string{
		Passed: "passed", Advice: "passed", Failed: "FAILED", Skipped: "skipped",
	}[r.Outcome], r.Name, r.Title)
	if r.Note != "" {
		fmt.Fprintln(&out, "        "+r.Note)
	}
	for _, finding := range r.Findings {
		level := "advice: "
		if finding.Must {
			level = "wrong:  "
		}
		fmt.Fprintln(&out, "        "+level+finding.What)
		if finding.Why != "" {
			fmt.Fprintln(&out, "        why:    "+finding.Why)
		}
		fmt.Fprintln(&out, "        do:     "+finding.Do)
	}
	if r.Outcome == Failed && len(r.Requests) > 0 {
		fmt.Fprintln(&out, "        requests of your worker:")
		fmt.Fprintln(&out, "          "+strings.Join(r.Requests, "\n          "))
	}
	return out.String()
}

// summary is the last line.
func (r *Report) summary() string {
	count := map[Outcome]int{}
	for i := range r.Results {
		count[r.Results[i].Outcome]++
	}
	return fmt.Sprintf("%d passed, %d of them with advice; %d failed, %d skipped",
		count[Passed]+count[Advice], count[Advice], count[Failed], count[Skipped])
}
