package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// record is one call of a history, times in ns since its beginning.
type record struct {
	Client int    `json:"client"`
	In     input  `json:"in"`
	Out    output `json:"out"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
}

// history is all that the clients of one job did and heard.
type history struct {
	Job  string `json:"job"`
	Seed uint64 `json:"seed"`
	Keep int    `json:"keep"`
	// Timeless says that the clock of the store was set meanwhile.
	Timeless bool `json:"timeless,omitempty"`
	// Lags says that reads may take the time of the beginning of a change that is being
	// written, as those of the embedded store do: it may be long ago where the disk or the
	// process stood still.
	Lags bool `json:"lags,omitempty"`
	// Jumps says that the store passes epochs over when it has been restarted, as Redis does.
	Jumps bool `json:"jumps,omitempty"`
	// TakesBack says that a failover may take back what no replica had, and what reads, which
	// wait for none, may have shown before: a master that stood still and is none any more still answers.
	TakesBack bool `json:"takesBack,omitempty"`

	Records []record  `json:"records"`
	Lent    []lending `json:"lent,omitempty"`
	Faults  []strike  `json:"faults,omitempty"`

	began time.Time
	mu    sync.Mutex
}

// strike is a fault that happened, in ns since the beginning of the history.
type strike struct {
	What  string `json:"what"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
}

// lending is a restore that was asked for at a time; of any checkpoint where ID is [newest].
type lending struct {
	ID   int64 `json:"id"`
	Call int64 `json:"call"`
}

// now is the time in the history.
func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

func (h *history) note(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Records = append(h.Records, r)
}

func (h *history) lend(id, call int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Lent = append(h.Lent, lending{id, call})
}

// inexactness is how far the store's milliseconds and ours may be apart.
const inexactness = int64(20 * time.Millisecond)

// operations gives the history as porcupine wants it, each call with what only the whole
// history tells.
func (h *history) operations() []porcupine.Operation {
	given, seen := h.ids()
	all := slices.Concat(given, seen)
	var ghosts []int64
	for _, id := range seen {
		if !slices.Contains(given, id) {
			ghosts = append(ghosts, id)
		}
	}
	var epochs []int64
	if h.TakesBack {
		epochs = h.epochs()
	}
	operations := make([]porcupine.Operation, 0, len(h.Records))
	for i, r := range h.Records {
		in := r.In
		in.serial = i
		end := r.Return
		if r.Out.Unknown {
			end = never
		}
		in.from, in.until = r.Call-inexactness, end
		if end != never {
			in.until += inexactness
		}
		if h.Lags && !in.Verb.changes() {
			in.from = -inexactness
		}
		if h.Timeless {
			in.from, in.until, in.timeless = -inexactness, never, true
		}
		in.jumps, in.takesBack = h.Jumps, h.TakesBack
		if in.Verb == recovery {
			in.epochs = epochs
		}
		if in.Verb == trigger {
			in.ids = all
			if h.TakesBack {
				in.ids = given
			}
		}
		if in.Verb == trigger && r.Out.Unknown {
			in.made = slices.Concat(h.named(in.Name), ghosts)
		}
		if in.Verb == cleanup || in.Verb == ack || in.Verb == complete {
			in.lent = h.lentAt(end, all)
		}
		operations = append(operations, porcupine.Operation{ClientId: r.Client, Input: in, Call: r.Call, Output: r.Out, Return: end})
	}
	return operations
}

// ids are those that triggers were told of, and those that others saw.
func (h *history) ids() (given, seen []int64) {
	for _, r := range h.Records {
		deleted := r.In.Verb == trigger && r.Out.Code == targetDeleted(keyed{}).Code
		if r.Out.Unknown || r.Out.Code != "" && !deleted {
			continue
		}
		switch r.In.Verb {
		case trigger:
			given = append(given, r.Out.ID)
		case latest, recovery, restore:
			seen = append(seen, r.Out.ID)
		case cleanup, list:
			seen = append(seen, idsIn(r.Out.Text)...)
		default: // names the id that it was asked about
		}
	}
	for _, ids := range []*[]int64{&given, &seen} {
		slices.Sort(*ids)
		*ids = slices.DeleteFunc(slices.Compact(*ids), func(id int64) bool { return id < 0 })
	}
	return given, seen
}

// epochs are those that recoveries and triggers were told of.
func (h *history) epochs() []int64 {
	var told []int64
	for _, r := range h.Records {
		if (r.In.Verb == recovery || r.In.Verb == trigger) && !r.Out.Unknown && r.Out.Code == "" {
			told = append(told, r.Out.Epoch)
		}
	}
	slices.Sort(told)
	return slices.Compact(told)
}

// idsIn are the ids that a text of the model names: those of rows, or what was deleted.
func idsIn(text string) []int64 {
	var ids []int64
	for row := range strings.FieldsSeq(text) {
		var id, epoch int64
		if n, _ := fmt.Sscanf(row, "%d:%d:", &id, &epoch); n == 2 {
			ids = append(ids, id)
		}
	}
	if deleted, is := strings.CutPrefix(text, "deleted ["); is {
		deleted, _, _ = strings.Cut(deleted, "]")
		for word := range strings.FieldsSeq(deleted) {
			id, err := strconv.ParseInt(word, 10, 64)
			if err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// named are the ids that a trigger with this Idempotency-Key was told.
func (h *history) named(name string) []int64 {
	var ids []int64
	for _, r := range h.Records {
		told := !r.Out.Unknown && (r.Out.Code == "" || r.Out.Code == targetDeleted(keyed{}).Code)
		if name != "" && r.In.Verb == trigger && r.In.Name == name && told {
			ids = append(ids, r.Out.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// lentAt are the checkpoints that a restore may hold then: one that broke off holds for a minute.
func (h *history) lentAt(end int64, all []int64) []int64 {
	var lent []int64
	for _, l := range h.Lent {
		switch {
		case l.Call > end:
		case l.ID == newest:
			return all
		default:
			lent = append(lent, l.ID)
		}
	}
	return lent
}

// The verdicts. What could not be judged in time is neither a pass nor a violation.
const (
	legal   = porcupine.Ok
	illegal = porcupine.Illegal
	unclear = porcupine.Unknown
)

// How long the search for an order may take. It uses whole processors, and what it does not find in
// the first seconds it seldom finds in a minute: only a siege that was asked for waits so long.
const (
	judgedWithin = time.Minute
	judgedSoon   = 5 * time.Second
)

// judge looks for a legal order.
func (h *history) judge(within time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(model(h.Keep), h.operations(), within)
}

// conclude judges the history within a time. One without a legal order fails the test and is kept with its
// picture, unless violations are what the test is after.
func (h *history) conclude(t *testing.T, tally *tally, within time.Duration, keep bool) {
	t.Helper()
	verdict, info := h.judge(within)
	tally.verdict(verdict)
	if verdict == legal || !keep {
		return
	}
	folder := h.keep(t, info)
	if verdict == unclear {
		t.Logf("%s was not judged within %s, which is no pass: %s", h.Job, within, folder)
		return
	}
	t.Errorf("%s has no legal order; its picture and all calls are in %s\n%s", h.Job, folder, h.explain(info))
}

// keep writes the history and its picture into a new folder and gives that.
func (h *history) keep(t *testing.T, info porcupine.LinearizationInfo) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "checkpointd-torture-"+h.Job+"-") //nolint:usetesting // It outlives the test.
	if err != nil {
		t.Error(err)
		return ""
	}
	raw, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "history.json"), raw, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	var faults []porcupine.Annotation
	for _, f := range h.Faults {
		faults = append(faults, porcupine.Annotation{Tag: "faults", Start: f.Begin, End: f.End, Description: f.What})
	}
	info.AddAnnotations(faults)
	if err := porcupine.VisualizePath(model(h.Keep), info, filepath.Join(folder, "history.html")); err != nil {
		t.Error(err)
	}
	return folder
}

// load reads a history that was kept.
func load(t *testing.T, path string) *history {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := new(history)
	if err := json.Unmarshal(raw, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// explain tells where the search got stuck: the end of the longest order that it found, the
// state after it, and the calls that had returned by then and find no place.
func (h *history) explain(info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	m := model(h.Keep)
	state := m.Init()
	var s strings.Builder
	placed := map[string]bool{}
	for i, op := range longest {
		_, state = m.Step(state, op.Input, op.Output)
		placed[fmt.Sprint(op.ClientId, op.Call)] = true
		if i >= len(longest)-12 {
			fmt.Fprintf(&s, "  %s\n", told(op))
		}
	}
	fmt.Fprintf(&s, "then the job is %s\nand there is no place for\n", m.DescribeState(state))
	left := slices.DeleteFunc(h.operations(), func(op porcupine.Operation) bool { return placed[fmt.Sprint(op.ClientId, op.Call)] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, op := range left[:min(8, len(left))] {
		fmt.Fprintf(&s, "  %s\n", told(op))
	}
	return s.String()
}

// told is an operation as text, its times in ms.
func told(op porcupine.Operation) string {
	end := fmt.Sprintf("%.1f", float64(op.Return)/1e6)
	if op.Return == never {
		end = "…"
	}
	return fmt.Sprintf("[%.1f–%s] %d: %v → %v", float64(op.Call)/1e6, end, op.ClientId, op.Input, op.Output)
}
