package server

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// observer turns what the coordinator reports into logs and metrics.
type observer struct {
	log     zerolog.Logger
	metrics *metrics
}

var _ coordinator.Observer = (*observer)(nil)

func (o *observer) Triggered(c coordinator.Checkpoint) {
	o.metrics.triggered.WithLabelValues(o.metrics.jobs.nameOf(c.Job)).Inc()
	o.log.Info().Str("job", c.Job).Int64("checkpointId", c.ID).Int64("epoch", c.Epoch).
		Int("requiredTaskAcks", c.RequiredTaskAcks).Msg("checkpoint triggered")
}

func (o *observer) Acknowledged(job string, id int64, outcome coordinator.AckOutcome) {
	label := string(outcome.Outcome)
	if outcome.Refusal != nil {
		label = string(outcome.Refusal.Code)
	}
	o.metrics.acknowledged(job, label, outcome.Outcome == coordinator.AckAccepted, outcome.LatencyMs)
	o.log.Debug().Str("job", job).Int64("checkpointId", id).Str("taskId", outcome.TaskID).
		Str("outcome", label).Msg("acknowledgement")
}

func (o *observer) Ended(t coordinator.Transition) {
	o.metrics.ended.WithLabelValues(o.metrics.jobs.nameOf(t.Job), string(t.Status), string(t.Reason)).Inc()
	o.metrics.duration.WithLabelValues(o.metrics.jobs.nameOf(t.Job), string(t.Status)).Observe(float64(t.DurationMs) / 1000)
	o.log.Info().Str("job", t.Job).Int64("checkpointId", t.ID).Str("status", string(t.Status)).
		Str("reason", string(t.Reason)).Int64("durationMs", t.DurationMs).
		Int("acknowledgedTasks", t.AcknowledgedTasks).Msg("checkpoint ended")
}

func (o *observer) Extended(c coordinator.Checkpoint, by string) {
	line := o.log.Info().Str("job", c.Job).Int64("checkpointId", c.ID).Str("by", by)
	if deadline, limited := c.Deadline(); limited {
		line = line.Int64("deadline", deadline)
	}
	line.Msg("checkpoint extended")
}

func (o *observer) Deleted(job string, id int64, why coordinator.DeletionReason) {
	o.metrics.deleted.WithLabelValues(o.metrics.jobs.nameOf(job), string(why)).Inc()
	o.log.Info().Str("job", job).Int64("checkpointId", id).Str("why", string(why)).Msg("checkpoint deleted")
}

func (o *observer) Damaged(job string, id int64, damage error) {
	o.metrics.damaged.WithLabelValues(o.metrics.jobs.nameOf(job)).Inc()
	o.log.Error().Str("job", job).Int64("checkpointId", id).Err(damage).Msg("a checkpoint is damaged")
}

func (o *observer) Recovered(job string, r coordinator.RecoverResult) {
	o.metrics.recoveries.WithLabelValues(o.metrics.jobs.nameOf(job)).Inc()
	event := o.log.Info().Str("job", job).Int64("epoch", r.Epoch).Ints64("ended", r.Ended)
	if r.Checkpoint != nil {
		event = event.Int64("checkpointId", r.Checkpoint.ID)
	}
	event.Msg("job recovered")
}

func (o *observer) Restored(job string, id, bytes int64, err error) {
	o.metrics.restoredBytes.WithLabelValues(o.metrics.jobs.nameOf(job)).Add(float64(bytes))
	if err != nil {
		o.metrics.restores.WithLabelValues(o.metrics.jobs.nameOf(job), "broken_off").Inc()
		o.log.Warn().Err(err).Str("job", job).Int64("checkpointId", id).Msg("restore broke off")
		return
	}
	o.metrics.restores.WithLabelValues(o.metrics.jobs.nameOf(job), "finished").Inc()
}

func (o *observer) StoreCall(operation string, took time.Duration, err error) {
	o.metrics.storeCall(operation, took)
	switch code := coordinator.CodeOf(err); code {
	case coordinator.CodeStoreUnavailable, coordinator.CodeOutcomeUnknown, coordinator.CodeNotReplicated, coordinator.CodeStoreFull,
		coordinator.CodeInternal, coordinator.CodeSnapshotDamaged:
		o.metrics.storeErrors.WithLabelValues(operation, string(code)).Inc()
	default: // a refusal is the store working
	}
}

func (o *observer) StoreChanged(up bool, warnings []coordinator.Warning, cause error) {
	o.metrics.storeWarnings.Reset()
	if !up {
		o.metrics.storeUp.Set(0)
		message := "the store does not answer; requests get 503 until it does"
		if known, is := coordinator.CauseOf(cause); is {
			message = "the store cannot be used: " + known.Says
		}
		o.log.Error().Err(cause).Msg(message)
		return
	}
	o.metrics.storeUp.Set(1)
	o.log.Info().Msg("the store answers")
	for _, warning := range warnings {
		o.metrics.storeWarnings.WithLabelValues(warning.Code).Set(1)
		o.log.Warn().Str("warning", warning.Code).Msg(warning.Detail)
	}
}

func (o *observer) JobChanged(job string, failing bool, freshness coordinator.Freshness) {
	level := zerolog.InfoLevel
	if failing || freshness == coordinator.FreshnessStale {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("job", job).Bool("failing", failing).Str("freshness", string(freshness)).Msg("the health of a job changed")
}

func (o *observer) JobGone(job string) {
	o.metrics.forgetJob(job)
	o.log.Info().Str("job", job).Msg("job deleted")
}

// EventsDropped tells of a client that did not take its events.
func (o *observer) EventsDropped(job string) {
	o.metrics.eventsDropped.Inc()
	o.log.Warn().Str("job", job).Msg("an event stream was dropped: its client did not read")
}

func (o *observer) BackgroundFailed(task string, err error) {
	o.metrics.background.WithLabelValues(task).Inc()
	o.log.Warn().Err(err).Str("task", task).Msg("background work failed; it is tried again")
}
