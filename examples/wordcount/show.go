package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// show lets the fleet count in peace and then in a storm, and compares.
func show(ctx context.Context, f *flags, stdout, stderr io.Writer) (err error) {
	say := transcript{stdout}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	folder, tidy, err := f.place()
	if err != nil {
		return err
	}
	defer func() { err = tidy(err) }()
	if f.server == "" {
		f.server = filepath.Join(folder, "checkpointd")
		if err := buildServer(ctx, f.server); err != nil {
			return err
		}
	}
	words, err := readText(ctx, f.text, f.lines)
	if err != nil {
		return err
	}
	want, err := count(words)
	if err != nil {
		return err
	}
	say.linef("text     %d lines in %d partitions, %d keys of state", words.size(), len(words), strings.Count(string(want.state), "\n"))

	bar := newBar(stderr)
	stormy := forecast(f.seed, f.kills, f.serverKills, f.workers, f.gap)
	for _, weather := range []struct {
		name  string
		storm storm
		pace  float64
	}{
		{"calm", nil, float64(f.lines) / partitions / (calmCheckpoints * f.interval).Seconds()},
		{"storm", stormy, f.pace},
	} {
		say.linef("%-8s %s", weather.name, f.forecast(weather.storm))
		t, err := f.trial(ctx, program, folder, weather.name, words)
		if err != nil {
			return err
		}
		t.fixed = weather.pace
		stop := bar.follow(t)
		got, err := t.run(ctx, f.workers[0], weather.storm)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", weather.name, err)
		}
		got.summarize(say)
		if err := differ(got, want); err != nil {
			return fmt.Errorf("%s: NOT EXACTLY ONCE: %w", weather.name, err)
		}
		say.linef("         state and output are those of a plain loop over the text, byte by byte")
	}
	return nil
}

// transcript is what the driver says.
type transcript struct{ to io.Writer }

// linef says a line. Nobody is there to be told that nobody listens.
func (t transcript) linef(format string, arguments ...any) {
	_, _ = fmt.Fprintf(t.to, format+"\n", arguments...)
}

// place is where everything goes; tidy ends with it, and says where it is when it is still needed.
func (f *flags) place() (folder string, tidy func(error) error, err error) {
	if f.folder != "" {
		if entries, err := os.ReadDir(f.folder); err == nil && len(entries) > 0 {
			return "", nil, fmt.Errorf("the folder %s is not empty", f.folder)
		}
		if err := os.MkdirAll(f.folder, 0o750); err != nil { //nolint:gosec // The user names it.
			return "", nil, fmt.Errorf("making the folder: %w", err)
		}
		if folder, err = filepath.Abs(f.folder); err != nil {
			return "", nil, fmt.Errorf("making the folder: %w", err)
		}
		return folder, func(err error) error { return err }, nil
	}
	if folder, err = os.MkdirTemp("", "wordcount-"); err != nil {
		return "", nil, fmt.Errorf("making the folder: %w", err)
	}
	return folder, func(err error) error {
		if err != nil {
			return fmt.Errorf("%w\nlogs and output are in %s", err, folder)
		}
		return os.RemoveAll(folder) //nolint:gosec // It was made above.
	}, nil
}

// calmCheckpoints is about how many there are in a trial without faults.
const calmCheckpoints = 3

// forecast says in words what is going to happen.
func (f *flags) forecast(s storm) string {
	if len(s) == 0 {
		return fmt.Sprintf("%d workers, nothing is killed", f.workers[0])
	}
	sizes := strings.ReplaceAll(strings.Trim(fmt.Sprint(f.workers), "[]"), " ", ", then ")
	return fmt.Sprintf("%s workers; kill -9 of %s, and of the server %s (-seed %d)", sizes, counted(f.kills, "worker"), counted(f.serverKills, "time"), f.seed)
}

// counted is a number with its noun.
func counted[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// trial prepares one with a folder, a server and a job of its own.
func (f *flags) trial(ctx context.Context, program, parent, name string, words text) (*trial, error) {
	folder, err := newFolder(parent, name, words)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	t := &trial{
		program: program, folder: folder, names: partitionNames(), size: words.size(), interval: f.interval, board: newBoard(),
		job: newJob("http://"+address, fmt.Sprintf("%s-%d", name, time.Now().UnixMilli())),
	}
	t.server = &server{
		binary: f.server, address: address, log: filepath.Join(folder, "server.log"), flags: []string{"--data", filepath.Join(folder, "data")},
		gone: func(c *child) { t.board.fail(errors.Join(errors.New("the server has ended by itself"), c.err)) },
	}
	if f.redis != "" {
		// The same prefix in each run, so that its servers clear away what those of an earlier run, which
		// were killed, have left.
		t.server.flags = []string{"--redis", f.redis, "--key-prefix", "wordcount:"}
	}
	return t, nil
}

// summarize says what went on.
func (o *outcome) summarize(to transcript) {
	killed, servers := o.struck.killed()
	to.linef("         in %s; checkpoints: %d completed, %d did not", o.took.Round(100*time.Millisecond), o.figures.Completed, o.figures.Failed)
	if len(o.struck) == 0 {
		return
	}
	to.linef("         kills: %d of workers, %d of the server, the last one when %.0f%% of the text was read", killed, servers, 100*o.reached)
	to.linef("         the fleet recovered %s, from %s, and read about %s again",
		counted(o.lives-1, "time"), counted(len(o.seen.origins), "different checkpoint"), counted(o.seen.again, "line"))
	to.linef("         of the batches in its sinks %d were committed and %d rolled back by the restores", o.seen.committed, o.seen.rolledBack)
}
