package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
)

// lookAgain is how often the files of tokens and certificates are read: often enough that a
// withdrawn token is one within two seconds, and the files are small.
const lookAgain = time.Second

// credentials are files that say who may come in.
type credentials interface {
	Reload() (changed bool, err error)
	Broken() error
}

// watched is one kind of them, "tokens" or "tls".
type watched struct {
	kind  string
	files credentials
}

// openDoors reads the files that say who may come in.
func (s *Server) openDoors() error {
	var err error
	if s.config.Tokens != "" {
		if s.tokens, err = doors.OpenTokens(s.config.Tokens); err != nil {
			return fmt.Errorf("--tokens: %w", err)
		}
		s.watch("tokens", s.tokens)
	}
	if s.config.TLSCert != "" {
		if s.certificates, err = openCertificates(&s.config); err != nil {
			return err
		}
		s.watch("tls", s.certificates)
	}
	return nil
}

func (s *Server) watch(kind string, files credentials) {
	s.doors = append(s.doors, watched{kind, files})
	s.metrics.credentialsValid.WithLabelValues(kind).Set(1)
}

// caller finds who sent a request, for the log and the handlers.
func (s *Server) caller(r *http.Request) *doors.Caller {
	if s.tokens == nil {
		return doors.Anyone
	}
	connection := r.TLS
	if connection == nil || len(connection.VerifiedChains) == 0 {
		return s.tokens.Caller(r)
	}
	if _, trusted := s.certificates.trust(connection); !trusted {
		// Its connection is older than the authorities of now.
		r = r.WithContext(r.Context())
		r.TLS = nil
		return s.tokens.Caller(r)
	}
	caller := s.tokens.Caller(r)
	if r.Header["Authorization"] != nil {
		return caller // its token is what it is known by
	}
	return caller.Believed(func(done <-chan struct{}) bool { return s.certificates.distrusted(connection, done) })
}

// callerOf gives who was found when the request came in.
func callerOf(r *http.Request) *doors.Caller {
	caller, _ := r.Context().Value(callerKey{}).(*doors.Caller)
	return caller
}

type callerKey struct{}

// public are the paths that need no token.
func (s *Server) public() map[string]bool {
	paths := map[string]bool{}
	for _, name := range s.config.Public {
		paths["/"+name] = true
	}
	return paths
}

// ready is the store's health, and what is wrong with the files that say who may come in.
func (s *Server) ready(ctx context.Context) ([]coordinator.Warning, error) {
	warnings, err := s.coordinator.Health(ctx)
	for _, door := range s.doors {
		if door.files.Broken() != nil {
			warnings = append(warnings, coordinator.Warning{
				Code:   door.kind + "_files",
				Detail: fmt.Sprintf("The files of %s are not valid any more, so those of before hold. The server's log says what is wrong; mend them.", door.kind),
			})
		}
	}
	if s.asksForNoCertificate() {
		warnings = append(warnings, coordinator.Warning{Code: "tokens_certificates", Detail: certificatesUnasked})
	}
	return warnings, err
}

const certificatesUnasked = "The tokens file has callers that are known by a client certificate, and without --tls-client-ca the server asks nobody for one: they cannot come in."

// asksForNoCertificate tells whether the tokens file counts on certificates that nobody is asked for.
func (s *Server) asksForNoCertificate() bool {
	return s.tokens != nil && s.config.TLSClientCA == "" && s.tokens.AnyByCertificate()
}

func (s *Server) warnOfCertificates() {
	if s.asksForNoCertificate() {
		s.log.Warn().Msg(certificatesUnasked)
	}
}

// watchDoors reads the files again on SIGHUP, and when they have changed.
func (s *Server) watchDoors(ctx context.Context) {
	if len(s.doors) == 0 {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	s.background.Go(func() {
		defer signal.Stop(hangup)
		ticks := time.NewTicker(s.lookAgain)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
			case <-ticks.C:
			}
			for _, door := range s.doors {
				noted := make(chan struct{})
				go func() { // it may wait for a file system that is away, and the end must not
					defer close(noted)
					s.note(door)
				}()
				select {
				case <-ctx.Done():
					return
				case <-noted:
				}
			}
		}
	})
}

// note reads one kind of files again and says what came of it, once.
func (s *Server) note(door watched) {
	changed, err := door.files.Reload()
	valid := s.metrics.credentialsValid.WithLabelValues(door.kind)
	switch {
	case !changed:
	case err != nil:
		valid.Set(0)
		s.log.Error().Err(err).Str("files", door.kind).Msg("what was read before holds on")
	default:
		valid.Set(1)
		s.log.Info().Str("files", door.kind).Msg("read again")
		if door.kind == "tokens" {
			s.warnOfCertificates()
		}
	}
}

// loopback tells whether only this machine reaches an address.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // it is refused for another reason
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
