package coordinator

import (
	"errors"
	"fmt"
)

// Check tells what of a head no call could have made: a number out of its range, or settings that PutJob refuses.
// The error is a sentence for the caller; nil is a sound head.
func (j *ExportedJob) Check() error {
	for _, counter := range []struct {
		name  string
		value int64
	}{{"nextCheckpointId", j.NextID}, {"epoch", j.Epoch}} {
		if counter.value < 0 || counter.value > MaxTakenCounter {
			return fmt.Errorf("%s is %d; it must be between 0 and %d", counter.name, counter.value, MaxTakenCounter)
		}
	}
	if err := CheckJob(j.Job); err != nil {
		return err
	}
	if j.Settings == nil {
		return nil
	}
	var f faults
	settings := j.Settings.settings()
	settings.check(&f)
	if len(settings.Tasks) > MaxTasks {
		f.body("/tasks", fmt.Errorf("there are %d of them; the limit is %d", len(settings.Tasks), MaxTasks))
	}
	return f.first()
}

// Check tells what of a record no call could have made in the job of this head. The error is a sentence for the
// caller; nil is a sound record.
func (r *ExportedCheckpoint) Check(head *ExportedJob) error {
	switch {
	case r.Epoch > head.Epoch:
		return fmt.Errorf("epoch is %d, and the job's is %d", r.Epoch, head.Epoch)
	case r.Revision < 0 || r.Revision > MaxTakenCounter:
		return fmt.Errorf("revision is %d; it must be between 0 and %d", r.Revision, MaxTakenCounter)
	case r.Acknowledged > r.RequiredTaskAcks:
		return fmt.Errorf("%d tasks have acknowledged, and %d were required", r.Acknowledged, r.RequiredTaskAcks)
	case r.NamedTasks && r.Acknowledged+r.Missing != r.RequiredTaskAcks:
		return fmt.Errorf("%d tasks are named, and %d were required", r.Acknowledged+r.Missing, r.RequiredTaskAcks)
	case r.Snapshot != nil && r.Snapshot.SharedRevision > MaxTakenCounter:
		return fmt.Errorf("sharedRevision is %d; it must be at most %d", r.Snapshot.SharedRevision, MaxTakenCounter)
	}
	var f faults
	f.labels(r.Labels)
	f.body("/description", atMost(r.Description, "descriptionBytes", MaxDescriptionBytes))
	if r.Failure != nil {
		r.Failure.check(&f, r.Status)
	}
	return f.first()
}

func (e *ExportedFailure) check(f *faults, status Status) {
	switch e.Reason {
	case ReasonExpired, ReasonDeclined, ReasonAborted, ReasonSuperseded, ReasonEvicted:
	default:
		f.body("/failure/reason", fmt.Errorf("%.40q is no reason", string(e.Reason)))
	}
	if (e.Reason == ReasonExpired) != (status == StatusExpired) {
		f.body("/failure/reason", errors.New("it does not fit the status"))
	}
	if (e.Reason == ReasonDeclined) != (e.TaskID != "") {
		f.body("/failure/taskId", errors.New("a task is named where one has declined, and nowhere else"))
	}
	if e.TaskID != "" {
		f.body("/failure/taskId", CheckTaskID(e.TaskID))
	}
	f.body("/failure/message", atMost(e.Message, "reasonBytes", MaxReasonBytes))
}

// first is the first fault as an error that names its place, or nil.
func (f *faults) first() error {
	if len(f.fields) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", f.fields[0].Pointer, f.fields[0].Detail)
}
