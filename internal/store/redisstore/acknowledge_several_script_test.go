package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// several are the arguments of acknowledge_several.lua from ARGV[2] on, for calls as acks gives them.
func several(calls ...[]any) []any {
	var all []any
	for _, call := range calls {
		all = append(append(all, len(call)), call...)
	}
	return all
}

// severally are the bodies of a reply, as words: the items of each, "alone", or an error.
func (l *lab) severally(calls ...[]any) []string {
	l.Helper()
	r := l.word(l.run(severalScript, several(calls...)...), "ok")
	l.same("ended", len(r.ended), 0)
	var all []string
	for _, value := range r.body {
		switch body, _ := value.([]any); {
		case len(body) > 0:
			all = append(all, strings.Join(l.outcomes(reply{body: body}), ", "))
		case body != nil:
			all = append(all, "alone")
		default:
			failure, _ := value.(redis.Error)
			first, _, _ := strings.Cut(failure.Error(), " ")
			all = append(all, first)
		}
	}
	return all
}

func TestAcknowledgeSeveralScript(t *testing.T) {
	t.Parallel()
	a, b := coordinator.AckItem{TaskID: "a"}, coordinator.AckItem{TaskID: "b"}

	t.Run("takes calls of many checkpoints, each as if it were by itself", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		epoch := int64(3)
		calls := [][]any{
			acks(0, "t0", 5, a, b),
			acks(1, "t1", 5, coordinator.AckItem{TaskID: "a", Attempt: 2, Part: aPart("text", "sha256:1")}, coordinator.AckItem{TaskID: "b", Attempt: 7}),
			acks(2, "t2", 5, coordinator.AckItem{TaskID: "a", Attempt: 1}),
			acks(3, "t3", 5, coordinator.AckItem{TaskID: "c", Epoch: &epoch}),
		}
		want := []string{
			"acknowledged 1 pending 7, acknowledged 2 pending 7", "acknowledged 1 pending 7, acknowledged 2 pending 7",
			"refused 0 pending stale_attempt a 1 2", "refused 0 pending stale_epoch 3 0",
		}
		for id := range int64(4) {
			l.record(id, values{"required": "9"})
		}
		l.now += 7
		l.same("outcomes", l.severally(calls...), want)
		together := l.everything()

		other := newLab(t, "orders")
		for id := range int64(4) {
			other.record(id, values{"required": "9"})
		}
		other.now += 7
		for i, call := range calls {
			l.same("outcomes of one by itself", strings.Join(other.outcomes(other.word(other.run(acknowledgeScript, call...), "ok")), ", "), want[i])
		}
		apart := map[string]string{}
		for key, value := range other.everything() {
			apart[strings.Replace(key, other.server.Prefix, l.server.Prefix, 1)] = value
		}
		l.same("what is stored", together, apart)
	})

	t.Run("leaves alone what would end, has ended, is not there, was accepted in part, or ran before", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(0, values{"required": "2"})
		l.record(1, values{"status": "completed"})
		l.record(3, values{"timeout": "5"})
		l.record(4, values{"required": "9"})
		l.record(5, values{"required": "9"})
		l.record(6, values{"required": "9", "start": decimal(l.now + 100)})
		l.now += 7
		again := acks(5, "again", 5, a)
		l.same("the first run", l.severally(again), []string{"acknowledged 1 pending 7"})
		l.unchanged(func() {
			l.same("outcomes", l.severally(
				acks(0, "t", 5, a, b), acks(1, "t", 5, a), acks(2, "t", 5, a), acks(3, "t", 5, a), acks(4, "t", 5, a, a), again, acks(6, "t", 5, a),
			), []string{"alone", "alone", "alone", "alone", "alone", "alone", "alone"})
		})
		nobody := newLab(t, "nobody")
		nobody.unchanged(func() {
			l.same("in no job", nobody.severally(acks(0, "t", 5, a), acks(1, "t", 5, a)), []string{"alone", "alone"})
		})
	})

	t.Run("keeps what one call meets from the others", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		for id := range int64(3) {
			l.record(id, values{"required": "9"})
		}
		l.do("SET", l.keys.acks(1), "of another type")
		l.same("outcomes", l.severally(acks(0, "t", 5, a), acks(1, "t", 5, a), acks(2, "t", 5, b)),
			[]string{"acknowledged 1 pending 0", "WRONGTYPE", "acknowledged 1 pending 0"})
	})
}
