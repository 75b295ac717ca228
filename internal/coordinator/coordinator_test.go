package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestTriggerRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	store := &scriptedStore{trigger: func(coordinator.TriggerCall) (coordinator.TriggerResult, error) {
		t.Error("a refused trigger reached the store")
		return coordinator.TriggerResult{}, nil
	}}
	c := coordinator.New(store, coordinator.Options{Settings: coordinator.DefaultSettings()})
	many := make([]string, coordinator.MaxTasks+1)
	for i := range many {
		many[i] = fmt.Sprintf("t%d", i)
	}
	for _, tc := range []struct {
		name    string
		request coordinator.TriggerRequest
		code    coordinator.Code
		place   string
	}{
		{"no acknowledgement required", coordinator.TriggerRequest{RequiredTaskAcks: new(int64(0))}, coordinator.CodeInvalidRequest, "/requiredTaskAcks"},
		{"too many acknowledgements required", coordinator.TriggerRequest{RequiredTaskAcks: new(int64(100_001))}, coordinator.CodeInvalidRequest, "/requiredTaskAcks"},
		{"another number than tasks", coordinator.TriggerRequest{RequiredTaskAcks: new(int64(3)), Tasks: []string{"a", "b"}}, coordinator.CodeInvalidRequest, "/requiredTaskAcks"},
		{"empty tasks", coordinator.TriggerRequest{Tasks: []string{}}, coordinator.CodeInvalidRequest, "/tasks"},
		{"a task twice", coordinator.TriggerRequest{Tasks: []string{"a", "b", "a"}}, coordinator.CodeInvalidRequest, "/tasks/2"},
		{"a malformed task", coordinator.TriggerRequest{Tasks: []string{"a", ".."}}, coordinator.CodeInvalidRequest, "/tasks/1"},
		{"too many tasks", coordinator.TriggerRequest{Tasks: many}, coordinator.CodeLimitExceeded, ""},
		{"an endless timeout spelled as a number", coordinator.TriggerRequest{TimeoutMs: new(int64(coordinator.MaxTimeoutMs + 1))}, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"a bad job", coordinator.TriggerRequest{Job: "a/b"}, coordinator.CodeInvalidParameter, "job"},
		{"a bad Idempotency-Key", coordinator.TriggerRequest{IdempotencyKey: new("")}, coordinator.CodeInvalidParameter, "Idempotency-Key"},
		{"an unnamed label", coordinator.TriggerRequest{Labels: map[string]string{"": "x"}}, coordinator.CodeInvalidRequest, "/labels/"},
		{"a novel as description", coordinator.TriggerRequest{Description: strings.Repeat("x", 4097)}, coordinator.CodeTooLarge, "/description"},
	} {
		t.Run(tc.name+" is refused and named", func(t *testing.T) {
			t.Parallel()
			if tc.request.Job == "" {
				tc.request.Job = coordinator.DefaultJob
			}
			_, err := c.Trigger(t.Context(), tc.request)
			var refusal *coordinator.Error
			if !errors.As(err, &refusal) || refusal.Code != tc.code {
				t.Fatalf("got %v, want %s", err, tc.code)
			}
			if tc.place == "" {
				return
			}
			if got := refusal.Fields[0].Pointer + refusal.Fields[0].Parameter; got != tc.place {
				t.Errorf("the refusal points at %q, want %q", got, tc.place)
			}
		})
	}
}

func TestTriggerHandsDefaultsOnAndFingerprintsTheBodyAsSent(t *testing.T) {
	t.Parallel()
	var calls []coordinator.TriggerCall
	store := &scriptedStore{trigger: func(call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
		calls = append(calls, call)
		return coordinator.TriggerResult{Repeated: true}, nil
	}}
	settings := coordinator.DefaultSettings()
	request := coordinator.TriggerRequest{Job: "default", Labels: map[string]string{"b": "2", "a": "1"}, IdempotencyKey: new("k")}
	for _, required := range []int{3, 4} { // another replica may have other flags
		settings.RequiredTaskAcks = required
		if _, err := coordinator.New(store, coordinator.Options{Settings: settings}).Trigger(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if calls[0].RequiredTaskAcks != 0 || calls[0].TimeoutMs != nil || calls[0].Defaults.RequiredTaskAcks != 3 || calls[1].Defaults.RequiredTaskAcks != 4 {
		t.Errorf("what the caller left open is not left to the store: %+v", calls)
	}
	if calls[0].Fingerprint != calls[1].Fingerprint || calls[0].Token == calls[1].Token {
		t.Error("one body must have one fingerprint, and each call a token of its own")
	}
}

func TestBulkAcksOfADeadCheckpointAreOneProblem(t *testing.T) {
	t.Parallel()
	refusal := coordinator.ErrEnded(4, coordinator.StatusExpired).WithNextSteps(new(int64(5)), nil)
	store := &scriptedStore{ack: func(call coordinator.AckCall) (coordinator.AckResult, error) {
		result := coordinator.AckResult{Status: coordinator.StatusExpired}
		for i, item := range call.Items {
			outcome := coordinator.AckOutcome{TaskID: item.TaskID, Outcome: coordinator.AckRefused, Refusal: refusal}
			if i == 0 {
				outcome.Refusal = coordinator.ErrStaleEpoch(1, 2)
			}
			result.Outcomes = append(result.Outcomes, outcome)
		}
		return result, nil
	}}
	c := coordinator.New(store, coordinator.Options{})
	_, err := c.AcknowledgeAll(t.Context(), "default", 4, []coordinator.AckItem{{TaskID: "a"}, {TaskID: "b"}})
	var got *coordinator.Error
	if !errors.As(err, &got) || got.Code != coordinator.CodeCheckpointExpired || got.Current == nil || *got.Current != 5 {
		t.Errorf("got %v", err)
	}
}

func TestCleanupWorksInStepsAndStopsAtAThousandIDs(t *testing.T) {
	t.Parallel()
	next := int64(0)
	store := &scriptedStore{cleanup: func(call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
		if call.Max > coordinator.CleanupStep {
			t.Errorf("one step may remove %d", call.Max)
		}
		result := coordinator.CleanupResult{Skipped: []int64{99}, Kept: 9000, More: true}
		for range call.Max {
			result.Deleted = append(result.Deleted, next)
			next++
		}
		return result, nil
	}}
	got, err := coordinator.New(store, coordinator.Options{}).Cleanup(t.Context(), "default", 2, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Deleted) != 1000 || !got.More || !cmp.Equal(got.Skipped, []int64{99}) {
		t.Errorf("%d deleted, more %v, skipped %v", len(got.Deleted), got.More, got.Skipped)
	}
}

func TestNegativeKeepIsRefused(t *testing.T) {
	t.Parallel()
	_, err := coordinator.New(&scriptedStore{}, coordinator.Options{}).Cleanup(t.Context(), "default", -1, false)
	if coordinator.CodeOf(err) != coordinator.CodeInvalidRequest {
		t.Errorf("got %v", err)
	}
}

// idleUpload is an upload whose checks a test answers.
type idleUpload struct {
	coordinator.Upload

	check     func() error
	discarded chan struct{}
}

func (u *idleUpload) Check(context.Context) error { return u.check() }

func (u *idleUpload) Discard(context.Context) error { close(u.discarded); return nil }

func TestAnUploadLearnsThatItsCheckpointEnded(t *testing.T) {
	t.Parallel()
	upload := &idleUpload{
		check:     func() error { return coordinator.ErrEnded(7, coordinator.StatusAborted) },
		discarded: make(chan struct{}),
	}
	store := &scriptedStore{begin: func(coordinator.UploadCall) (coordinator.Upload, error) { return upload, nil }}
	c := coordinator.New(store, coordinator.Options{Pace: coordinator.Pace{UploadCheck: time.Millisecond}})
	running, err := c.BeginUpload(t.Context(), coordinator.UploadCall{Job: "default", ID: 7, TaskID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	<-running.Context().Done()
	if code := coordinator.CodeOf(context.Cause(running.Context())); code != coordinator.CodeCheckpointAborted {
		t.Errorf("the cause is %q", code)
	}
	if _, err := running.Commit(t.Context(), coordinator.PartInfo{}, false); coordinator.CodeOf(err) != coordinator.CodeCheckpointAborted {
		t.Errorf("commit answered %v", err)
	}
	running.Discard(t.Context())
	<-upload.discarded
}

// recorder keeps what the health watch reports.
type recorder struct {
	coordinator.Silence

	changes chan bool
}

func (r recorder) StoreChanged(up bool, _ []coordinator.Warning, _ error) { r.changes <- up }

func TestRunReportsTheStoresComingAndGoingOnceEach(t *testing.T) {
	t.Parallel()
	answers := []error{nil, nil, errors.New("away"), errors.New("away"), nil}
	looked := 0
	ctx, cancel := context.WithCancel(t.Context())
	store := &scriptedStore{
		sweep: func() error { return errors.New("a sweep that fails must not end the loop") },
		health: func() ([]coordinator.Warning, error) {
			if looked == len(answers) {
				cancel()
				return nil, ctx.Err()
			}
			looked++
			return nil, answers[looked-1]
		},
	}
	seen := recorder{changes: make(chan bool, 10)}
	c := coordinator.New(store, coordinator.Options{Observer: seen, Pace: coordinator.Pace{Health: time.Millisecond, Sweep: time.Millisecond}})
	c.Run(ctx)
	close(seen.changes)
	var got []bool
	for up := range seen.changes {
		got = append(got, up)
	}
	if !cmp.Equal(got, []bool{true, false, true}) {
		t.Errorf("reported %v", got)
	}
}

func TestCodesAreDistinctAndWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[coordinator.Code]bool{}
	for _, code := range coordinator.Codes() {
		if seen[code] || code == "" || strings.ToLower(string(code)) != string(code) {
			t.Errorf("code %q", code)
		}
		seen[code] = true
	}
}

func TestAnInlinePartIsHeldToTheLimitOfUploads(t *testing.T) {
	t.Parallel()
	settings := coordinator.DefaultSettings()
	settings.MaxPartBytes = 4
	c := coordinator.New(&scriptedStore{}, coordinator.Options{Settings: settings})
	large := coordinator.AckItem{TaskID: "a", Part: &coordinator.PartContent{Content: []byte("12345"), Digest: coordinator.EmptyDigest}}
	if _, err := c.Acknowledge(t.Context(), "default", 0, large); coordinator.CodeOf(err) != coordinator.CodeTooLarge {
		t.Errorf("alone: %v", err)
	}
	if _, err := c.AcknowledgeAll(t.Context(), "default", 0, []coordinator.AckItem{{TaskID: "b"}, large}); coordinator.CodeOf(err) != coordinator.CodeTooLarge {
		t.Errorf("among others: %v", err)
	}
}
