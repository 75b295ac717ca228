package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Codes of the warnings of Health.
const (
	WarnEviction           = "redis_eviction"
	WarnEvictionUnknown    = "redis_eviction_unknown"
	WarnPersistence        = "redis_persistence"
	WarnPersistenceUnknown = "redis_persistence_unknown"
	WarnRunIDUnknown       = "redis_run_id_unknown"
	WarnVersion            = "redis_version"
)

// warningsLive is after how long the configuration is read again although nothing seems
// to have happened: CONFIG SET changes it without a trace.
const warningsLive = time.Minute

// Health pings Redis and gives the warnings about its configuration. That is read at the
// first call, whenever Redis was away or a connection was made anew, and once a minute.
func (s *Store) Health(ctx context.Context) ([]coordinator.Warning, error) {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	err := s.fetch(ctx, "ping", func(ctx context.Context) error { return s.client.Ping(ctx).Err() })
	if err != nil {
		return nil, err
	}
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	if !s.health.stale.Swap(false) && !s.health.readAt.IsZero() && time.Since(s.health.readAt) < warningsLive {
		return s.health.warnings, nil
	}
	var warnings []coordinator.Warning
	err = s.fetch(ctx, "info", func(ctx context.Context) error {
		facts, err := s.facts(ctx)
		warnings = facts.warnings()
		return err
	})
	if err != nil {
		s.health.stale.Store(true)
		return nil, err
	}
	s.health.readAt, s.health.warnings = time.Now(), warnings
	return warnings, nil
}

// facts are what the server says about itself; "" is what it does not say.
type facts struct {
	version, runID string
	policy         string
	aof            string
	// save are the points of RDB snapshots, and saveKnown tells whether it could be read:
	// no point at all is the empty string.
	save      string
	saveKnown bool
}

// facts asks the server. What it forbids stays unknown; an error is that it is away.
func (s *Store) facts(ctx context.Context) (facts, error) {
	var f facts
	for section, fields := range map[string]map[string]*string{
		"server":      {"redis_version": &f.version, "run_id": &f.runID},
		"memory":      {"maxmemory_policy": &f.policy},
		"persistence": {"aof_enabled": &f.aof},
	} {
		text, err := s.client.Info(ctx, section).Result()
		if away(err) {
			return f, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if field := fields[name]; field != nil {
				*field = value
			}
		}
	}
	saved, err := s.client.ConfigGet(ctx, "save").Result()
	if away(err) {
		return f, err
	}
	f.save, f.saveKnown = saved["save"]
	return f, nil
}

// away tells an error of the connection, or of a server that is not ready, from one that
// forbids a command.
func away(err error) bool {
	if err == nil {
		return false
	}
	what, _ := judge(err, false)
	return what != decided
}

// warnings are what an operator should change.
func (f facts) warnings() []coordinator.Warning {
	var found []coordinator.Warning
	warn := func(code, detail string, args ...any) {
		found = append(found, coordinator.Warning{Code: code, Detail: fmt.Sprintf(detail, args...)})
	}
	switch f.policy {
	case "noeviction":
	case "":
		warn(WarnEvictionUnknown, "Redis does not tell its maxmemory-policy. Make sure that it is noeviction: any other may drop parts of checkpoints.")
	default:
		warn(WarnEviction, "Redis has maxmemory-policy %s, which may drop parts of checkpoints when memory runs short. Set it to noeviction.", f.policy)
	}
	switch {
	case f.aof == "1", f.saveKnown && f.save != "":
	case f.aof == "" || !f.saveKnown:
		warn(WarnPersistenceUnknown, "Redis does not tell whether it persists anything. Make sure that it does, best with appendonly yes: otherwise a restart of Redis loses all checkpoints.")
	default:
		warn(WarnPersistence, "Redis persists nothing: a restart of it loses all checkpoints. Set appendonly yes.")
	}
	if f.runID == "" {
		warn(WarnRunIDUnknown, "Redis does not tell its run_id, so a failover that loses the last triggers is not noticed by it and ids may be given twice if every server restarts at the same time. Allow INFO.")
	}
	if f.version != "" && !atLeast(f.version, 6, 2) {
		warn(WarnVersion, "Redis has version %s; 6.2 or newer is needed. Some requests will fail.", f.version)
	}
	return found
}

// atLeast compares the first two numbers of a version; an unreadable one passes.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	have, err := strconv.Atoi(parts[0])
	if err != nil {
		return true
	}
	if have != major {
		return have > major
	}
	have, err = strconv.Atoi(parts[1])
	return err != nil || have >= minor
}

var _ coordinator.Store = (*Store)(nil)
