package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// news renders the events since the last look. Where one step brings about several
// changes at once, of which none causes another, their order is a store's own affair: that
// of expiries, and that of deletions.
func (p *player) news() string {
	var place coordinator.EventID
	if len(p.places) > 0 {
		place = p.places[len(p.places)-1]
	}
	var lines, deletions []string
	expired := 0
	for _, e := range p.rig.eventsAfter(place) {
		if place.Seq+1 != e.ID.Seq || place.Epoch > e.ID.Epoch {
			p.violations = append(p.violations, fmt.Sprintf("event %v follows %v", e.ID, place))
		}
		place = e.ID
		p.places = append(p.places, place)
		switch e.Type {
		case coordinator.EventDeleted:
			deletions = append(deletions, p.event(&e))
			continue
		case coordinator.EventExpired:
			expired++
		default:
		}
		lines = append(lines, p.event(&e))
	}
	if expired > 1 {
		for i, line := range lines {
			if strings.HasPrefix(line, string(coordinator.EventFailing)) {
				lines[i] = string(coordinator.EventFailing)
			}
		}
		slices.Sort(lines)
	}
	slices.Sort(deletions)
	return strings.Join(slices.Concat(lines, deletions), "\n")
}

func (p *player) event(e *coordinator.Event) string {
	about := "none"
	if e.CheckpointID >= 0 {
		about = p.number(e.CheckpointID)
	}
	text := fmt.Sprintf("%s %s epoch %d at %d", e.Type, about, e.ID.Epoch, since(e.At))
	if e.Status != "" {
		text += fmt.Sprintf(" %s acked %d/%d missing %q deadline %d duration %d entries %d bytes %d why %q",
			e.Status, e.AcknowledgedTasks, e.RequiredTaskAcks, e.MissingTasks, since(e.Deadline), e.DurationMs, e.Entries, e.Bytes, e.Why)
	}
	if e.Failure != nil {
		text += fmt.Sprintf(" failure %+v", *e.Failure)
	}
	return text + fmt.Sprintf(" pinned %v aside %v failures %d by %q", e.Pinned, e.SetAside, e.ConsecutiveFailures, e.By)
}

// resume reads on from an event that was read before: exactly those after it follow.
func (p *player) resume(n, limit int) {
	if len(p.places) == 0 {
		return
	}
	n %= len(p.places)
	page := p.rig.events(p.places[n], limit)
	want := p.places[n+1:]
	want = want[:min(len(want), limit)]
	var got []coordinator.EventID
	for _, e := range page.Events {
		got = append(got, e.ID)
	}
	if page.Gap || !slices.Equal(got, want) || page.Position != p.places[len(p.places)-1] {
		p.violations = append(p.violations, fmt.Sprintf("after %v: gap %v, %v up to %v, want %v of %v", p.places[n], page.Gap, got, page.Position, want, p.places))
	}
}

// job renders what does not depend on when an expiry is written.
func (p *player) job(j *coordinator.JobState) string {
	return fmt.Sprintf("epoch %d pending %d latest %s at %d completed at %d configured %v %s\n%s",
		j.Epoch, j.Pending, p.named(j.LatestID), since(j.LatestAt), since(j.LastCompletedAt), j.Configured, settingsText(&j.Settings), p.schedule(j.Schedule))
}

func (p *player) named(id int64) string {
	if id < 0 {
		return "none"
	}
	return p.number(id)
}

func (p *player) schedule(s coordinator.ScheduleState) string {
	return fmt.Sprintf("due %d last %q at %d made %s triggered %d skipped %d missed %d",
		since(s.Due), s.Last, since(s.LastAt), p.named(s.LastID), s.Triggered, s.Skipped, s.Missed)
}

func settingsText(s *coordinator.JobSettings) string {
	var b strings.Builder
	for name, value := range map[string]*int{"required": s.RequiredTaskAcks, "cap": s.MaxConcurrent, "tolerable": s.TolerableFailures, "keep": s.Keep} {
		if value != nil {
			fmt.Fprintf(&b, "%s %d\n", name, *value)
		}
	}
	for name, value := range map[string]*int64{"timeout": s.TimeoutMs, "interval": s.IntervalMs, "pause": s.MinPauseMs, "age": s.MaxAgeMs, "bytes": s.MaxBytes} {
		if value != nil {
			fmt.Fprintf(&b, "%s %d\n", name, *value)
		}
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return fmt.Sprintf("settings %s tasks %d paused %v %q", strings.Join(lines, " "), s.NamedTasks, s.Paused, s.Description)
}

// standing renders the rest of what a job is, which does depend on it. Of several failures
// at once any may be the last.
func (p *player) standing() string {
	history := p.rig.history()
	state := history.State
	if all := p.rig.state(); all.ConsecutiveFailures != state.ConsecutiveFailures || all.Failing != state.Failing || all.LastEvent != state.LastEvent {
		p.violations = append(p.violations, fmt.Sprintf("the job is %+v among all and %+v in its history", all, state))
	}
	lines := []string{
		p.job(&state),
		fmt.Sprintf("failures %d failing %v", state.ConsecutiveFailures, state.Failing),
		fmt.Sprintf("counts %+v", history.Counts),
	}
	if last := state.LastFailure; last != nil {
		lines = append(lines, fmt.Sprintf("last failure %s at %d", last.Reason, since(last.At)))
	}
	for _, sample := range history.Samples {
		lines = append(lines, fmt.Sprintf("%s completed at %d in %d, %d entries %d bytes %d acks last %q",
			p.number(sample.CheckpointID), since(sample.CompletedAt), sample.DurationMs, sample.Entries, sample.Bytes, sample.Acks, sample.LastTask))
	}
	for _, restore := range history.Restores {
		lines = append(lines, fmt.Sprintf("restore at %d of %d bytes finished %v by %s", since(restore.At), restore.Bytes, restore.Finished, restore.By))
	}
	return strings.Join(lines, "\n")
}
