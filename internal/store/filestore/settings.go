package filestore

import (
	"cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// settings are a job's own. The names of its tasks lie in a bucket beside them: there may
// be megabytes of them, and the job's record is written with every trigger.
type settings struct {
	RequiredTaskAcks  *int     `json:"required,omitempty"`
	Tasks             []string `json:"-"`
	NamedTasks        int      `json:"tasks,omitempty"`
	TimeoutMs         *int64   `json:"timeout,omitempty"`
	IntervalMs        *int64   `json:"interval,omitempty"`
	MinPauseMs        *int64   `json:"minPause,omitempty"`
	MaxConcurrent     *int     `json:"concurrent,omitempty"`
	TolerableFailures *int     `json:"tolerable,omitempty"`
	StaleAfterMs      *int64   `json:"staleAfter,omitempty"`
	Keep              *int     `json:"keep,omitempty"`
	MaxAgeMs          *int64   `json:"maxAge,omitempty"`
	MaxBytes          *int64   `json:"maxBytes,omitempty"`
	Paused            bool     `json:"paused,omitempty"`
	Description       string   `json:"desc,omitempty"`
}

// own gives the job's own settings, without the names of tasks.
func (j *job) own() coordinator.JobSettings {
	if j.Settings == nil {
		return coordinator.JobSettings{}
	}
	return coordinator.JobSettings(*j.Settings)
}

// holds gives what holds for the job.
func (j *job) holds(defaults coordinator.Settings) coordinator.Settings {
	own := j.own()
	return own.Over(defaults)
}

// handed are the server's defaults that changes need to which nobody hands them, such as an
// expiry that is written by the way.
type handed struct {
	TolerableFailures int `json:"tolerable,omitempty"`
	EventsToKeep      int `json:"events,omitempty"`
}

func (h handed) eventsToKeep() int {
	return cmp.Or(max(0, h.EventsToKeep), coordinator.DefaultSettings().EventsToKeep)
}

// note keeps the defaults for later changes.
func (s *step) note(j *job, defaults coordinator.Settings) {
	now := handed{TolerableFailures: defaults.TolerableFailures, EventsToKeep: defaults.EventsToKeep}
	if j.Noted != now {
		j.Noted = now
		s.touchJob(j)
	}
}

// ownTasks gives the names of tasks in the job's settings, in their order.
func (j *job) ownTasks() []string {
	var names []string
	for _, name := range ascend(child(j.b, bucketTasks), nil) {
		names = append(names, string(name))
	}
	return names
}
