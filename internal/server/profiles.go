package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
)

// startProfiles serves Go's profiles at --pprof, on a listener of its own: who reaches the
// API does not reach them. They tell what the process does, down to its command line, and
// a request for one costs processor time.
func (s *Server) startProfiles(ctx context.Context) error {
	if s.config.Pprof == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.config.Pprof)
	if err != nil {
		return fmt.Errorf("listening for --pprof on %s: %w", s.config.Pprof, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	var handler http.Handler = mux
	if loopback(s.config.Pprof) {
		handler = localOnly(mux)
	}
	// A profile is written for as long as it was asked for, so there is no limit on that.
	s.profiles = &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ErrorLog: newHTTPErrorLog(s.log)}
	s.log.Info().Stringer("address", listener.Addr()).Msg("profiles are served")
	if !loopback(s.config.Pprof) {
		s.log.Warn().Msg("serving profiles to other machines: whoever reaches --pprof sees the inside of the process, with or without a token")
	}
	s.background.Go(func() {
		if err := s.profiles.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error().Err(err).Msg("profiles are not served any more")
		}
	})
	return nil
}

// stopProfiles breaks off what is being read: a drain is not to wait for a profile.
func (s *Server) stopProfiles() error {
	if s.profiles == nil {
		return nil
	}
	if err := s.profiles.Close(); err != nil {
		return fmt.Errorf("closing the listener of --pprof: %w", err)
	}
	return nil
}
