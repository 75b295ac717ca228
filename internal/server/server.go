package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/load"
	"github.com/checkpointd/checkpointd/internal/store/filestore"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
)

// Timeouts of the HTTP server. There is no limit on a whole request: uploads and
// restores may take hours; the handlers give each body a pace of its own.
const (
	readHeaderTimeout = 10 * time.Second
)

// Server is one checkpointd process. The order is New, Start, Stop. A failed Start has stopped the
// server; without Start, Stop only closes the store. Stop may be called at any time, by several at once.
type Server struct {
	config      Config
	log         zerolog.Logger
	store       coordinator.Store
	coordinator *coordinator.Coordinator
	http        *http.Server
	metrics     *metrics
	connections *connections
	// tokens and certificates are nil without --tokens and --tls-cert; doors are those that are not.
	tokens       *doors.Tokens
	certificates *certificates
	doors        []watched
	lookAgain    time.Duration
	profiles     *http.Server // nil without --pprof
	listener     net.Listener
	failed       chan struct{}
	failure      error // written before failed is closed
	background   sync.WaitGroup
	stopWork     context.CancelFunc
	draining     atomic.Bool
	drained      chan struct{} // closed when what waits for events has to end
	// starting is held by Start. Stop closes stopping, which ends a Start that waits, and then takes starting, so
	// that it finds all that Start has begun.
	starting sync.Mutex
	stopping chan struct{}
	stopOnce sync.Once
	stopped  error // what the one stop gave
}

// errStopped is what Start gives when Stop was called before the server served.
var errStopped = errors.New("the server was stopped before it served")

// New wires a server and opens its store. A Redis that is away is no error: the
// server starts, answers 503, and goes on when Redis is back. A folder that another
// process uses is one.
func New(config Config, logOutput io.Writer) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	log, err := newLogger(config, logOutput)
	if err != nil {
		return nil, err
	}
	metrics := newMetrics(config.MetricsJobs)
	observer := &observer{log: log, metrics: metrics}
	s := &Server{
		config: config, log: log, metrics: metrics, connections: newConnections(config.MaxConnections, metrics),
		lookAgain: lookAgain, failed: make(chan struct{}), drained: make(chan struct{}), stopping: make(chan struct{}),
	}
	if err := s.openDoors(); err != nil {
		return nil, err
	}
	store, err := openStore(config, observer)
	if err != nil {
		return nil, err
	}
	s.store = store
	s.coordinator = coordinator.New(store, coordinator.Options{
		Settings: config.Settings(), Observer: observer, Draining: s.drained,
	})
	metrics.registry.MustRegister(newJobsCollector(s.coordinator, &metrics.jobs))
	bounds := load.New(config.Limits())
	metrics.registry.MustRegister(newLoadCollector(bounds))
	api := handlers.New(s.coordinator, handlers.Options{
		RequestID:  requestID,
		OnError:    s.logError,
		Metrics:    metrics.handler(),
		Ready:      s.ready,
		Caller:     callerOf,
		Hosts:      s.hosts(),
		OnAdmitted: noteDemanded,
		Load:       bounds,
		Public:     s.public(),
		Draining:   s.draining.Load,
		OnDropped:  observer.EventsDropped,
	})
	s.http = &http.Server{
		Handler:           observeHTTP(log, metrics, s.caller, api),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    int(config.MaxHeader),
		ConnState:         s.connections.state,
		ErrorLog:          newHTTPErrorLog(log),
	}
	if s.certificates != nil {
		s.http.TLSConfig = s.certificates.tls()
		// Transfers are paced by the deadlines of their connection, which they have to themselves.
		s.http.Protocols = new(http.Protocols)
		s.http.Protocols.SetHTTP1(true)
	}
	return s, nil
}

func openStore(config Config, observer coordinator.Observer) (coordinator.Store, error) {
	if config.Redis != "" {
		store, err := redisstore.New(redisstore.Options{
			URL: config.Redis, CAFile: config.RedisCA, CertFile: config.RedisCert, KeyFile: config.RedisKey,
			MinReplicas: config.RedisMinReplicas,
			KeyPrefix:   config.KeyPrefix, Observer: observer,
		})
		if err != nil {
			return nil, fmt.Errorf("opening the Redis store: %w", err)
		}
		return store, nil
	}
	store, err := filestore.Open(config.Data, filestore.Options{Observer: observer})
	if err != nil {
		return nil, fmt.Errorf("opening the embedded store: %w", err)
	}
	return store, nil
}

// Start listens and serves in the background. Its context only bounds what Start itself waits for, a Redis to
// adopt from; a server that serves is ended by Stop. After an error nothing is left running, the store is closed,
// and the server cannot be started again.
func (s *Server) Start(ctx context.Context) error {
	err := s.begin(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
}

func (s *Server) begin(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := make(chan struct{})
	defer close(begun)
	go func() {
		select {
		case <-s.stopping:
			cancel(errStopped)
		case <-begun:
		}
	}()
	if err := s.startProfiles(ctx); err != nil {
		return err
	}
	if s.config.Adopt {
		if err := s.adopt(ctx); err != nil {
			return err
		}
	}
	select {
	case <-s.stopping:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("starting: %w", context.Cause(ctx))
	default:
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", s.config.Listen, err)
	}
	s.listener = listener
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopWork = stop
	s.background.Go(func() { s.coordinator.Run(work) })
	s.watchDoors(work)
	s.warnOfCertificates()
	s.log.Info().Str("version", Version()).Str("address", s.Addr()).Object("config", &s.config).Msg("checkpointd serves")
	s.background.Go(func() {
		if err := s.serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failure = fmt.Errorf("serving HTTP: %w", err)
			close(s.failed)
		}
	})
	return nil
}

func (s *Server) serve(listener net.Listener) error {
	listener = s.connections.listen(listener, s.certificates != nil)
	if s.certificates != nil {
		return s.http.ServeTLS(listener, "", "") //nolint:wrapcheck // Start wraps it.
	}
	if !loopback(s.config.Listen) {
		s.log.Warn().Bool("tokens", s.tokens != nil).Msg("serving other machines in the clear: give --tls-cert, or let a proxy do TLS")
	}
	return s.http.Serve(&plainListener{listener, s.log, s.metrics}) //nolint:wrapcheck // Start wraps it.
}

// Addr is the address that Start listens on, with the port that ":0" became.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the base URL of the server for clients on this machine.
func (s *Server) URL() string {
	if s.certificates != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// MarkDamaged marks a completed checkpoint as damaged, for tests of those who restore: it is no longer the latest,
// and restoring it is refused.
func (s *Server) MarkDamaged(ctx context.Context, job string, id int64) error {
	err := s.store.MarkDamaged(ctx, coordinator.DamageCall{Job: job, ID: id, What: "all of it"})
	if err != nil {
		return fmt.Errorf("marking checkpoint %d as damaged: %w", id, err)
	}
	return nil
}

// Failed is closed when serving ended by itself; Stop then gives the reason.
func (s *Server) Failed() <-chan struct{} { return s.failed }

// Stop drains: /readyz turns to 503, the listener closes after the drain delay, and
// running requests and restores get the drain timeout to finish; what is left is
// broken off. Everything answered before is in the store by then. A Start that still waits is ended. The first
// call stops, with its context; every other one waits until that is done and gives the same error.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		close(s.stopping)
		s.starting.Lock()
		defer s.starting.Unlock()
		s.stopped = s.stop(ctx)
	})
	return s.stopped
}

func (s *Server) stop(ctx context.Context) error {
	var faults []error
	if s.listener != nil {
		faults = append(faults, s.drain(ctx))
	}
	if s.stopWork != nil {
		s.stopWork()
	}
	faults = append(faults, s.stopProfiles())
	s.background.Wait()
	faults = append(faults, s.store.Close())
	select {
	case <-s.failed:
		faults = append(faults, s.failure)
	default:
	}
	err := errors.Join(faults...)
	s.log.Info().AnErr("error", err).Msg("checkpointd stopped")
	return err
}

func (s *Server) drain(ctx context.Context) error {
	s.draining.Store(true)
	s.log.Info().Stringer("delay", s.config.DrainDelay).Stringer("timeout", s.config.DrainTimeout).Msg("draining")
	if s.config.DrainDelay > 0 {
		select {
		case <-ctx.Done():
		case <-s.failed:
		case <-time.After(s.config.DrainDelay):
		}
	}
	// Who waits for events is sent away only now: during the delay it would come back here.
	close(s.drained)
	ctx, cancel := context.WithTimeout(ctx, s.config.DrainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		s.log.Warn().Msg("the drain timeout ran out; breaking off what still runs")
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	return nil
}

// logError writes the cause of an answer that hides it.
func (s *Server) logError(r *http.Request, err error) {
	s.log.Error().Err(err).Str("requestId", requestID(r)).Str("method", r.Method).
		Str("path", r.URL.EscapedPath()).Msg("request failed")
}
