package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestAJobsOwnSettingsWinOverTheServers(t *testing.T) {
	t.Parallel()
	server := coordinator.Settings{
		RequiredTaskAcks: 1, TimeoutMs: 2, IntervalMs: 300, MinPauseMs: 4, MaxConcurrent: 5, TolerableFailures: 6, StaleAfterMs: 7,
		Retention: coordinator.Retention{Keep: 8, MaxAgeMs: 9, MaxBytes: 10}, EventsToKeep: 11, MaxPartBytes: 12,
	}
	for _, tc := range []struct {
		name string
		own  coordinator.JobSettings
		want func(*coordinator.Settings)
	}{
		{"nothing said", coordinator.JobSettings{}, func(*coordinator.Settings) {}},
		{"a number of acknowledgements", coordinator.JobSettings{RequiredTaskAcks: new(20)}, func(s *coordinator.Settings) { s.RequiredTaskAcks = 20 }},
		{"named tasks", coordinator.JobSettings{NamedTasks: 3}, func(s *coordinator.Settings) { s.RequiredTaskAcks = 3 }},
		{"a timeout", coordinator.JobSettings{TimeoutMs: new(int64(20))}, func(s *coordinator.Settings) { s.TimeoutMs = 20 }},
		{"no timeout", coordinator.JobSettings{TimeoutMs: new(int64(0))}, func(s *coordinator.Settings) { s.TimeoutMs = 0 }},
		{"an interval", coordinator.JobSettings{IntervalMs: new(int64(2000))}, func(s *coordinator.Settings) { s.IntervalMs = 2000 }},
		{"an interval below the floor", coordinator.JobSettings{IntervalMs: new(int64(1))}, func(s *coordinator.Settings) { s.IntervalMs = 50 }},
		{"no schedule", coordinator.JobSettings{IntervalMs: new(int64(0))}, func(s *coordinator.Settings) { s.IntervalMs = 0 }},
		{"a pause", coordinator.JobSettings{MinPauseMs: new(int64(20))}, func(s *coordinator.Settings) { s.MinPauseMs = 20 }},
		{"a cap", coordinator.JobSettings{MaxConcurrent: new(20)}, func(s *coordinator.Settings) { s.MaxConcurrent = 20 }},
		{"tolerance", coordinator.JobSettings{TolerableFailures: new(0)}, func(s *coordinator.Settings) { s.TolerableFailures = 0 }},
		{"an age", coordinator.JobSettings{StaleAfterMs: new(int64(20))}, func(s *coordinator.Settings) { s.StaleAfterMs = 20 }},
		{"a number to keep", coordinator.JobSettings{Keep: new(20)}, func(s *coordinator.Settings) { s.Keep = 20 }},
		{"an age to keep", coordinator.JobSettings{MaxAgeMs: new(int64(20))}, func(s *coordinator.Settings) { s.MaxAgeMs = 20 }},
		{"bytes to keep", coordinator.JobSettings{MaxBytes: new(int64(20))}, func(s *coordinator.Settings) { s.MaxBytes = 20 }},
	} {
		want := server
		tc.want(&want)
		if diff := cmp.Diff(want, tc.own.Over(server)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
	server.IntervalMs = 20
	if got := new(coordinator.JobSettings).Over(server).IntervalMs; got != coordinator.MinIntervalMs {
		t.Errorf("a server's interval below the floor became %d", got)
	}
}

// limit is a field with the first values outside of its range and the last ones inside.
type limit struct {
	pointer   string
	set       func(int64) coordinator.JobSettings
	low, high int64
	// free tells that there is no lower bound.
	free bool
}

func limits() []limit {
	whole := func(set func(*coordinator.JobSettings, *int)) func(int64) coordinator.JobSettings {
		return func(n int64) (s coordinator.JobSettings) {
			set(&s, new(int(n)))
			return s
		}
	}
	large := func(set func(*coordinator.JobSettings, *int64)) func(int64) coordinator.JobSettings {
		return func(n int64) (s coordinator.JobSettings) {
			set(&s, new(n))
			return s
		}
	}
	return []limit{
		{pointer: "/requiredTaskAcks", low: 1, high: 100_000, set: whole(func(s *coordinator.JobSettings, n *int) { s.RequiredTaskAcks = n })},
		{pointer: "/maxConcurrentCheckpoints", low: 1, high: 1000, set: whole(func(s *coordinator.JobSettings, n *int) { s.MaxConcurrent = n })},
		{pointer: "/tolerableFailedCheckpoints", high: coordinator.MaxID, set: whole(func(s *coordinator.JobSettings, n *int) { s.TolerableFailures = n })},
		{pointer: "/checkpointsToKeep", high: coordinator.MaxID, set: whole(func(s *coordinator.JobSettings, n *int) { s.Keep = n })},
		{pointer: "/timeoutMs", free: true, low: -1, high: coordinator.MaxTimeoutMs, set: large(func(s *coordinator.JobSettings, n *int64) { s.TimeoutMs = n })},
		{pointer: "/intervalMs", high: coordinator.MaxTimeoutMs, set: large(func(s *coordinator.JobSettings, n *int64) { s.IntervalMs = n })},
		{pointer: "/minPauseMs", high: coordinator.MaxTimeoutMs, set: large(func(s *coordinator.JobSettings, n *int64) { s.MinPauseMs = n })},
		{pointer: "/staleAfterMs", high: coordinator.MaxTimeoutMs, set: large(func(s *coordinator.JobSettings, n *int64) { s.StaleAfterMs = n })},
		{pointer: "/checkpointsMaxAgeMs", high: coordinator.MaxTimeoutMs, set: large(func(s *coordinator.JobSettings, n *int64) { s.MaxAgeMs = n })},
		{pointer: "/checkpointsMaxBytes", high: coordinator.MaxID, set: large(func(s *coordinator.JobSettings, n *int64) { s.MaxBytes = n })},
		{pointer: "/description", free: true, high: 4096, set: func(n int64) coordinator.JobSettings {
			return coordinator.JobSettings{Description: strings.Repeat("x", int(n))}
		}},
	}
}

func TestPutJobHoldsEachSettingToItsRange(t *testing.T) {
	t.Parallel()
	for _, l := range limits() {
		t.Run(l.pointer, func(t *testing.T) {
			t.Parallel()
			put := func(n int64) error {
				c := coordinator.New(newLogStore(), coordinator.Options{})
				_, err := c.PutJob(t.Context(), coordinator.DefaultJob, l.set(n), coordinator.Precondition{})
				return err
			}
			for _, n := range []int64{l.low, l.high} {
				if err := put(n); err != nil {
					t.Errorf("%d was refused: %v", n, err)
				}
			}
			outside := []int64{l.high + 1}
			if !l.free {
				outside = append(outside, l.low-1)
			}
			for _, n := range outside {
				want := coordinator.CodeInvalidRequest
				if l.pointer == "/description" {
					want = coordinator.CodeTooLarge // a size, not a value
				}
				refusedAt(t, put(n), want, l.pointer)
			}
		})
	}
}

func refusedAt(t *testing.T, err error, code coordinator.Code, pointer string) {
	t.Helper()
	refusal, ok := errors.AsType[*coordinator.Error](err)
	switch {
	case !ok || refusal.Code != code:
		t.Errorf("got %v, want %s", err, code)
	case pointer != "" && (len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != pointer):
		t.Errorf("the refusal points at %+v, want %q", refusal.Fields, pointer)
	}
}

func TestPutJobChecksItsTasks(t *testing.T) {
	t.Parallel()
	many := make([]string, coordinator.MaxTasks+1)
	for i := range many {
		many[i] = fmt.Sprintf("t%d", i)
	}
	for _, tc := range []struct {
		name     string
		settings coordinator.JobSettings
		code     coordinator.Code
		pointer  string
	}{
		{"none", coordinator.JobSettings{Tasks: []string{}}, coordinator.CodeInvalidRequest, "/tasks"},
		{"one twice", coordinator.JobSettings{Tasks: []string{"a", "a"}}, coordinator.CodeInvalidRequest, "/tasks/1"},
		{"a malformed one", coordinator.JobSettings{Tasks: []string{"-"}}, coordinator.CodeInvalidRequest, "/tasks/0"},
		{"another number", coordinator.JobSettings{Tasks: []string{"a"}, RequiredTaskAcks: new(2)}, coordinator.CodeInvalidRequest, "/requiredTaskAcks"},
		{"too many", coordinator.JobSettings{Tasks: many}, coordinator.CodeLimitExceeded, ""},
	} {
		c := coordinator.New(&scriptedStore{}, coordinator.Options{})
		_, err := c.PutJob(t.Context(), coordinator.DefaultJob, tc.settings, coordinator.Precondition{})
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			refusedAt(t, err, tc.code, tc.pointer)
		})
	}
	c := coordinator.New(newLogStore(), coordinator.Options{})
	result, err := c.PutJob(t.Context(), coordinator.DefaultJob, coordinator.JobSettings{Tasks: []string{"a", "b"}, RequiredTaskAcks: new(2), NamedTasks: 7}, coordinator.Precondition{})
	if err != nil || result.State.Settings.NamedTasks != 2 {
		t.Errorf("%d named tasks, %v", result.State.Settings.NamedTasks, err)
	}
	if _, err := c.PutJob(t.Context(), "a/b", coordinator.JobSettings{}, coordinator.Precondition{}); coordinator.CodeOf(err) != coordinator.CodeInvalidParameter {
		t.Errorf("a malformed job: %v", err)
	}
}
