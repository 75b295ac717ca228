package worker

import "fmt"

// Error says it in words.
func (e *Ended) Error() string {
	text := fmt.Sprintf("checkpoint %d has ended: %s", e.ID, e.Reason)
	if e.TaskID != "" {
		text += " by " + e.TaskID
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// status is a checkpoint's place in its life, as the server tells it.
type status string

const (
	statusPending   status = "pending"
	statusCompleted status = "completed"
	// statusAcknowledged is a task's.
	statusAcknowledged status = "acknowledged"
)

// statusAnswer is an answer of which only the status is read.
type statusAnswer struct {
	Status status `json:"status"`
}

func (a *statusAnswer) genuine() bool { return a.Status != "" }

// failure is why the server says that a checkpoint ended uncompleted.
type failure struct {
	Reason  Reason `json:"reason"`
	TaskID  string `json:"taskId"`
	Message string `json:"message"`
}

// endedAs puts together what the server says; nil for a checkpoint that has not ended.
func endedAs(id int64, s status, f *failure) *Ended {
	switch {
	case s == statusPending || s == "":
		return nil
	case s == statusCompleted:
		return &Ended{ID: id, Reason: ReasonCompleted}
	case f == nil:
		return &Ended{ID: id, Reason: Reason(s)}
	}
	return &Ended{ID: id, Reason: f.Reason, TaskID: f.TaskID, Message: f.Message}
}
