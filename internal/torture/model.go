package torture

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// verb is what a client asked for.
type verb string

const (
	trigger  verb = "trigger"
	ack      verb = "ack"
	upload   verb = "upload"
	complete verb = "complete"
	abort    verb = "abort"
	extend   verb = "extend"
	remove   verb = "delete"
	pin      verb = "pin"
	unpin    verb = "unpin"
	cleanup  verb = "cleanup"
	recovery verb = "recover"
	put      verb = "put"    // one entry of the shared state
	create   verb = "create" // one entry, unless there is one
	patch    verb = "patch"  // two entries at once
	erase    verb = "erase"  // one entry
	get      verb = "get"
	latest   verb = "latest"
	list     verb = "list"
	shared   verb = "shared"
	restore  verb = "restore"
)

// changes tells whether the verb is more than a read.
func (v verb) changes() bool {
	return !slices.Contains([]verb{get, latest, list, shared, restore}, v)
}

// newest is the id of a restore of the latest completed checkpoint.
const newest int64 = -1

// input is one call. Every member is set only for the verbs that have it.
type input struct {
	Verb verb   `json:"verb"`
	ID   int64  `json:"id"`
	Task string `json:"task,omitempty"`
	// Value is what an acknowledgement, an upload or a write of shared state hands in.
	Value string `json:"value,omitempty"`
	Key   string `json:"key,omitempty"`
	// Name is the Idempotency-Key.
	Name string `json:"name,omitempty"`
	// TimeoutMs is that of a trigger or an extension, 0 for never.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Epoch is what an acknowledgement names, -1 for none.
	Epoch int64 `json:"epoch"`
	Keep  int   `json:"keep,omitempty"`
	Force bool  `json:"force,omitempty"`

	// What follows is known when the history is complete, and filled in by [history.operations].
	serial      int     // its place in the history
	from, until int64   // when the store may have acted, in ns
	timeless    bool    // the store's clock was set meanwhile
	jumps       bool    // the store may pass epochs over, see [jump]
	takesBack   bool    // what a read showed may be taken back, see [history]
	epochs      []int64 // those that anybody was told of, where that makes a difference
	made        []int64 // ids that this trigger may have given without an answer
	ids         []int64 // all that anybody was told of
	lent        []int64 // checkpoints that a restore may hold at that time
}

// output is an answer. A refusal has only its code; an unknown one nothing else.
type output struct {
	Unknown bool   `json:"unknown,omitempty"`
	Code    string `json:"code,omitempty"`
	ID      int64  `json:"id"`
	Epoch   int64  `json:"epoch"`
	Status  string `json:"status,omitempty"`
	Acks    int    `json:"acks"`
	// Again is a duplicate, a repeated Idempotency-Key, or an entry that was there before.
	Again bool `json:"again,omitempty"`
	// Text is what was read: acknowledgements, shared state, restore bytes, rows of a list,
	// what a cleanup did.
	Text string `json:"text,omitempty"`
}

// allows tells whether what a client heard is the answer that the model gives.
func (o output) allows(answer output) bool { return o.Unknown || o == answer }

// refused is a refusal.
func refused(code string) output { return output{Code: code} }

func (in input) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s", in.Verb)
	switch in.Verb {
	case trigger, recovery, latest, list:
	case cleanup:
		fmt.Fprintf(&s, " keep=%d", in.Keep)
	default:
		fmt.Fprintf(&s, " %d", in.ID)
	}
	for _, word := range []string{in.Task, in.Key, in.Value} {
		if word != "" {
			fmt.Fprintf(&s, " %s", word)
		}
	}
	if in.Name != "" {
		fmt.Fprintf(&s, " key=%s", in.Name)
	}
	if in.TimeoutMs > 0 {
		fmt.Fprintf(&s, " %dms", in.TimeoutMs)
	}
	if in.Verb == ack && in.Epoch >= 0 {
		fmt.Fprintf(&s, " epoch=%d", in.Epoch)
	}
	if in.Force {
		s.WriteString(" force")
	}
	return s.String()
}

func (o output) String() string {
	switch {
	case o.Unknown:
		return "?"
	case o.Code != "":
		return o.Code
	}
	s := fmt.Sprintf("%d e%d %s %d acks", o.ID, o.Epoch, o.Status, o.Acks)
	if o.Again {
		s += " again"
	}
	if o.Text != "" {
		s += " " + o.Text
	}
	return s
}

// model is a job for porcupine. Where keep is above 0 retention leaves that many
// completed checkpoints.
func model(keep int) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{job{keep: keep}.sealed()} },
		Step: func(state, in, out any) []any {
			next := state.(job).step(in.(input), out.(output)) //nolint:forcetypeassert // Histories hold nothing else.
			states := make([]any, len(next))
			for i, j := range next {
				states[i] = j
			}
			return states
		},
		Equal:             func(a, b any) bool { return a.(job).equal(b.(job)) }, //nolint:forcetypeassert // As above.
		Hash:              func(state any) uint64 { return state.(job).sum },     //nolint:forcetypeassert // As above.
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
		DescribeState:     func(state any) string { return state.(job).String() }, //nolint:forcetypeassert // As above.
	}
	return nondeterministic.ToModel()
}

// never is a time that does not come.
const never int64 = math.MaxInt64

// after is a time so many milliseconds later.
func after(t, ms int64) int64 {
	if t > never-ms*1e6 {
		return never
	}
	return t + ms*1e6
}

// jump is how many epochs and ids Redis passes over when it is another run than the one that
// gave the last: what that one gave, and lost, is not given again.
const jump = 1000

// mostAttempts is more often than a server makes a call of the store within a request's budget.
const mostAttempts = 10

// required is how many acknowledgements every checkpoint of a history needs.
const required = 2

// The statuses of the contract, and one of the model's own.
const (
	pending   = "pending"
	completed = "completed"
	expired   = "expired"
	aborted   = "aborted"
	// ended is expired or aborted: a recovery took it at about its deadline, and nobody has
	// looked since.
	ended = "ended"
)

// pair is an entry of a small sorted map.
type pair struct{ key, value string }

// find gives the value of a key.
func find(pairs []pair, key string) (string, bool) {
	for _, p := range pairs {
		if p.key == key {
			return p.value, true
		}
	}
	return "", false
}

// with gives the map after a change.
func with(pairs []pair, key, value string) []pair {
	return slices.SortedFunc(slices.Values(append(without(pairs, key), pair{key, value})),
		func(a, b pair) int { return strings.Compare(a.key, b.key) })
}

func without(pairs []pair, key string) []pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return p.key == key })
}

// cut is a checkpoint as the model knows it. It is never changed, like all of the state.
type cut struct {
	id, epoch int64
	status    string
	// Its deadline is between these two, both never for one that has none.
	earliest, latest int64
	acks             []pair // task → part
	uploaded         []pair // task → part
	shared           []pair
	pinned           bool
	held             bool // by a recovery, for longer than any history takes
	doomed           bool // it may go any time, or be gone: retention waits for a restore to end
}

func (c *cut) equal(d *cut) bool {
	return c == d || c.id == d.id && c.epoch == d.epoch && c.status == d.status && c.earliest == d.earliest && c.latest == d.latest &&
		c.pinned == d.pinned && c.held == d.held && c.doomed == d.doomed &&
		slices.Equal(c.acks, d.acks) && slices.Equal(c.uploaded, d.uploaded) && slices.Equal(c.shared, d.shared)
}

// over tells whether it has ended uncompleted.
func (c *cut) over() bool { return c.status == expired || c.status == aborted || c.status == ended }

// keyed is what an Idempotency-Key stands for.
type keyed struct {
	verb      verb
	name      string
	id, epoch int64
}

// job is the model's state. It is never changed: each step makes a new one.
type job struct {
	keep        int
	next, epoch int64
	cuts        []*cut // by id
	keys        []keyed
	// open are calls without an answer that may happen yet.
	open []*input
	sum  uint64 // see sealed
}

func (j job) equal(k job) bool {
	return j.sum == k.sum && j.next == k.next && j.epoch == k.epoch && slices.EqualFunc(j.cuts, k.cuts, (*cut).equal) && slices.Equal(j.keys, k.keys) &&
		slices.EqualFunc(j.open, k.open, func(a, b *input) bool { return a.serial == b.serial })
}

// sealed gives the job with its checksum, by which most that differ do so at once.
func (j job) sealed() job {
	sum := fnv.New64a()
	word := func(numbers ...int64) {
		for _, n := range numbers {
			_ = binary.Write(sum, binary.LittleEndian, n)
		}
	}
	word(j.next, j.epoch, int64(len(j.keys)))
	for _, in := range j.open {
		word(int64(in.serial))
	}
	for _, c := range j.cuts {
		word(c.id, int64(len(c.status)), c.earliest, c.latest, int64(len(c.uploaded)))
		for _, p := range slices.Concat(c.acks, c.uploaded, c.shared) {
			_, _ = io.WriteString(sum, p.key+"="+p.value+" ")
		}
	}
	j.sum = sum.Sum64()
	return j
}

func (j job) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "next %d, epoch %d, %d calls open", j.next, j.epoch, len(j.open))
	for _, c := range j.cuts {
		fmt.Fprintf(&s, "; %d %s acks %v uploaded %v shared %v", c.id, c.status, c.acks, c.uploaded, c.shared)
		for _, mark := range []struct {
			word string
			on   bool
		}{{" pinned", c.pinned}, {" held", c.held}, {" doomed", c.doomed}} {
			if mark.on {
				s.WriteString(mark.word)
			}
		}
	}
	return s.String()
}

// find gives a checkpoint, or nil.
func (j job) find(id int64) *cut {
	for _, c := range j.cuts {
		if c.id == id {
			return c
		}
	}
	return nil
}

// with gives the job after one checkpoint came or changed.
func (j job) with(c cut) job {
	at, there := slices.BinarySearchFunc(j.cuts, c.id, func(c *cut, id int64) int { return int(c.id - id) })
	j.cuts = slices.Clone(j.cuts)
	if there {
		j.cuts[at] = &c
	} else {
		j.cuts = slices.Insert(j.cuts, at, &c)
	}
	return j
}

// without gives the job after a checkpoint went.
func (j job) without(id int64) job {
	j.cuts = slices.DeleteFunc(slices.Clone(j.cuts), func(c *cut) bool { return c.id == id })
	return j
}

// key finds what an Idempotency-Key stands for.
func (j job) key(v verb, name string) (keyed, bool) {
	for _, k := range j.keys {
		if k.verb == v && k.name == name && name != "" {
			return k, true
		}
	}
	return keyed{}, false
}

// naming gives the job after it has learned a key.
func (j job) naming(k keyed) job {
	if k.name != "" {
		j.keys = append(slices.Clip(j.keys), k)
		slices.SortFunc(j.keys, func(a, b keyed) int { return strings.Compare(string(a.verb)+a.name, string(b.verb)+b.name) })
	}
	return j
}
