package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newSink is one with batches that were prepared under these IDs, each holding its ID.
func newSink(t *testing.T, ids ...int64) *sink {
	t.Helper()
	s, err := openSink(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := s.prepare(id, []byte{byte('0' + id), '\n'}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *sink) shows(t *testing.T, want string, wantWaiting int) {
	t.Helper()
	got, waiting, err := output(s.folder)
	if err != nil || string(got) != want || waiting != wantWaiting {
		t.Errorf("the sink shows %q and %d batches wait (%v), want %q and %d", got, waiting, err, want, wantWaiting)
	}
}

func TestWhatIsPreparedIsShownOnceItsCheckpointOrALaterOneHasCompleted(t *testing.T) {
	t.Parallel()
	s := newSink(t, 1, 2, 4)
	s.shows(t, "", 3)
	if _, err := s.commit(3); err != nil { // 1 was aborted, or its end was never heard of
		t.Fatal(err)
	}
	s.shows(t, "1\n2\n", 1)
	if _, err := s.commit(4); err != nil {
		t.Fatal(err)
	}
	s.shows(t, "1\n2\n4\n", 0)
}

func TestARestoreCommitsWhatIsInItsCheckpointAndRollsTheRestBack(t *testing.T) {
	t.Parallel()
	s := newSink(t, 1, 2, 3, 9)
	done, undone, err := s.settle(2)
	if err != nil || done != 2 || undone != 2 {
		t.Errorf("%d batches were committed and %d rolled back (%v)", done, undone, err)
	}
	s.shows(t, "1\n2\n", 0)
}

func TestASinkRefusesAStateThatIsBehindIt(t *testing.T) {
	t.Parallel()
	s := newSink(t, 1, 2)
	if _, err := s.commit(2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.settle(1); err == nil || !strings.Contains(err.Error(), "has committed checkpoint 2, but the state is that of 1") {
		t.Errorf("it says %v", err)
	}
}

func TestACutTakesWhatWasWrittenSinceTheLastOne(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	s.write("a\n")
	s.write("b\n")
	first := s.cut()
	s.write("c\n")
	if diff := cmp.Diff([]string{"a\nb\n", "c\n", ""}, []string{string(first), string(s.cut()), string(s.cut())}); diff != "" {
		t.Error(diff)
	}
}
