package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// log is a job's log as it is stored: id and type of each entry.
func (l *lab) log() []string {
	l.Helper()
	all := []string{}
	for _, entry := range l.redis.XRange(context.Background(), l.keys.events(), "-", "+").Val() {
		all = append(all, entry.ID+" "+entry.Values["type"].(string))
	}
	return all
}

// read reads on in the log.
func (l *lab) read(after string, limit int) (ids []string, gap bool, views []any) {
	l.Helper()
	r := l.word(l.run(eventsScript, after, limit), "ok")
	ids = []string{}
	for rows := r.body[2].([]any); len(rows) > 0; rows = rows[2:] {
		ids = append(ids, rows[0].(string))
	}
	return ids, r.body[1] == "1", r.body[3].([]any)
}

func TestAnotherServerPassesOverEventsThatMayHaveBeenLost(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.do("HSET", l.keys.job(), "next", 1, "epoch", 0, "evlast", "0-7", "evrun", "0123456789abcdef")
	l.record(0, nil)
	l.word(l.run(completeScript, "0", "1", "5|0|0", "token"), "ok")
	l.same("the end of the log", l.field(l.keys.job(), "evlast"), "0-1008")
	l.record(1, nil)
	l.word(l.run(completeScript, "1", "1", "5|0|0", "other"), "ok")
	l.same("the end of the log", l.field(l.keys.job(), "evlast"), "0-1009")
}

func TestEventsScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.word(l.run(eventsScript, "", 10), "job_not_found")
	l.record(0, values{})
	l.record(1, values{"start": decimal(labTime - 60_001)})
	l.record(2, values{})
	l.record(3, values{"status": "completed"})
	l.do("ZADD", l.keys.pending(), 9, 9)
	check := func(what, after string, limit int, want ...string) {
		t.Helper()
		ids, gap, views := l.read(after, limit)
		if want == nil {
			l.same("a gap "+what, gap, true)
			shownIDs := []string{}
			for _, view := range views {
				shownIDs = append(shownIDs, shown(view))
			}
			l.same("events "+what, ids, []string{})
			l.same("pending "+what, shownIDs, []string{"0", "2"})
			return
		}
		l.same("a gap "+what, gap, false)
		l.same("pending "+what, len(views), 0)
		l.same("events "+what, ids, want)
	}
	none := []string{}
	check("of an empty log", "0-0", 10, none...)
	l.same("position of an empty log", l.run(eventsScript, "", 10).body[0], "")
	check("of an id that was never given", "0-7", 10)

	for _, id := range []string{"0-1", "0-2", "1-3", "1-1004", "2-1005"} {
		l.do("XADD", l.keys.events(), id, "type", "t", "at", "1", "id", "")
	}
	l.do("HSET", l.keys.job(), "evlast", "2-1005")
	l.same("position", l.run(eventsScript, "", 10).body[0], "2-1005")
	check("where only the position is wanted", "", 10, none...)
	check("from the beginning", "0-0", 10, "0-1", "0-2", "1-3", "1-1004", "2-1005")
	check("through epochs", "0-2", 2, "1-3", "1-1004")
	check("at the end", "2-1005", 10, none...)
	check("between two", "1-4", 10)
	check("in another epoch", "1-2", 10)
	check("behind the end", "2-1006", 10)
	check("as far behind the end as ids go", "9007199254740991-9007199254740991", 10)
	l.do("XTRIM", l.keys.events(), "MAXLEN", "4")
	check("before the first that is there", "0-0", 10)
	check("of the first that is there", "0-2", 10, "1-3", "1-1004", "2-1005")
	check("of a trimmed one", "0-1", 10)

	l.do("DEL", l.keys.events())
	l.do("SET", l.keys.events(), "foreign")
	check("of what is not ours", "0-2", 10)
	check("at the end of what is not ours", "2-1005", 10, none...)
}

func TestEventsAreWrittenWhateverBecameOfTheLog(t *testing.T) {
	t.Parallel()
	triggered := func(l *lab, token string) {
		l.Helper()
		l.word(l.run(triggerScript, aTrigger(token).list()...), "ok")
	}

	t.Run("the job's hash was lost and the log was not", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("XADD", l.keys.events(), "0-5", "type", "old")
		triggered(l, "one")
		triggered(l, "two")
		l.same("the log", l.log(), []string{"0-5 old", "0-1006 checkpoint.triggered", "0-1007 checkpoint.triggered"})
		l.same("its end", l.field(l.keys.job(), "evlast"), "0-1007")
	})

	t.Run("the log is in an epoch that the job has lost", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("XADD", l.keys.events(), "3-5", "type", "old")
		triggered(l, "one")
		l.same("the log", l.log(), []string{"3-5 old", "3-1006 checkpoint.triggered"})
		l.same("its end", l.field(l.keys.job(), "evlast"), "3-1006")
	})

	t.Run("the log was lost and the job's hash was not", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("HSET", l.keys.job(), "next", 3, "epoch", 2, "evlast", "2-8")
		triggered(l, "one")
		l.same("the log", l.log(), []string{"2-9 checkpoint.triggered"})
	})

	t.Run("something else has its name", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("SET", l.keys.events(), "foreign")
		triggered(l, "one")
		l.same("the foreign value", l.redis.Get(t.Context(), l.keys.events()).Val(), "foreign")
		l.same("pending", l.members(l.keys.pending()), []string{"0"})
	})

	t.Run("a stream of somebody else has its name", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("XADD", l.keys.events(), "*", "temperature", "21")
		before := l.redis.Dump(t.Context(), l.keys.events()).Val()
		triggered(l, "one")
		l.same("the foreign value", l.redis.Dump(t.Context(), l.keys.events()).Val() == before, true)
		l.same("pending", l.members(l.keys.pending()), []string{"0"})
	})

	t.Run("somebody has emptied it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.do("XADD", l.keys.events(), "7-5", "type", "old")
		l.do("XTRIM", l.keys.events(), "MAXLEN", "0")
		triggered(l, "one")
		l.same("the log", l.log(), []string{"0-3 checkpoint.triggered"})
	})

	t.Run("the server has lost what it had confirmed", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "orders")
		l.record(4, values{"start": decimal(labTime - 60_001)})
		l.do("HSET", l.keys.job(), "next", 5, "runid", "0123456789abcdef", "evlast", "0-7", "d_tolerate", 9)
		triggered(l, "one")
		triggered(l, "two")
		l.same("the log", l.log(), []string{
			"0-1008 checkpoint.expired", "0-1009 job.failing", "0-1010 checkpoint.triggered", "0-1011 checkpoint.triggered",
		})
	})
}

func TestALogKeepsAtLeastWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	args := aTrigger("")
	args.defaults.EventsToKeep, args.defaults.MaxConcurrent = 120, 1000
	for i := range 500 {
		args.token = decimal(int64(i))
		l.word(l.run(triggerScript, args.list()...), "ok")
	}
	kept := len(l.log())
	if kept < 120 || kept > 400 {
		t.Errorf("of 500 events %d are left, want a little more than 120", kept)
	}
	l.same("noted for who is not told", l.field(l.keys.job(), "d_events"), "120")
	for id := range int64(300) {
		l.word(l.run(abortScript, id, "", "0", "", "", "t"), "ok")
	}
	if kept := len(l.log()); kept < 120 || kept > 400 {
		t.Errorf("after steps that nobody told %d are left, want a little more than 120", kept)
	}
}

func TestEachStepWakesOnce(t *testing.T) {
	t.Parallel()
	for _, job := range []string{"orders", coordinator.DefaultJob} {
		l := newLab(t, job)
		subscription := l.redis.Subscribe(t.Context(), wakeChannel(l.server.Prefix))
		t.Cleanup(func() { _ = subscription.Close() })
		if _, err := subscription.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.record(0, values{})
		l.record(1, values{"start": decimal(labTime - 60_001)})
		l.word(l.run(recoverScript, repeatName(repeatCall, "t"), repeatKeyMs, "t", "f", 0, "1"), "ok")
		l.same("events", len(l.log()), 4)
		l.word(l.run(extendScript, 0, 1), "checkpoint_aborted")
		l.do("PUBLISH", wakeChannel(l.server.Prefix), "the end")
		for _, want := range []string{job, "the end"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			message, err := subscription.ReceiveMessage(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			l.same("message", message.Payload, want)
		}
	}
}

// An ACL may forbid to publish: everything else works.
func TestWhoMayNotPublishStillTriggers(t *testing.T) {
	t.Parallel()
	l := labOn(t, redistest.Start(t, redistest.Options{Own: true}), "orders")
	l.do("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "-publish", "resetchannels")
	options := *l.redis.Options()
	options.Username, options.Password = "mute", "secret"
	mute := redis.NewClient(&options)
	t.Cleanup(func() { _ = mute.Close() })
	l.redis = mute
	l.word(l.run(triggerScript, aTrigger("one").list()...), "ok")
	l.same("the log", l.log(), []string{"0-1 checkpoint.triggered"})
}
