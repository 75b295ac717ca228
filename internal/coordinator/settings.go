package coordinator

import "cmp"

// MinIntervalMs is the floor of every schedule, as in the seed library: a shorter
// interval is taken for this one.
const MinIntervalMs = 50

// Settings are a server's defaults for what neither a trigger nor its job says.
type Settings struct {
	// RequiredTaskAcks is used when a trigger names neither a number nor tasks; ≥ 1.
	RequiredTaskAcks int
	// TimeoutMs is how long a checkpoint may stay pending; ≤ 0 is for ever.
	TimeoutMs int64
	// IntervalMs is the time between two scheduled triggers; 0 schedules nothing.
	IntervalMs int64
	// MinPauseMs is how long a job rests after a completion before the next trigger.
	MinPauseMs int64
	// MaxConcurrent is how many checkpoints of a job may be pending; 1 … MaxConcurrentUpper.
	MaxConcurrent int
	// TolerableFailures is how many checkpoints in a row may fail before the job is failing.
	TolerableFailures int
	// StaleAfterMs is the age from which the latest completed checkpoint is stale; 0 is
	// StaleIntervals intervals of a scheduled job, and never without a schedule.
	StaleAfterMs int64
	Retention
	// EventsToKeep is how many events the log of each job keeps at least; ≥ 1.
	EventsToKeep int
	// MaxPartBytes is how many restore bytes one part may have.
	MaxPartBytes int64
}

// StaleIntervals is how many intervals without a completion make a scheduled job stale.
const StaleIntervals = 3

// Retention says which completed, unpinned checkpoints stay. Pinned ones are neither
// counted nor touched, and the newest unpinned one always stays.
type Retention struct {
	// Keep is how many stay; 0 is no limit.
	Keep int
	// MaxAgeMs is how long one stays after its completion; 0 is for ever.
	MaxAgeMs int64
	// MaxBytes is how many restore bytes they may have together; 0 is no limit.
	MaxBytes int64
}

// DefaultSettings are the documented defaults.
func DefaultSettings() Settings {
	return Settings{
		RequiredTaskAcks: 1,
		TimeoutMs:        60_000,
		MaxConcurrent:    16,
		Retention:        Retention{Keep: 5},
		EventsToKeep:     10_000,
		MaxPartBytes:     4 << 30,
	}
}

// JobSettings are what a PUT of a job says; nil and zero fields are the server's to say.
type JobSettings struct {
	RequiredTaskAcks *int
	// Tasks are the tasks of a trigger that names none itself. Reading many
	// jobs leaves them out and gives only NamedTasks, their number.
	Tasks             []string
	NamedTasks        int
	TimeoutMs         *int64
	IntervalMs        *int64
	MinPauseMs        *int64
	MaxConcurrent     *int
	TolerableFailures *int
	StaleAfterMs      *int64
	Keep              *int
	MaxAgeMs          *int64
	MaxBytes          *int64
	// Paused keeps the schedule from triggering; triggers by hand go on.
	Paused      bool
	Description string
}

// Over gives what holds for the job: its own settings where it has them, else the server's.
func (s *JobSettings) Over(defaults Settings) Settings {
	out := defaults
	for _, field := range []struct{ own, out *int }{
		{s.RequiredTaskAcks, &out.RequiredTaskAcks},
		{s.MaxConcurrent, &out.MaxConcurrent},
		{s.TolerableFailures, &out.TolerableFailures},
		{s.Keep, &out.Keep},
	} {
		*field.out = *cmp.Or(field.own, field.out)
	}
	for _, field := range []struct{ own, out *int64 }{
		{s.TimeoutMs, &out.TimeoutMs},
		{s.IntervalMs, &out.IntervalMs},
		{s.MinPauseMs, &out.MinPauseMs},
		{s.StaleAfterMs, &out.StaleAfterMs},
		{s.MaxAgeMs, &out.MaxAgeMs},
		{s.MaxBytes, &out.MaxBytes},
	} {
		*field.out = *cmp.Or(field.own, field.out)
	}
	if s.NamedTasks > 0 {
		out.RequiredTaskAcks = s.NamedTasks
	}
	if out.IntervalMs > 0 {
		out.IntervalMs = max(out.IntervalMs, MinIntervalMs)
	}
	return out
}

// check adds the faults of settings in a body.
func (s *JobSettings) check(f *faults) {
	number := func(pointer string, value *int64, low, high int64, unit string) {
		if value != nil {
			f.body(pointer, between(*value, low, high, unit))
		}
	}
	f.participants(wide(s.RequiredTaskAcks), s.Tasks)
	f.timeout(s.TimeoutMs)
	number("/intervalMs", s.IntervalMs, 0, MaxTimeoutMs, "milliseconds")
	number("/minPauseMs", s.MinPauseMs, 0, MaxTimeoutMs, "milliseconds")
	number("/maxConcurrentCheckpoints", wide(s.MaxConcurrent), 1, MaxConcurrentUpper, "checkpoints")
	number("/checkpointsToKeep", wide(s.Keep), 0, MaxID, "checkpoints")
	number("/checkpointsMaxAgeMs", s.MaxAgeMs, 0, MaxTimeoutMs, "milliseconds")
	number("/checkpointsMaxBytes", s.MaxBytes, 0, MaxID, "bytes")
	number("/tolerableFailedCheckpoints", wide(s.TolerableFailures), 0, MaxID, "checkpoints")
	number("/staleAfterMs", s.StaleAfterMs, 0, MaxTimeoutMs, "milliseconds")
	f.body("/description", atMost(s.Description, "descriptionBytes", MaxDescriptionBytes))
}

func wide(value *int) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}
