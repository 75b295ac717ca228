package filestore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// crashDir is the variable that makes the test binary a server that will be killed.
const crashDir = "CHECKPOINTD_FILESTORE_CRASH_DIR"

// keepAfterCrash is retention's number in the killed process: small, so that crashes also
// fall between a record's removal and that of its files.
const keepAfterCrash = 20

// workUntilKilled runs fleets on the store and writes a line for each answer, after it
// has got it: what stands on a line must never be missing again.
func workUntilKilled(dir string) {
	s, err := Open(dir, Options{})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	if err := configure(s); err != nil {
		fmt.Println("failed", err)
		return
	}
	var fleets sync.WaitGroup
	fleets.Go(func() {
		for {
			if err := oneTick(s); err != nil {
				fmt.Println("failed", err)
			}
		}
	})
	for range 8 {
		fleets.Go(func() {
			for {
				if err := oneCheckpoint(s); err != nil {
					fmt.Println("failed", err)
				}
			}
		})
	}
	fleets.Wait()
}

// scheduled is a job that triggers by itself.
const scheduled = "scheduled"

// configure gives the scheduled job its settings anew, which begins nothing anew.
func configure(s *Store) error {
	result, err := s.PutJob(context.Background(), coordinator.PutJobCall{
		Job: scheduled, Settings: coordinator.JobSettings{IntervalMs: new(int64(coordinator.MinIntervalMs)), Tasks: []string{"b", "a"}},
		Defaults: crashDefaults(),
	})
	if err == nil {
		fmt.Println("configured", result.State.Revision)
	}
	return err
}

func crashDefaults() coordinator.Settings {
	return coordinator.Settings{MaxConcurrent: 10_000, EventsToKeep: 1_000_000}
}

// oneTick lets the schedule trigger once more, and aborts what it triggered.
func oneTick(s *Store) error {
	ctx := context.Background()
	due, err := s.TriggerIfDue(ctx, coordinator.DueCall{Job: scheduled, Defaults: crashDefaults()})
	if err != nil {
		return err
	}
	if due.Triggered == nil { // the pace of a server; no test waits for it
		<-time.After(time.Duration(due.Schedule.Due-due.ObservedAt) * time.Millisecond)
		return nil
	}
	fmt.Println("ticked", due.Triggered.ID)
	_, err = s.Abort(ctx, coordinator.AbortCall{Job: scheduled, ID: due.Triggered.ID})
	return err
}

// oneCheckpoint triggers a checkpoint of two tasks, one with a small and one with a large
// part, and a shared entry.
func oneCheckpoint(s *Store) error {
	ctx := context.Background()
	triggered, err := s.Trigger(ctx, coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: 2, Defaults: crashDefaults()})
	if err != nil {
		return err
	}
	id := triggered.Checkpoint.ID
	fmt.Println("triggered", id)
	_, err = s.WriteShared(ctx, coordinator.SharedWrite{
		Job: coordinator.DefaultJob, ID: id, Op: coordinator.SharedPut, Entries: []coordinator.SharedEntry{{Key: "id", Value: fmt.Append(nil, id)}},
	})
	if err != nil {
		return err
	}
	fmt.Println("written", id)
	_, err = s.Acknowledge(ctx, coordinator.AckCall{
		Job: coordinator.DefaultJob, ID: id, Retention: coordinator.Retention{Keep: keepAfterCrash},
		Items: []coordinator.AckItem{{TaskID: "small", Part: content(smallContent(id))}},
	})
	if err != nil {
		return err
	}
	fmt.Println("acknowledged", id)
	upload, err := s.BeginUpload(ctx, coordinator.UploadCall{Job: coordinator.DefaultJob, ID: id, TaskID: "large"})
	if err != nil {
		return err
	}
	large := largeContent(id)
	if err := upload.WriteChunk(ctx, 0, large); err != nil {
		return err
	}
	info := coordinator.PartInfo{Entries: 1, Bytes: int64(len(large)), Digest: digestOf(large)}
	if _, err := upload.Commit(ctx, coordinator.CommitCall{Part: info, Ack: true, Retention: coordinator.Retention{Keep: keepAfterCrash}}); err != nil {
		return err
	}
	fmt.Println("completed", id)
	return nil
}

func smallContent(id int64) []byte { return fmt.Appendf(nil, "small part of %d", id) }

func largeContent(id int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "large part of %d\n", id), 1+InlineBytes/16)
}

func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	dir := t.TempDir()
	said := answers{said: map[int64][]string{}, tick: noCheckpoint}
	for round := range rounds {
		lines := 50 + rand.IntN(400)
		said.runAndKill(t, dir, lines)
		t.Logf("round %d: killed after %d answers", round, lines)
		said.verify(t, dir)
		if t.Failed() {
			return
		}
	}
}

// answers are what killed processes were heard to say, by checkpoint, in order.
type answers struct {
	said map[int64][]string
	// revision and tick are the last that were heard of the scheduled job's settings and of
	// the checkpoints that it triggered.
	revision, tick int64
}

// runAndKill starts a process and kills it after so many answers.
func (a *answers) runAndKill(t *testing.T, dir string, lines int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	heard := 0
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			break // a line that was cut short was not said
		}
		if err != nil {
			t.Fatal(err)
		}
		var what string
		var id int64
		if _, err := fmt.Sscan(line, &what, &id); err != nil {
			t.Fatalf("the process said %q", line)
		}
		a.hear(t, what, id)
		if heard++; heard == lines {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
}

func (a *answers) hear(t *testing.T, what string, id int64) {
	t.Helper()
	switch what {
	case "configured":
		if id <= a.revision {
			t.Errorf("revision %d came after %d", id, a.revision)
		}
		a.revision = id
	case "ticked":
		if id <= a.tick {
			t.Errorf("the schedule triggered %d after %d", id, a.tick)
		}
		a.tick = id
	default:
		if what == "triggered" && a.said[id] != nil {
			t.Errorf("id %d was given twice", id)
		}
		a.said[id] = append(a.said[id], what)
	}
}
