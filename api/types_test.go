package api_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
)

func TestIDTakesOneSpellingOfEachNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.ID{"0": 0, "7": 7, "9007199254740991": 1<<53 - 1} {
		var got api.ID
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
		if back, err := got.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%d is written %q, %v; want %q", got, back, err, text)
		}
	}
	for _, text := range []string{"", "-1", "-0", "+7", "007", "00", " 7", "7 ", "7.0", "1e3", "0x7", "٧", "9007199254740992", "99999999999999999999", "latest"} {
		id := api.ID(42)
		if err := id.UnmarshalText([]byte(text)); err == nil || id != 42 {
			t.Errorf("%q is taken as %d (%v)", text, id, err)
		}
	}
}

func TestUpdateTellsAbsentFromNull(t *testing.T) {
	t.Parallel()
	text := "kept"
	for body, want := range map[string]api.CheckpointUpdate{
		`{}`:                                  {},
		`{"description":null}`:                {Description: api.NullableString{Present: true}},
		`{"labels":{},"description":"kept"}`:  {Description: api.NullableString{Present: true, Value: &text}, Labels: &api.Labels{}},
		`{"labels":{"a":"b"},"pinned":false}`: {Labels: &api.Labels{"a": "b"}, Pinned: new(bool)},
	} {
		var got api.CheckpointUpdate
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s decoded (-want +got):\n%s", body, diff)
		}
		back, err := json.Marshal(got)
		if err != nil || string(back) != body {
			t.Errorf("%s encoded %s, %v", body, back, err)
		}
	}
	var update api.CheckpointUpdate
	if err := json.Unmarshal([]byte(`{"description":7}`), &update); err == nil {
		t.Error("a number is taken as a description")
	}
}

func TestDetailsAreACheckpointAndItsAcks(t *testing.T) {
	t.Parallel()
	plain, err := json.Marshal(api.Checkpoint{CheckpointID: 7, Job: "default"})
	if err != nil {
		t.Fatal(err)
	}
	details, err := json.Marshal(api.CheckpointDetails{Checkpoint: api.Checkpoint{CheckpointID: 7, Job: "default"}, Acks: []api.Ack{}})
	if err != nil {
		t.Fatal(err)
	}
	if want := string(plain[:len(plain)-1]) + `,"acks":[]}`; string(details) != want {
		t.Errorf("details are %s, want %s", details, want)
	}
}

func TestAbsentCheckpointOfARecoveryIsNull(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(api.Recovery{Epoch: 4})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"epoch":4,"checkpoint":null}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
