package api_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
)

func TestAckBodyTellsOneAcknowledgementFromAList(t *testing.T) {
	t.Parallel()
	attempt, epoch, digest := int64(3), int64(0), "sha256:00"
	for name, test := range map[string]struct {
		text string
		want api.AckBody
	}{
		"one": {
			`{"taskId":"task-1","attempt":3,"epoch":0,"state":{"b":1.0,"a":1e0},"digest":"sha256:00"}`,
			api.AckBody{TaskID: "task-1", Attempt: &attempt, Epoch: &epoch, State: json.RawMessage(`{"b":1.0,"a":1e0}`), Digest: &digest},
		},
		"a list":        {`{"acks":[{"taskId":"task-1"}]}`, api.AckBody{Acks: []api.AckRequest{{TaskID: "task-1"}}}},
		"an empty list": {`{"acks":[]}`, api.AckBody{Acks: []api.AckRequest{}}},
		"null state":    {`{"taskId":"task-1","state":null}`, api.AckBody{TaskID: "task-1", State: json.RawMessage("null")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got api.AckBody
			if err := json.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			back, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(back) != test.text {
				t.Errorf("encoded %s, want %s", back, test.text)
			}
		})
	}
}

func TestOneAcknowledgementOfABodyHasAllItsMembers(t *testing.T) {
	t.Parallel()
	const text = `{"taskId":"task-1","attempt":3,"epoch":0,"state":{},"digest":"sha256:00"}`
	var body api.AckBody
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(body.One())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("One is %s, want %s", got, text)
	}
}

func TestAckAnswerIsExactlyOneOfItsForms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer api.AckAnswer
		text   string
	}{
		"single": {
			api.AckAnswer{Single: &api.AckResult{CheckpointID: 7, Status: api.CheckpointStatusPending, AcknowledgedTasks: 2, RequiredTaskAcks: 3}},
			`{"checkpointId":7,"status":"pending","acknowledgedTasks":2,"requiredTaskAcks":3,"duplicate":false}`,
		},
		"bulk": {
			api.AckAnswer{Bulk: &api.BulkAckResult{CheckpointID: 7, Status: api.CheckpointStatusPending, AcknowledgedTasks: 2, RequiredTaskAcks: 3, Results: []api.BulkAckItem{}}},
			`{"checkpointId":7,"status":"pending","acknowledgedTasks":2,"requiredTaskAcks":3,"results":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(test.answer)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != test.text {
				t.Errorf("encoded %s, want %s", text, test.text)
			}
			var back api.AckAnswer
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.answer, back); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
	for name, answer := range map[string]api.AckAnswer{
		"neither": {},
		"both":    {Single: &api.AckResult{}, Bulk: &api.BulkAckResult{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text, err := json.Marshal(answer); err == nil {
				t.Errorf("encoded %s, want an error", text)
			}
		})
	}
}
