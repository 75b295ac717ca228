package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/bench/process"
)

func TestAProcessIsMeasuredAndEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	group := process.Group{Folder: t.TempDir()}
	p, err := group.Start("busy", "sh", "-c", "echo ready; while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error {
		head, err := p.Head()
		if err == nil && string(head) != "ready\n" {
			err = errors.New("not ready")
		}
		return err
	}
	if err := p.Await(t.Context(), ready); err != nil {
		t.Fatal(err)
	}
	used := func(context.Context) error {
		cpu, err := p.CPU()
		if err == nil && cpu < 50*time.Millisecond {
			err = errors.New("it has used no time yet")
		}
		return err
	}
	if err := p.Await(t.Context(), used); err != nil {
		t.Error(err)
	}
	if err := p.ForgetPeak(); err != nil {
		t.Error(err)
	}
	if m, err := p.Memory(); err != nil || m.Now <= 0 || m.Peak < m.Now || m.Peak > 1<<30 {
		t.Errorf("memory %+v, %v", m, err)
	}
	group.StopAll()
	if cpu, err := p.CPU(); err == nil {
		t.Errorf("after the end it has used %s", cpu)
	}
	if left, _ := filepath.Glob(filepath.Join(group.Folder, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	group := process.Group{Folder: t.TempDir()}
	p, err := group.Start("deaf", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(t.Context(), func(context.Context) error {
		if head, err := p.Head(); err != nil || len(head) == 0 {
			return errors.New("not ready")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	group.Stop(p)
	if _, err := p.CPU(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it goes on: %v", err)
	}
}

func TestAProcessThatEndsInsteadOfServingIsReportedWithItsLog(t *testing.T) {
	t.Parallel()
	group := process.Group{Folder: t.TempDir()}
	p, err := group.Start("short", "sh", "-c", "echo the port is taken; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(t.Context(), func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "the port is taken") || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	group.StopAll()
}
