package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/worker"
)

func TestATallyComesBackAsItWasHandedIn(t *testing.T) {
	t.Parallel()
	want := newTally()
	if got := want.add("p00", "to be or\n") + want.add("p00", "not to be\n"); got != "p00 line 1 has 3 words of 3\np00 line 2 has 3 words of 6\n" {
		t.Errorf("the records are %q", got)
	}
	handedIn := entries(map[string]*tally{"p00": want.clone()})
	want.clone().add("p00", "another\n") // which changes a clone only
	got := newTally()
	for entry, err := range handedIn {
		if err != nil || partitionOf(entry.Key) != "p00" {
			t.Errorf("%+v, %v", entry, err)
		}
		if err := got.put(entry); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tally{}, place{})); diff != "" {
		t.Error(diff)
	}
}

func TestATallyRefusesWhatItDidNotHandIn(t *testing.T) {
	t.Parallel()
	for _, entry := range []worker.Entry{
		{Key: "p00/word/be", Value: []byte("1")}, // comes twice
		{Key: "p00/word/or", Value: []byte(`"x"`)},
		{Key: "p00/place", Value: []byte("[]")},
		{Key: "p00", Value: []byte("1")},
	} {
		got := newTally()
		got.counts["be"] = 1
		if err := got.put(entry); err == nil {
			t.Errorf("%s is taken", entry.Key)
		}
	}
}
