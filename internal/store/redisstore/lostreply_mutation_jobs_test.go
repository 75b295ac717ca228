package redisstore

import (
	"context"
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// labDefaults are a server's settings with a schedule.
func labDefaults() coordinator.Settings {
	return coordinator.Settings{RequiredTaskAcks: 1, TimeoutMs: 60_000, IntervalMs: 1000, MaxConcurrent: 2, EventsToKeep: 10_000}
}

func settingsCalls() []mutation {
	put := func(arrange func(l *lossyLab), settings coordinator.JobSettings, condition coordinator.Precondition) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			arrange(l)
			settings.NamedTasks = len(settings.Tasks)
			c := coordinator.PutJobCall{Job: l.job, Settings: settings, If: condition, Defaults: labDefaults(), Jitter: 0.5}
			return func(ctx context.Context) (any, error) { return l.store.PutJob(ctx, c) }
		}
	}
	nothing := func(*lossyLab) {}
	configured := func(l *lossyLab) {
		l.pending(1)
		_, err := l.store.PutJob(l.Context(), coordinator.PutJobCall{
			Job: l.job, Settings: coordinator.JobSettings{Tasks: []string{"z"}, NamedTasks: 1, Paused: true}, Defaults: labDefaults(),
		})
		l.ok(err)
	}
	many := coordinator.JobSettings{Description: "nightly"}
	for i := range 2*namesStep + 500 {
		many.Tasks = append(many.Tasks, fmt.Sprintf("task-%d", i))
	}
	return []mutation{
		{name: "first settings of a job", arrange: put(nothing, coordinator.JobSettings{Keep: new(2)}, coordinator.Precondition{IfNoneMatch: true})},
		{name: "settings in place of others", arrange: put(configured, coordinator.JobSettings{Tasks: []string{"b", "a"}, MaxConcurrent: new(3)}, coordinator.Precondition{IfMatch: []string{"1"}})},
		{name: "settings under a condition that is not met", arrange: put(configured, coordinator.JobSettings{}, coordinator.Precondition{IfMatch: []string{"7"}})},
		{name: "settings with more names than one step takes", arrange: put(configured, many, coordinator.Precondition{})},
	}
}

func schedules() []mutation {
	tick := func(arrange func(l *lossyLab)) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			l.pending(3)
			arrange(l)
			c := coordinator.DueCall{Job: l.job, Defaults: labDefaults(), Jitter: 0.5, Token: theToken}
			return func(ctx context.Context) (any, error) { return l.store.TriggerIfDue(ctx, c) }
		}
	}
	due := func(l *lossyLab, late int64, changed ...any) {
		l.do(append([]any{"HSET", l.keys.job(), "due", l.now}, changed...)...)
		l.now += late
	}
	return []mutation{
		{name: "first tick of a schedule", arrange: tick(func(*lossyLab) {})},
		{name: "tick before it is due", arrange: tick(func(l *lossyLab) { due(l, -1) })},
		{name: "tick that triggers", arrange: tick(func(l *lossyLab) { due(l, 3500) })},
		{name: "tick that triggers with the tasks of the settings", arrange: tick(func(l *lossyLab) {
			due(l, 0, "s_named", 2, "s_names", "settings")
			l.do("ZADD", l.keys.tasks("settings"), 0, "b", 1, "a")
		})},
		{name: "tick that triggers in place of an overdue one", unheard: true, arrange: tick(func(l *lossyLab) { due(l, 60_001) })},
		{name: "tick in the pause", arrange: tick(func(l *lossyLab) { due(l, 0, "okat", l.now-10, "s_minpause", 500) })},
		{name: "tick at the cap", arrange: tick(func(l *lossyLab) { due(l, 0, "s_pending", 1) })},
		{name: "tick of a paused schedule", arrange: tick(func(l *lossyLab) { due(l, 0, "s_paused", 1) })},
	}
}

func jobCalls() []mutation {
	remove := func(most int) func(l *lossyLab) call {
		return func(l *lossyLab) call {
			l.completed()
			l.pending(1, "a", "b")
			_, err := l.store.Update(l.Context(), coordinator.UpdateCall{Job: l.job, ID: l.completed(), Pinned: new(true)})
			l.ok(err)
			c := coordinator.DeleteJobCall{Job: l.job, Force: true, Max: most}
			return func(ctx context.Context) (any, error) { return l.store.DeleteJob(ctx, c) }
		}
	}
	return []mutation{
		{name: "delete a job", arrange: remove(10)},
		{name: "a step of deleting a job", arrange: remove(2)},
		{name: "forget a task", arrange: func(l *lossyLab) call {
			l.accept(l.pending(2), "a")
			return func(ctx context.Context) (any, error) { return nil, l.store.ForgetTask(ctx, l.job, "a") }
		}},
		{name: "record a restore of bytes", arrange: func(l *lossyLab) call {
			c := coordinator.RestoreRecord{CheckpointID: l.completed(), Bytes: 1 << 40, Finished: true, By: "10.0.0.1|curl"}
			return func(ctx context.Context) (any, error) { return nil, l.store.RecordRestore(ctx, l.job, c) }
		}},
	}
}
