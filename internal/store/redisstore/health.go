package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
	WarnClusterURL         = "redis_cluster_url"
	WarnClusterPart        = "redis_cluster_part"
	WarnReplicas           = "redis_replicas"
	WarnReplicasMissing    = "redis_replicas_missing"
	WarnReadOnly           = "redis_read_only"
	WarnFull               = "redis_full"
	WarnNewConnections     = "redis_new_connections"
)

// warningsLive is after how long the configuration is read again although nothing seems
// to have happened: CONFIG SET changes it without a trace.
const warningsLive = time.Minute

// fullPercent is how much of its maxmemory a Redis may use before that is a warning: what it counts
// comes and goes with its clients, and a part may be large.
const fullPercent = 95

// Health asks what requests ask: whether a script that writes would be run where the list of jobs is. It gives the warnings
// about the servers. Their configuration is read at the first call, whenever Redis was away, a connection was made anew
// or a server says another thing of its state, and once a minute. It also dials anew, which shows that the address has been moved to another server.
// An error is CodeStoreUnavailable, and says what Redis refuses if it does. A cluster
// of which only a part answers is a warning: the jobs of the others go on.
func (s *Store) Health(ctx context.Context) ([]coordinator.Warning, error) {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	strangers := s.visit(ctx)
	states := map[string]string{}
	if err := s.serves(ctx, states); err != nil {
		return nil, err
	}
	masters, silent, err := s.reach(ctx, states)
	if err != nil {
		return nil, err
	}
	about, err := s.configuration(ctx, masters, states)
	if err != nil {
		return nil, err
	}
	return slices.Concat(silent, strangers, about), nil
}

// serves tells whether the server that has the list of jobs takes changes, and adds its state to states. A refusal is
// asked for twice: the first may come by a connection that leads to the master of before.
func (s *Store) serves(ctx context.Context, states map[string]string) error {
	key := jobsKey(s.prefix)
	refused := false
	return s.fetchFrom(ctx, "health", key, func(ctx context.Context, node *redis.Client) error {
		state, err := stateOf(ctx, node, key)
		states[node.Options().Addr] = state
		if _, isReply := errors.AsType[redis.Error](err); !isReply && !caused(err) {
			return err
		}
		if refused {
			return unavailable("health", err)
		}
		refused = true
		return err
	})
}

// visit gives a warning where connections cannot be made anew, while requests go on with those that there are. Where
// there are none, they fail, and with them the rest of Health.
func (s *Store) visit(ctx context.Context) []coordinator.Warning {
	within, cancel := context.WithTimeout(ctx, callBudget/3)
	defer cancel()
	err := s.client.visit(within)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	s.health.stale.Store(true)
	why := "none could be made in time"
	if cause, known := coordinator.CauseOf(unavailable("dial anew", err)); known {
		why = cause.Says
	}
	detail := "No new connection to Redis can be made: " + why + ". Those that are open go on; see to it before they end."
	return []coordinator.Warning{{Code: WarnNewConnections, Detail: detail}}
}

// stateOf asks a server whether it takes changes, and in the same round trip for its state: what tells that its
// configuration has to be read again. A server that forbids to ask has none. key is one of the server's; without, it is only asked whether it answers.
func stateOf(ctx context.Context, node *redis.Client, key string) (state string, err error) {
	var replication, memory *redis.StringCmd
	ask := func(pipe redis.Pipeliner) {
		replication, memory = pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory")
	}
	if key != "" {
		_, err = proven(ctx, node, key, ask)
	} else {
		pipe := node.Pipeline()
		ping := pipe.Ping(ctx)
		ask(pipe)
		_, _ = pipe.Exec(ctx) // each command has its own error
		err = ping.Err()
	}
	if err != nil {
		return "", err
	}
	var f facts
	f.read(replication.Val())
	f.read(memory.Val())
	if key != "" && f.isSevered() {
		return "", demoted(severed)
	}
	return strings.Join([]string{f.role, f.readOnly, f.replicas, f.good, strconv.FormatBool(f.isFull())}, " "), nil
}

// reach gives the servers of a cluster that answer, and a warning about the others. A lone server is
// taken to answer. It adds the state of each to states.
func (s *Store) reach(ctx context.Context, states map[string]string) (reached []*redis.Client, silent []coordinator.Warning, err error) {
	masters, err := s.client.masters(ctx)
	if err != nil {
		return nil, nil, unavailable("find the masters", err)
	}
	if s.client.cluster == nil {
		return masters, nil, nil
	}
	var pings sync.WaitGroup
	answers, found := make([]error, len(masters)), make([]string, len(masters))
	for i, node := range masters {
		pings.Go(func() {
			within, cancel := context.WithTimeout(ctx, callBudget/2)
			defer cancel()
			found[i], answers[i] = stateOf(within, node, "")
		})
	}
	pings.Wait()
	var away []string
	for i, node := range masters {
		if answers[i] == nil {
			reached = append(reached, node)
			states[node.Options().Addr] = found[i]
		} else {
			away = append(away, node.Options().Addr)
		}
	}
	if len(away) > 0 {
		slices.Sort(away)
		silent = append(silent, coordinator.Warning{Code: WarnClusterPart, Detail: fmt.Sprintf(
			"Of the cluster's masters %s does not answer: the jobs that it has are not available.", strings.Join(away, ", "))})
	}
	return reached, silent, nil
}

// configuration gives the warnings about the servers' configuration, one of each kind. Servers in
// other states than before are asked again.
func (s *Store) configuration(ctx context.Context, masters []*redis.Client, states map[string]string) ([]coordinator.Warning, error) {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	if !s.health.stale.Swap(false) && maps.Equal(states, s.health.states) && !s.health.readAt.IsZero() && time.Since(s.health.readAt) < warningsLive {
		return s.health.warnings, nil
	}
	var warnings []coordinator.Warning
	for _, node := range masters {
		var found facts
		err := s.fetch(ctx, "info", func(ctx context.Context) (err error) {
			found, err = factsOf(ctx, node)
			return err
		})
		if err != nil {
			s.health.stale.Store(true)
			return nil, err
		}
		if s.client.cluster != nil {
			found.address = " " + node.Options().Addr
		}
		for _, warning := range found.warnings(s.client.cluster != nil, s.minReplicas) {
			if !slices.ContainsFunc(warnings, func(w coordinator.Warning) bool { return w.Code == warning.Code }) {
				warnings = append(warnings, warning)
			}
		}
	}
	s.health.readAt, s.health.warnings, s.health.states = time.Now(), warnings, states
	return warnings, nil
}

// facts are what the server says about itself; "" is what it does not say.
type facts struct {
	// address follows the word Redis in a sentence, "" where there is only one.
	address        string
	version, runID string
	mode           string
	role, readOnly string
	replicas       string
	// link is "up" where a replica hears its master.
	link string
	// good are the replicas that min-replicas-to-write counts, and needed is how many that demands; good is "" where it demands none.
	good, needed string
	// used, limit and uncounted are bytes: a server refuses what takes memory while used without uncounted is above limit.
	used, limit, uncounted string
	policy                 string
	aof                    string
	// save are the points of RDB snapshots, and saveKnown tells whether it could be read:
	// no point at all is the empty string.
	save      string
	saveKnown bool
}

// read takes what a section of INFO says.
func (f *facts) read(text string) {
	fields := map[string]*string{
		"redis_version": &f.version, "run_id": &f.runID, "redis_mode": &f.mode,
		"role": &f.role, "slave_read_only": &f.readOnly, "master_link_status": &f.link, "connected_slaves": &f.replicas, "min_slaves_good_slaves": &f.good,
		"maxmemory_policy": &f.policy, "used_memory": &f.used, "maxmemory": &f.limit, "mem_not_counted_for_evict": &f.uncounted,
		"aof_enabled": &f.aof,
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field := fields[name]; field != nil {
			*field = value
		}
	}
}

// factsOf asks a server. What it forbids stays unknown; an error is that it is away.
func factsOf(ctx context.Context, node *redis.Client) (facts, error) {
	var f facts
	pipe := node.Pipeline()
	sections := []*redis.StringCmd{pipe.Info(ctx, "server"), pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory"), pipe.Info(ctx, "persistence")}
	saved, demanded := pipe.ConfigGet(ctx, "save"), pipe.ConfigGet(ctx, "min-replicas-to-write")
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, section := range sections {
		if err := section.Err(); away(err) {
			return f, err
		}
		f.read(section.Val())
	}
	for _, setting := range []*redis.MapStringStringCmd{saved, demanded} {
		if err := setting.Err(); away(err) {
			return f, err
		}
	}
	f.save, f.saveKnown = saved.Val()["save"]
	f.needed = demanded.Val()["min-replicas-to-write"]
	return f, nil
}

// isFull tells whether a server that drops nothing has next to no memory left.
func (f *facts) isFull() bool {
	limit, _ := strconv.ParseInt(f.limit, 10, 64)
	used, _ := strconv.ParseInt(f.used, 10, 64)
	uncounted, _ := strconv.ParseInt(f.uncounted, 10, 64)
	return limit > 0 && f.policy == "noeviction" && used-uncounted > limit/100*fullPercent
}

// isSevered tells of a replica that does not hear its master.
func (f *facts) isSevered() bool { return f.role == "slave" && f.link == "down" }

// misses tells whether a server has fewer replicas than its own configuration demands.
func (f *facts) misses() bool {
	good, err := strconv.Atoi(f.good)
	if err != nil {
		return false
	}
	needed, err := strconv.Atoi(f.needed)
	if err != nil {
		needed = 1 // it does not tell, and counts them only if it demands any
	}
	return good < needed
}

// away tells an error of the connection, or of a server that does not work, from one that
// forbids a command.
func away(err error) bool {
	answered, isReply := errors.AsType[redis.Error](err)
	if !isReply {
		return err != nil
	}
	why := says(answered.Error())
	return why != noPermission && why != unknownCommand
}

// warnings are what an operator should change.
func (f facts) warnings(asCluster bool, minReplicas int) []coordinator.Warning {
	var found []coordinator.Warning
	warn := func(code, detail string, args ...any) {
		text := fmt.Sprintf(detail, args...)
		found = append(found, coordinator.Warning{Code: code, Detail: "Redis" + f.address + strings.TrimPrefix(text, "Redis")})
	}
	if f.mode == "cluster" && !asCluster {
		warn(WarnClusterURL, "Redis is a node of a cluster, which has the keys of some jobs only. Begin its URL with redis+cluster:// or rediss+cluster://.")
	}
	if n, err := strconv.Atoi(f.replicas); err == nil && n < minReplicas {
		warn(WarnReplicas, "Redis has %d replicas and --redis-min-replicas demands %d: every change is answered not_replicated.", n, minReplicas)
	}
	if f.role == "slave" && f.readOnly == "1" {
		warn(WarnReadOnly, "Redis is a read-only replica: every change is refused. Name its master in --redis, or promote it (REPLICAOF NO ONE).")
	}
	if f.misses() {
		warn(WarnReplicasMissing, "Redis has %s replicas in time and its min-replicas-to-write demands %s: it refuses every change, which is answered store_unavailable.", f.good, cmp.Or(f.needed, "more"))
	}
	if f.isFull() {
		warn(WarnFull, "Redis uses more than %d %% of its maxmemory (%s bytes): what takes memory is answered store_full once there is none left. Delete checkpoints (POST /checkpoints/cleanup), or raise it.", fullPercent, f.limit)
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

// Alive is always well: a Redis that is away, or refuses, may be as it should again without a new start.
func (*Store) Alive() error { return nil }
