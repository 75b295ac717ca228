// Package storetest is the conformance suite of [coordinator.Store]: every rule of the
// design's semantics is a named test in it, and every store passes all of them.
//
// The suite has four layers, each of which [Run] runs:
//
//   - Rules. One file a noun, one subtest a rule, named so that the list of subtests
//     reads as the specification.
//   - Lockstep. Random sequences of calls go to the store and to a reference, a plain
//     in-memory store of this package that is written from the design alone, and the
//     two must give the same answers and the same refusals. [Lockstep] drives two real
//     stores side by side in the same way.
//   - Races. Two callers meet at one checkpoint, many rounds each, and exactly one of the
//     outcomes that the design allows must come out, the same for everybody.
//   - Leftovers. After each test the clock runs past every lease, the sweeper does its
//     work, and then the storage must hold nothing that no record names.
//
// Where two handles may be open on one storage the suite sends each call to the next of
// them in turn, so that every rule is also a rule about replicas.
package storetest

import (
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Factory makes the storage for one test: fresh, empty, and shared with no other test.
// It registers with t whatever takes the storage away again; the handles that the suite
// opened are closed by then. Factories run in parallel.
type Factory func(t testing.TB) Storage

// Storage is one storage under test, such as a key prefix of a Redis or a folder.
type Storage struct {
	// Open opens a handle as a server process would. The suite opens several in turn
	// (a restart) and, with Replicas, two at a time. It closes each of them.
	Open func(t testing.TB, options Options) coordinator.Store
	// Replicas tells that two handles may be open at a time.
	Replicas bool
	// Leftovers lists what the storage holds and no record, lease or index accounts for,
	// such as parts of checkpoints that are gone; one readable line each. It is called
	// while the handles are open and idle. Records of Idempotency-Keys, names of jobs and
	// counters are not leftovers. Nil checks nothing.
	Leftovers func(t testing.TB) []string
	// Damage falsifies what is stored behind the store's back. It is called while no
	// handle is open. Nil leaves the tests of damage out, which the log tells.
	Damage func(t testing.TB, damage Damage)
	// Spoil makes what is recorded of a checkpoint contradict itself, behind the store's back. It is called while no
	// handle is open. Nil leaves the tests of that out, which the log tells.
	Spoil func(t testing.TB, job string, id int64, kind SpoilKind)
}

// SpoilKind is what of a checkpoint's records is spoiled. The job's indexes stay as they are.
type SpoilKind string

const (
	// RecordGone takes the record away.
	RecordGone SpoilKind = "its record is gone"
	// RecordCut takes a field of the record away that every record has.
	RecordCut SpoilKind = "a field of its record is gone"
	// RecordNewer makes the record one of a later format.
	RecordNewer SpoilKind = "its record has a later format"
	// AckGone takes one acknowledgement out of the list and leaves the count.
	AckGone SpoilKind = "an acknowledgement is gone"
	// TotalChanged makes another number of the bytes of the whole snapshot.
	TotalChanged SpoilKind = "the total is another"
	// SharedChanged makes another value of the same length of a shared entry.
	SharedChanged SpoilKind = "a shared value is another"
)

// Options are what a handle must be opened with.
type Options struct {
	// Clock is the store's only clock, in Unix milliseconds.
	Clock func() int64
	// Observer is told of transitions and deletions.
	Observer coordinator.Observer
}

// Damage names a completed checkpoint, the stored part of a task of it, and what shall
// happen to them.
type Damage struct {
	Job    string
	ID     int64
	TaskID string
	Kind   DamageKind
}

// DamageKind is what becomes of a checkpoint.
type DamageKind int

// LoseLast takes the last stored piece of the part's bytes away (a chunk, a file, a
// value), Cut the last byte only; the records stay as they are. NewerVersion leaves the
// part alone and makes 2 the version of the snapshot in the record.
const (
	LoseLast DamageKind = iota + 1
	Cut
	NewerVersion
)

// Run runs the whole suite, or only the rules about some nouns.
func Run(t *testing.T, factory Factory, nouns ...string) {
	t.Helper()
	s := suite{factory: factory}
	all := groups()
	for _, noun := range nouns {
		if !slices.ContainsFunc(all, func(g group) bool { return g.noun == noun }) {
			t.Fatalf("there are no rules about %q", noun)
		}
	}
	for _, group := range all {
		if len(nouns) > 0 && !slices.Contains(nouns, group.noun) {
			continue
		}
		t.Run(group.noun, func(t *testing.T) {
			t.Parallel()
			group.run(t, s)
		})
	}
}

// group is the rules about one noun.
type group struct {
	noun string
	run  func(*testing.T, suite)
}

func groups() []group {
	return []group{
		// The longest ones begin first, and the others fill the time beside them.
		{"lockstep", testLockstep},
		{"race", testRaces},
		{"ids", testIDs},
		{"trigger", testTrigger},
		{"idempotency", testIdempotency},
		{"repeat", testRepeat},
		{"ack", testAck},
		{"bulk ack", testBulkAck},
		{"upload", testUpload},
		{"complete", testComplete},
		{"abort", testAbort},
		{"extend", testExtend},
		{"update", testUpdate},
		{"timeout", testTimeout},
		{"order of refusals", testRefusalOrder},
		{"shared state", testShared},
		{"restore", testRestore},
		{"damage", testDamage},
		{"set aside", testSetAside},
		{"recover", testRecover},
		{"retention", testRetention},
		{"retention by age", testRetentionByAge},
		{"retention by bytes", testRetentionByBytes},
		{"cleanup", testCleanup},
		{"delete", testDelete},
		{"list", testList},
		{"tasks", testTasks},
		{"jobs", testJobs},
		{"settings", testSettings},
		{"patch job", testPatchJob},
		{"delete job", testDeleteJob},
		{"failures", testFailures},
		{"history", testHistory},
		{"schedule", testSchedule},
		{"rhythm", testRhythm},
		{"minimal pause", testMinPause},
		{"forget task", testForgetTask},
		{"import", testImport},
		{"export", testExport},
		{"events", testEvents},
		{"event log", testEventLog},
		{"listen", testListen},
		{"sweep", testSweep},
	}
}

// suite makes the rig of each test.
type suite struct {
	factory Factory
}

// rule is one test on storage of its own. The sentence says what holds.
func (s suite) rule(t *testing.T, sentence string, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run(sentence, func(t *testing.T) {
		t.Parallel()
		r := newRig(t, s.factory(t))
		body(t, r)
		r.finish()
	})
}
