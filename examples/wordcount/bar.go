package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows how far a fleet is, where there is a terminal.
type bar struct {
	to      io.Writer
	visible bool
}

func newBar(to io.Writer) *bar {
	file, is := to.(*os.File)
	return &bar{to: to, visible: is && term.IsTerminal(int(file.Fd()))}
}

// follow shows a trial until it is stopped.
func (b *bar) follow(t *trial) (stop func()) {
	if !b.visible {
		return func() {}
	}
	line := progressbar.NewOptions64(t.size,
		progressbar.OptionSetWriter(b.to), progressbar.OptionSetWidth(20), progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			now, changed, _ := t.board.look()
			line.Describe(now.describe())
			_ = line.Set64(now.read()) // a bar that cannot be drawn harms nobody
			select {
			case <-changed:
			case <-ctx.Done():
				_ = line.Clear()
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// describe says what the fleet is at.
func (s *seen) describe() string {
	return fmt.Sprintf("%2d kills  %-30s", s.kills, s.transfer)
}
