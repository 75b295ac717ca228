package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// seedRecord is a checkpoint as the seed library writes it through JsonJacksonCodec. state are
// the members of its map; version "" leaves the field out, as the library did at first.
func seedRecord(id int64, completed bool, version string, timestamp int64, state string) string {
	const class = "io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint"
	if version != "" {
		version = `"snapshotVersion":` + version + `,`
	}
	if state != "" {
		state = "," + state
	}
	return fmt.Sprintf(`{"@class":"%s","checkpointId":%d,"completed":%t,%s"stateSnapshot":{"@class":"%s$StateSnapshotImpl",`+
		`"stateMap":{"@class":"java.util.HashMap"%s}},"timestamp":%d}`, class, id, completed, version, class, state, timestamp)
}

// seedState has one value of each kind, and seedLines the restore bytes of it.
const (
	seedState = `"offsets":{"@class":"java.util.HashMap","0":["java.lang.Long",11],"1":["java.lang.Long",9007199254740993]},` +
		`"blob":["[B","AQID"],"count":1000,"ratio":1.50,"when":["java.util.Date",1700000000000],` +
		`"nested":{"@class":"java.util.LinkedHashMap","a":{"@class":"java.util.TreeMap","b":["java.util.ArrayList",["x",2,["java.lang.Long",3]]]}},` +
		`"price":["java.math.BigDecimal",12.3400],"id":["java.util.UUID","6ba7b810-9dad-11d1-80b4-00c04fd430c8"],"color":["com.acme.Color","RED"],"ключ":null`
	seedLines = `{"key":"blob","value":"AQID"}
{"key":"color","value":"RED"}
{"key":"count","value":1000}
{"key":"id","value":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
{"key":"nested","value":{"a":{"b":["x",2,3]}}}
{"key":"offsets","value":{"0":11,"1":9007199254740993}}
{"key":"price","value":12.3400}
{"key":"ratio","value":1.50}
{"key":"when","value":1700000000000}
{"key":"ключ","value":null}
`
	seedTime = labTime - 3_600_000
	// seedKryo is how Redisson's default codec begins a record.
	seedKryo = "\x01\x00io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoin\xf4\x01\x12\x00"
)

// seedLab is a Redis in which the seed library has been at work.
func seedLab(t *testing.T) (l *lab, written map[string]string) {
	t.Helper()
	l = newLab(t, coordinator.DefaultJob)
	written = map[string]string{
		"3":   seedRecord(3, true, "", seedTime, seedState),
		"5":   seedRecord(5, false, "1", seedTime+5, `"a":1`),
		"7":   seedRecord(7, true, "1", seedTime+7, seedState),
		"8":   seedRecord(8, true, "9", seedTime+8, ""),
		"39":  seedRecord(39, false, "1", labTime-10, `"a":1`),
		"41":  seedKryo,
		"007": seedRecord(7, true, "1", seedTime, `"other":1`),
		"50":  "a text of another program",
		"60x": seedRecord(60, true, "1", seedTime, ""),
	}
	for name, value := range written {
		l.do("SET", l.keys.base+name, value)
	}
	l.do("RPUSH", l.keys.record(61), "a list of another program")
	return l, written
}

// adopt adopts, and gives the report by id.
func (l *lab) adopt(s *Store, takeOver bool) map[int64]Adoption {
	l.Helper()
	report := map[int64]Adoption{}
	l.ok(s.Adopt(l.Context(), AdoptCall{TimeoutMs: 60_000, TakeOver: takeOver, Report: func(a Adoption) { report[a.ID] = a }}))
	return report
}

// restored reads all of a checkpoint back.
func (l *lab) restored(s *Store, id int64) string {
	l.Helper()
	source, err := s.OpenRestore(l.Context(), coordinator.RestoreCall{Ref: l.ref(id)})
	l.ok(err)
	var all strings.Builder
	for number, part := range source.Parts() {
		p := make([]byte, part.Bytes)
		n, err := source.ReadAt(l.Context(), number, p, 0)
		l.ok(err)
		all.Write(p[:n])
	}
	l.ok(source.Close())
	return all.String()
}

func TestRecordsOfTheSeedLibraryAreAdopted(t *testing.T) {
	t.Parallel()
	l, written := seedLab(t)
	s := l.store()

	report := l.adopt(s, false)
	completed := Adoption{Outcome: Adopted, Status: coordinator.StatusCompleted, Entries: 10, Bytes: int64(len(seedLines))}
	later := completed
	later.Version = 1
	want := map[int64]Adoption{
		3: completed, 7: later, 8: {Outcome: Adopted, Status: coordinator.StatusCompleted, Version: 9},
		5: {Outcome: Adopted, Status: coordinator.StatusExpired, Version: 1}, 39: {Outcome: LeftPending},
		41: {Outcome: NotAdopted, Code: "kryo_encoded"}, 50: {Outcome: NotAdopted, Code: "unknown_encoding"},
	}
	for id, adoption := range want {
		adoption.ID = id
		want[id] = adoption
	}
	if report[41].Detail == "" || report[50].Detail == "" {
		t.Errorf("nothing says why: %v", report)
	}
	undetailed := maps.Clone(report)
	for id, adoption := range undetailed {
		adoption.Detail = ""
		undetailed[id] = adoption
	}
	if diff := cmp.Diff(want, undetailed); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}

	list, err := s.List(t.Context(), coordinator.ListCall{Job: l.job, Before: -1, Limit: 10})
	l.ok(err)
	var ids []int64
	for _, cp := range list.Checkpoints {
		ids = append(ids, cp.ID)
		if !cp.Pinned || cp.Description == "" {
			t.Errorf("checkpoint %d: pinned %t, description %q", cp.ID, cp.Pinned, cp.Description)
		}
	}
	l.same("the list", ids, []int64{8, 7, 5, 3})
	got, err := s.Get(t.Context(), l.ref(3))
	l.ok(err)
	l.same("the record", got.Checkpoint, coordinator.Checkpoint{
		Job: l.job, ID: 3, Status: coordinator.StatusCompleted, Revision: 1, Timestamp: seedTime, Start: seedTime, TimeoutMs: 60_000,
		RequiredTaskAcks: 1, EndedAt: seedTime, Pinned: true, Description: adoptedText, Entries: 10, Bytes: int64(len(seedLines)),
		SharedEntries: 10, SharedBytes: int64(len(seedLines)), ObservedAt: labTime,
	})
	expired, err := s.List(t.Context(), coordinator.ListCall{Job: l.job, Before: -1, Limit: 10, Status: coordinator.StatusExpired})
	l.ok(err)
	if len(expired.Checkpoints) != 1 || expired.Checkpoints[0].Failure == nil || expired.Checkpoints[0].EndedAt != seedTime+5+60_000 {
		t.Errorf("expired: %+v", expired.Checkpoints)
	}

	for _, id := range []int64{3, 7} {
		l.same("what is restored", l.restored(s, id), seedLines)
	}
	_, err = s.OpenRestore(t.Context(), coordinator.RestoreCall{Ref: l.ref(8)})
	l.refused(err, coordinator.CodeUnsupportedVersion)
	latest, err := s.Get(t.Context(), l.ref(coordinator.Latest))
	l.ok(err)
	l.same("the latest, which passes over a version that nobody reads", latest.ID, int64(7))
	value, err := s.SharedEntry(t.Context(), l.ref(7), "offsets")
	l.ok(err)
	l.same("one value", string(value.Value), `{"0":11,"1":9007199254740993}`)
	_, err = s.SharedState(t.Context(), l.ref(5))
	l.refused(err, coordinator.CodeCheckpointExpired)
	_, err = s.Get(t.Context(), l.ref(41))
	l.refused(err, coordinator.CodeCheckpointDeleted)

	next := trigger(t, s)
	l.same("the next id", next.ID, int64(42))
	for name, value := range written {
		l.same("the value of "+name, l.redis.Get(t.Context(), l.keys.base+name).Val(), value)
	}
}

func TestAdoptingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	l, _ := seedLab(t)
	s := l.store()
	l.adopt(s, false)
	l.unchanged(func() {
		for id, adoption := range l.adopt(s, false) {
			want := map[int64]Outcome{39: LeftPending, 41: NotAdopted, 50: NotAdopted}[id]
			if want == "" {
				want = AdoptedBefore
			}
			l.same(fmt.Sprintf("the outcome of %d", id), adoption.Outcome, want)
		}
	})

	// What the library goes on to do shows, and is taken where it changes nothing that was there.
	l.do("SET", l.keys.record(39), seedRecord(39, true, "1", labTime-10, `"a":1`))
	l.do("SET", l.keys.record(7), seedRecord(7, true, "1", seedTime, `"a":1`))
	report := l.adopt(s, false)
	l.same("what has completed since", report[39].Outcome, Adopted)
	l.same("what has changed since", report[7].Code, CodeChanged)
	l.same("what is restored of 7", l.restored(s, 7), seedLines)
	l.same("what is restored of 39", l.restored(s, 39), "{\"key\":\"a\",\"value\":1}\n")
}

func TestServersThatAdoptAtOnceAdoptEachRecordOnce(t *testing.T) {
	t.Parallel()
	l, _ := seedLab(t)
	adopted := make(chan int64, 100)
	done := make(chan error)
	const servers = 4
	for range servers {
		s := l.store()
		go func() {
			done <- s.Adopt(context.WithoutCancel(t.Context()), AdoptCall{TimeoutMs: 60_000, Report: func(a Adoption) {
				if a.Outcome == Adopted {
					adopted <- a.ID
				}
			}})
		}()
	}
	for range servers {
		l.ok(<-done)
	}
	close(adopted)
	var ids []int64
	for id := range adopted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	l.same("what was adopted", ids, []int64{3, 5, 7, 8})
	l.same("events", l.redis.XLen(t.Context(), l.keys.events()).Val(), int64(4))
	l.same("what is restored", l.restored(l.store(), 7), seedLines)
}

func TestRetentionLeavesWhatWasAdopted(t *testing.T) {
	t.Parallel()
	l, written := seedLab(t)
	s := l.store()
	l.adopt(s, false)
	for range 3 {
		cp := trigger(t, s)
		_, err := s.Complete(t.Context(), coordinator.CompleteCall{Job: l.job, ID: cp.ID, Force: true, Retention: coordinator.Retention{Keep: 1, MaxAgeMs: 1}})
		l.ok(err)
	}
	_, err := s.Cleanup(t.Context(), coordinator.CleanupCall{Job: l.job, Keep: 0, Max: 100})
	l.ok(err)
	l.ok(s.Sweep(t.Context(), coordinator.SweepCall{Retention: coordinator.Retention{Keep: 1, MaxAgeMs: 1}}))
	l.same("what is restored", l.restored(s, 7), seedLines)
	l.same("the record of the library", l.redis.Get(t.Context(), l.keys.record(7)).Val(), written["7"])
}

func TestWhoDeletesAnAdoptedCheckpointDeletesTheRecordOfTheLibrary(t *testing.T) {
	t.Parallel()
	l, _ := seedLab(t)
	s := l.store()
	l.adopt(s, false)
	l.refused(s.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: 7}), coordinator.CodePinned)
	for _, id := range []int64{3, 5, 7} {
		l.ok(s.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: id, Force: true}))
	}
	// Unpinned, one goes as any other.
	_, err := s.Update(t.Context(), coordinator.UpdateCall{Job: l.job, ID: 8, Pinned: new(false)})
	l.ok(err)
	_, err = s.Cleanup(t.Context(), coordinator.CleanupCall{Job: l.job, Keep: 0, Max: 100})
	l.ok(err)
	for _, id := range []int64{3, 5, 7, 8} {
		for _, key := range []string{l.keys.record(id), l.keys.adopted(id), l.keys.state(id)} {
			if l.exists(key) {
				t.Errorf("%s is still there", key)
			}
		}
		_, err := s.Get(t.Context(), l.ref(id))
		l.refused(err, coordinator.CodeCheckpointDeleted)
	}
	report := l.adopt(s, false)
	l.same("candidates that are left", slices.Sorted(maps.Keys(report)), []int64{39, 41, 50})
}

func TestAnotherValueInPlaceOfWhatWasAdoptedIsNotDeleted(t *testing.T) {
	t.Parallel()
	l, _ := seedLab(t)
	s := l.store()
	l.adopt(s, false)
	l.do("SET", l.keys.record(7), "of another program")
	l.do("DEL", l.keys.record(3))
	l.same("what is restored of one that the library has deleted", l.restored(s, 3), seedLines)
	for _, id := range []int64{3, 7} {
		l.ok(s.Delete(t.Context(), coordinator.DeleteCall{Job: l.job, ID: id, Force: true}))
	}
	l.same("the other value", l.redis.Get(t.Context(), l.keys.record(7)).Val(), "of another program")
}

func TestTakingOverRewritesTheRecords(t *testing.T) {
	t.Parallel()
	l, written := seedLab(t)
	s := l.store()
	l.adopt(s, false)
	digest := "sha256:" + strings.Repeat("0", 64)
	l.ok(s.SaveDigest(t.Context(), l.ref(7), digest))
	before, err := s.Get(t.Context(), l.ref(7))
	l.ok(err)
	l.same("the digest", before.Digest, digest)

	report := l.adopt(s, true)
	for id, adoption := range report {
		l.same(fmt.Sprintf("whether %d was taken over", id), adoption.TakenOver, slices.Contains([]int64{3, 5, 7, 8}, id))
	}
	after, err := s.Get(t.Context(), l.ref(7))
	l.ok(err)
	l.same("the record", after, before)
	l.same("its type", l.redis.Type(t.Context(), l.keys.record(7)).Val(), "hash")
	l.same("what is beside it", l.exists(l.keys.adopted(7)), false)
	l.same("what is restored", l.restored(s, 7), seedLines)
	l.same("what cannot be read", l.redis.Get(t.Context(), l.keys.record(41)).Val(), written["41"])
	l.unchanged(func() {
		if report := l.adopt(s, true); len(report) != 3 {
			t.Errorf("a second time: %v", report)
		}
	})
}

func TestALargeStateOfTheSeedLibraryIsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, coordinator.DefaultJob)
	var members, lines strings.Builder
	const keys = 9000
	for i := range keys {
		fmt.Fprintf(&members, `,"k%05d":["java.lang.Long",%d]`, i, i)
		fmt.Fprintf(&lines, "{\"key\":\"k%05d\",\"value\":%d}\n", i, i)
	}
	l.do("SET", l.keys.record(1), seedRecord(1, true, "1", seedTime, strings.TrimPrefix(members.String(), ",")))
	s := l.store()
	l.adopt(s, false)
	state, err := s.SharedState(t.Context(), l.ref(1))
	l.ok(err)
	l.same("keys", len(state.Entries), keys)
	l.same("what is restored", l.restored(s, 1) == lines.String(), true)
}

func TestAPrefixOfPatternSignsFindsItsOwnRecordsOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, coordinator.DefaultJob)
	prefix := l.server.Prefix + `job[1]*?\:`
	s, err := New(Options{URL: l.server.URL, KeyPrefix: prefix})
	l.ok(err)
	defer func() { l.ok(s.Close()) }()
	l.do("SET", prefix+"7", seedRecord(7, true, "1", seedTime, seedState))
	l.do("SET", l.server.Prefix+`job1xy\:8`, seedRecord(8, true, "1", seedTime, seedState))
	report := l.adopt(s, false)
	l.same("what was found", slices.Sorted(maps.Keys(report)), []int64{7})
	l.same("what is restored", l.restored(s, 7), seedLines)
}

func TestAdoptionRefusesWhatIsNotWhatWasRead(t *testing.T) {
	t.Parallel()
	adopt := func(l *lab, id int64, length int) reply {
		return l.run(adoptScript, decimal(id), length, "1", 1, labTime, 60_000, 10, "", "k", "1")
	}
	t.Run("a value of another length", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, coordinator.DefaultJob)
		l.do("SET", l.keys.record(7), "1234")
		l.unchanged(func() { l.word(adopt(l, 7, 5), "changed") })
	})
	t.Run("a value of another type", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, coordinator.DefaultJob)
		l.record(7, nil)
		l.unchanged(func() { l.word(adopt(l, 7, 5), "changed") })
	})
	t.Run("an id with keys of a checkpoint of ours", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, coordinator.DefaultJob)
		l.do("SET", l.keys.record(7), "1234")
		l.do("HSET", l.keys.acks(7), "a", "x")
		l.unchanged(func() { l.word(adopt(l, 7, 4), "occupied") })
	})
	t.Run("a second run", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, coordinator.DefaultJob)
		l.do("SET", l.keys.record(7), "1234")
		l.word(adopt(l, 7, 4), "ok")
		l.unchanged(func() { l.word(adopt(l, 7, 4), "already") })
	})
	t.Run("taking over another value", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, coordinator.DefaultJob)
		l.unchanged(func() { l.word(l.run(takeOverScript, "7"), "absent") })
		l.do("SET", l.keys.record(7), "1234")
		l.word(adopt(l, 7, 4), "ok")
		l.do("SET", l.keys.record(7), "12345")
		l.unchanged(func() { l.word(l.run(takeOverScript, "7"), "changed") })
		l.do("DEL", l.keys.record(7))
		l.word(l.run(takeOverScript, "7"), "ok")
		l.unchanged(func() { l.word(l.run(takeOverScript, "7"), "absent") })
	})
}

func TestAnIDThatLeavesNoneAboveItIsNotAdopted(t *testing.T) {
	t.Parallel()
	l, _ := seedLab(t)
	for _, id := range []int64{coordinator.MaxTakenCounter, coordinator.MaxID - 1} {
		l.do("SET", l.keys.record(id), seedRecord(id, true, "1", seedTime, ""))
		s := l.store()
		if got := l.adopt(s, true)[id]; got.Outcome != NotAdopted || got.Code != CodeIDTooHigh {
			t.Errorf("%d: %+v", id, got)
		}
		if next := trigger(t, s); next.ID > 100 {
			t.Errorf("the next id is %d", next.ID)
		}
	}
}
