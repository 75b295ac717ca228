package storetest

import (
	"fmt"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// hurdle is one reason to refuse a message. A message that meets several must be refused
// for the first of them, in the order in which the hurdles stand.
type hurdle struct {
	name string
	want coordinator.Code
	// put makes the message, or the world that it comes to, meet the hurdle.
	put func(*scene)
}

// scene is a message about to be sent: by task-1, attempt 5, epoch 1, with a digest, to
// a checkpoint that names its tasks. Nothing in it is wrong unless a hurdle makes it so.
type scene struct {
	r       *rig
	job     string
	id      int64
	task    string
	attempt int64
	epoch   int64
	digest  string
	part    *coordinator.PartContent
	// end is done last: what comes before it needs a pending checkpoint.
	end func()
}

// hurdles are the refusals in the order of the design. Those of one rank exclude each
// other: a checkpoint ends in one way only.
func hurdles() [][]hurdle {
	return [][]hurdle{
		{{"an unknown job", coordinator.CodeJobNotFound, func(s *scene) { s.job = "nowhere" }}},
		{
			{"an id never given", coordinator.CodeCheckpointNotFound, func(s *scene) { s.id += 1000 }},
			{"a deleted checkpoint", coordinator.CodeCheckpointDeleted, func(s *scene) {
				end, r, id := s.end, s.r, s.id
				s.end = func() { end(); r.delete(id) }
			}},
		},
		{{"an unexpected task", coordinator.CodeTaskNotExpected, func(s *scene) { s.task = "stranger" }}},
		{{"a stale epoch", coordinator.CodeStaleEpoch, func(s *scene) { s.epoch = 0 }}},
		{{"a stale attempt", coordinator.CodeStaleAttempt, func(s *scene) {
			// Heard of in another checkpoint: attempts are the job's.
			s.r.accept(s.r.trigger(requires(2)).ID, s.task, attempt(s.attempt+1))
		}}},
		{
			{"an expired checkpoint", coordinator.CodeCheckpointExpired, func(s *scene) {
				r := s.r
				s.end = func() { r.clock.Advance(60_001) }
			}},
			{"an aborted checkpoint", coordinator.CodeCheckpointAborted, func(s *scene) {
				r, id := s.r, s.id
				s.end = func() { r.abort(id) }
			}},
		},
		{{"an ack with another part before", coordinator.CodeAckConflict, func(s *scene) {
			s.r.accept(s.id, s.task, attempt(s.attempt), with(part(s.task, "k", "1")))
			s.part = new(part(s.task, "k", "2"))
		}}},
		{{"a completed checkpoint", coordinator.CodeCheckpointCompleted, func(s *scene) {
			r, id, before := s.r, s.id, s.end
			s.end = func() { r.complete(id, true); before() }
		}}},
		{{"a changed part", coordinator.CodePartChanged, func(s *scene) { s.digest = digestOf([]byte("another")) }}},
	}
}

func newScene(r *rig) *scene {
	r.recover("")
	c := r.trigger(named("task-1", "task-2"), timeout(60_000))
	return &scene{r: r, job: r.job, id: c.ID, task: "task-1", attempt: 5, epoch: 1, end: func() {}}
}

// messages are the ways to send a scene's message.
func messages() []message {
	return []message{
		{"an ack", 9, func(s *scene) coordinator.Code {
			i := coordinator.AckItem{TaskID: s.task, Attempt: s.attempt, Epoch: &s.epoch, Digest: s.digest, Part: s.part}
			result, err := s.r.store.Acknowledge(s.r.t.Context(), coordinator.AckCall{Job: s.job, ID: s.id, Items: []coordinator.AckItem{i}, Token: s.r.token()})
			if err != nil {
				return coordinator.CodeOf(err)
			}
			return refusalCode(result.Outcomes[0])
		}},
		{"an upload", 8, func(s *scene) coordinator.Code {
			_, err := s.r.store.BeginUpload(s.r.t.Context(), coordinator.UploadCall{Job: s.job, ID: s.id, TaskID: s.task, Attempt: s.attempt, Epoch: &s.epoch, Token: s.r.token()})
			return coordinator.CodeOf(err)
		}},
		{"a decline", 5, func(s *scene) coordinator.Code {
			_, err := s.r.store.Abort(s.r.t.Context(), coordinator.AbortCall{Job: s.job, ID: s.id, TaskID: s.task, Attempt: s.attempt, Epoch: &s.epoch, Token: s.r.token()})
			return coordinator.CodeOf(err)
		}},
	}
}

// message is one way to send a message. It can meet the first ranks of hurdles only: an
// upload brings no digest along, a decline is no acknowledgement.
type message struct {
	name  string
	ranks int
	send  func(*scene) coordinator.Code
}

func testRefusalOrder(t *testing.T, s suite) {
	ranks := hurdles()
	for _, m := range messages() {
		// One storage for all pairs of a message, a job for each: the pairs are many.
		s.rule(t, "of "+m.name, func(t *testing.T, r *rig) {
			jobs := 0
			try := func(sentence string, want coordinator.Code, put ...func(*scene)) {
				t.Run(sentence, func(t *testing.T) {
					jobs++
					scene := newScene(r.on(t, fmt.Sprintf("job-%d", jobs)))
					for _, p := range put {
						p(scene)
					}
					scene.end()
					equal(t, "refusal", m.send(scene), want)
				})
			}
			try("nothing is wrong", "")
			for i, rank := range ranks[:m.ranks] {
				for _, first := range rank {
					try(first.name+" is refused", first.want, first.put)
					for _, later := range ranks[i+1 : m.ranks] {
						for _, second := range later {
							if !exclude(first.want, second.want) {
								// The later hurdle is put first, while the message can still get there.
								try(first.name+" comes before "+second.name, first.want, second.put, first.put)
							}
						}
					}
				}
			}
		})
	}
}

// exclude tells pairs that no message can meet: a checkpoint is either completed or
// ended otherwise.
func exclude(a, b coordinator.Code) bool {
	failed := a == coordinator.CodeCheckpointExpired || a == coordinator.CodeCheckpointAborted
	return failed && b == coordinator.CodeCheckpointCompleted
}
