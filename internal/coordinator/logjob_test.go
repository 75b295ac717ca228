package coordinator_test

import (
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// logJob is one job of a [logStore].
type logJob struct {
	state       coordinator.JobState
	log         []coordinator.Event
	trimmed     bool
	checkpoints []coordinator.Checkpoint
	tasks       map[int64][]string
	acks        map[int64][]coordinator.Ack
	history     coordinator.History
}

func newLogJob(job string) *logJob {
	return &logJob{
		state: coordinator.JobState{Job: job, LatestID: -1},
		tasks: map[int64][]string{}, acks: map[int64][]coordinator.Ack{},
	}
}

func (j *logJob) tell(kind coordinator.EventType, id int64) {
	j.state.LastEvent = coordinator.EventID{Epoch: j.state.Epoch, Seq: j.state.LastEvent.Seq + 1}
	j.log = append(j.log, coordinator.Event{ID: j.state.LastEvent, Type: kind, Job: j.state.Job, CheckpointID: id})
}

func (j *logJob) trigger(tasks ...string) int64 {
	id := j.state.NextID
	j.state.NextID++
	j.state.Pending++
	j.checkpoints = append(j.checkpoints, coordinator.Checkpoint{
		Job: j.state.Job, ID: id, Status: coordinator.StatusPending, RequiredTaskAcks: 2, NamedTasks: len(tasks) > 0,
	})
	j.tasks[id] = tasks
	j.tell(coordinator.EventTriggered, id)
	return id
}

func (j *logJob) at(id int64) *coordinator.Checkpoint {
	i := slices.IndexFunc(j.checkpoints, func(c coordinator.Checkpoint) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &j.checkpoints[i]
}

func (j *logJob) ack(id int64, tasks ...string) {
	for _, task := range tasks {
		j.acks[id] = append(j.acks[id], coordinator.Ack{TaskID: task})
		j.at(id).AcknowledgedTasks++
	}
}

func (j *logJob) end(id int64, status coordinator.Status) {
	j.at(id).Status = status
	j.state.Pending--
	switch status {
	case coordinator.StatusCompleted:
		j.at(id).Digest = coordinator.EmptyDigest
		j.state.LatestID = max(j.state.LatestID, id)
		j.tell(coordinator.EventCompleted, id)
	case coordinator.StatusAborted:
		j.tell(coordinator.EventAborted, id)
	case coordinator.StatusExpired, coordinator.StatusPending:
		j.tell(coordinator.EventExpired, id)
	}
}

func (j *logJob) trim(n int) { j.log, j.trimmed = slices.Clone(j.log[n:]), true }
