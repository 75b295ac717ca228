package server

import (
	"context"
	"errors"
	"net"
	"time"
)

// LookAgainEvery changes how often the files of tokens and certificates are read, before Start.
func (s *Server) LookAgainEvery(pause time.Duration) { s.lookAgain = pause }

// ServeOn serves a listener, without what Start does besides.
func (s *Server) ServeOn(listener net.Listener) error { return s.serve(listener) }

// StopServing ends what ServeOn has begun, and the store.
func (s *Server) StopServing(ctx context.Context) error {
	return errors.Join(s.http.Shutdown(ctx), s.store.Close())
}

// WatchHeldUp has the server read files, from Start on, that take until release is closed; reading
// gets a value each time.
func (s *Server) WatchHeldUp(reading chan<- struct{}, release <-chan struct{}) {
	s.watch("held-up", &heldUp{reading, release})
}

type heldUp struct {
	reading chan<- struct{}
	release <-chan struct{}
}

// Reload waits.
func (h *heldUp) Reload() (changed bool, err error) {
	h.reading <- struct{}{}
	<-h.release
	return false, nil
}

// Broken is nothing.
func (h *heldUp) Broken() error { return nil }
