package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore"
)

// Config is everything that an operator can set. The tags are kong's: every flag is
// also CHECKPOINTD_<FLAG> in the environment, and a flag wins over it.
type Config struct {
	Listen string `default:"127.0.0.1:8080" help:"Address to serve HTTP on. Beyond loopback it needs --tokens, or --insecure." placeholder:"HOST:PORT"`

	Tokens      string   `help:"File of the tokens that callers must have; read again on SIGHUP and when it changes. Without it there is no authentication." placeholder:"FILE"`
	Insecure    bool     `help:"Serve beyond loopback without --tokens (--pprof even with them), and under any name: whoever reaches the address may do everything."`
	Public      []string `default:"healthz,readyz" enum:"healthz,readyz,metrics,limits,openapi.yaml" help:"What needs no token (healthz, readyz, metrics, limits, openapi.yaml)." placeholder:"NAMES"`
	TLSCert     string   `name:"tls-cert" help:"Serve HTTPS with this certificate (PEM, with those between it and its authority); read again on SIGHUP and when it changes." placeholder:"FILE"`
	TLSKey      string   `name:"tls-key" help:"Key of --tls-cert (PEM)." placeholder:"FILE"`
	TLSClientCA string   `name:"tls-client-ca" help:"Take client certificates of these authorities (PEM) for tokens, by the names that the tokens file has as certificate." placeholder:"FILE"`

	Redis            string `help:"Keep everything in this Redis: redis://, rediss:// (TLS) or unix://, redis+sentinel:// or redis+cluster:// with several hosts, rediss+… for TLS (docs/redis.md). Without it the embedded store in --data is used." placeholder:"URL"`
	RedisCA          string `name:"redis-ca" help:"Trust a Redis with TLS by these authorities (PEM) instead of the system's." placeholder:"FILE"`
	RedisCert        string `name:"redis-cert" help:"Certificate (PEM) for a Redis that asks its clients for one." placeholder:"FILE"`
	RedisKey         string `name:"redis-key" help:"Key of --redis-cert (PEM)." placeholder:"FILE"`
	RedisMinReplicas int    `default:"0" help:"Answer a change only when so many replicas of Redis have it, and otherwise 503 not_replicated; 0 waits for none (docs/durability.md)." placeholder:"N"`
	Data             string `default:"checkpointd-data" help:"Folder of the embedded store; made when absent, used by one process at a time." placeholder:"DIR"`
	KeyPrefix        string `default:"checkpoint:" help:"Prefix of every Redis key; braces are refused." placeholder:"PREFIX"`
	Adopt            bool   `help:"Before serving, adopt the checkpoints that the library redis-streaming keeps in --redis as JSON (docs/migration.md)."`

	RequiredTaskAcks         int           `default:"1" help:"Acknowledgements that complete a checkpoint whose trigger names neither a number nor tasks." placeholder:"N"`
	CheckpointTimeout        time.Duration `default:"60s" help:"How long a checkpoint may stay pending when its trigger does not say; 0s is for ever." placeholder:"DURATION"`
	CheckpointInterval       time.Duration `default:"0s" help:"Time between two scheduled triggers of each job that does not say its own (PUT /jobs/{job}), at least 50ms; 0s schedules nothing." placeholder:"DURATION"`
	MinPause                 time.Duration `default:"0s" help:"How long a job rests after a completion before the next trigger." placeholder:"DURATION"`
	MaxConcurrentCheckpoints int           `default:"16" help:"Pending checkpoints that a job may have (1 to 1000)." placeholder:"N"`
	TolerableFailed          int           `name:"tolerable-failed-checkpoints" default:"0" help:"Checkpoints that may fail in a row before a job is reported as failing." placeholder:"N"`
	StaleAfter               time.Duration `default:"0s" help:"Age from which a job's latest completed checkpoint is reported as stale; 0s is three intervals of its schedule." placeholder:"DURATION"`
	CheckpointsToKeep        int           `default:"5" help:"Completed, unpinned checkpoints that retention keeps in each job; 0 keeps all." placeholder:"N"`
	CheckpointsMaxAge        time.Duration `default:"0s" help:"How long retention keeps a completed, unpinned checkpoint; 0s is for ever. The newest one stays." placeholder:"DURATION"`
	CheckpointsMaxBytes      Size          `default:"0B" help:"How much a job's completed, unpinned checkpoints may take together; 0B is no limit. The newest one stays." placeholder:"SIZE"`
	EventsToKeep             int           `default:"10000" help:"Events that the log of each job keeps for clients that come back (1 to 1000000)." placeholder:"N"`
	MaxPart                  Size          `default:"4GiB" help:"Largest part that one task may hand in (B, KiB, MiB or GiB)." placeholder:"SIZE"`

	Bounds `embed:""`

	IdleTimeout  time.Duration `default:"2m" help:"How long an HTTP connection may stay open without a request: longer than a proxy in front keeps one that it does not use. 0s is for ever." placeholder:"DURATION"`
	DrainDelay   time.Duration `default:"0s" help:"After SIGTERM, how long to serve on with /readyz at 503 before closing the listener." placeholder:"DURATION"`
	DrainTimeout time.Duration `default:"30s" help:"After that, how long running requests and restores may take to finish." placeholder:"DURATION"`

	MetricsJobs int `default:"100" help:"Jobs that have series of their own in /metrics, the first that the server meets; all others are summed up as the job other (0 to 100000)." placeholder:"N"`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"Least severe level to log (debug, info, warn, error)." placeholder:"LEVEL"`
	LogFormat string `default:"json" enum:"json,console" help:"Format of the log on standard error (json, console)." placeholder:"FORMAT"`
	Pprof     string `help:"Serve Go's profiles below /debug/pprof/ on this address; off when empty. They show the inside of the process and ask for no token, so beyond loopback it needs --insecure." placeholder:"HOST:PORT"`
}

// Validate reports everything that is wrong at once. kong calls it after parsing.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	c.checkAddresses(fault)
	if (c.TLSCert == "") != (c.TLSKey == "") {
		fault("--tls-cert and --tls-key go together")
	}
	if c.TLSClientCA != "" && (c.TLSCert == "" || c.Tokens == "") {
		fault("--tls-client-ca needs --tls-cert, and --tokens, which says what each certificate may do")
	}
	if c.Redis != "" {
		if err := redisstore.CheckURL(c.Redis); err != nil {
			fault("--redis is no URL of a Redis: %w", err)
		}
	}
	if c.Adopt && c.Redis == "" {
		fault("--adopt needs --redis, where the records to adopt are")
	}
	if (c.RedisCert == "") != (c.RedisKey == "") {
		fault("--redis-cert and --redis-key go together")
	}
	if c.RedisCA+c.RedisCert != "" && !strings.HasPrefix(c.Redis, "rediss") {
		fault("--redis-ca and --redis-cert need a --redis with TLS, which begins with rediss")
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") || c.KeyPrefix == "" {
		fault("--key-prefix %q must not be empty or have braces", c.KeyPrefix)
	}
	// Wide, for MaxID is no int on a 32-bit machine.
	number := func(flag string, value int, low, high int64) {
		if int64(value) < low || int64(value) > high {
			fault("--%s must be between %d and %d", flag, low, high)
		}
	}
	number("redis-min-replicas", c.RedisMinReplicas, 0, 1000)
	if c.RedisMinReplicas > 0 && c.Redis == "" {
		fault("--redis-min-replicas needs --redis")
	}
	number("required-task-acks", c.RequiredTaskAcks, 1, coordinator.MaxRequiredTaskAcks)
	number("max-concurrent-checkpoints", c.MaxConcurrentCheckpoints, 1, coordinator.MaxConcurrentUpper)
	number("tolerable-failed-checkpoints", c.TolerableFailed, 0, coordinator.MaxID)
	number("checkpoints-to-keep", c.CheckpointsToKeep, 0, coordinator.MaxID)
	number("events-to-keep", c.EventsToKeep, 1, maxEventsToKeep)
	duration := func(flag string, value time.Duration) {
		if value < 0 || value.Milliseconds() > coordinator.MaxTimeoutMs {
			fault("--%s must not be negative or longer than a hundred years", flag)
		}
		if value%time.Millisecond != 0 {
			fault("--%s must be whole milliseconds", flag)
		}
	}
	duration("checkpoint-timeout", max(0, c.CheckpointTimeout)) // ≤ 0 is for ever
	duration("checkpoint-interval", c.CheckpointInterval)
	duration("min-pause", c.MinPause)
	duration("stale-after", c.StaleAfter)
	duration("checkpoints-max-age", c.CheckpointsMaxAge)
	duration("idle-timeout", c.IdleTimeout)
	duration("drain-timeout", c.DrainTimeout)
	duration("drain-delay", c.DrainDelay)
	number("metrics-jobs", c.MetricsJobs, 0, 100_000)
	c.Bounds.validate(fault, number)
	if c.MaxPart < 1 {
		fault("--max-part must be at least 1B")
	}
	return errors.Join(faults...)
}

// checkAddresses tells what is wrong with where the server listens.
func (c *Config) checkAddresses(fault func(format string, args ...any)) {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		fault("--listen %q must be HOST:PORT", c.Listen)
	}
	if !loopback(c.Listen) && c.Tokens == "" && !c.Insecure {
		fault("--listen %s is reached from other machines, and nobody would have to say who they are: give --tokens FILE, or --insecure if something else keeps strangers out", c.Listen)
	}
	if _, _, err := net.SplitHostPort(c.Pprof); c.Pprof != "" && err != nil {
		fault("--pprof %q must be HOST:PORT", c.Pprof)
	}
	if c.Pprof != "" && !loopback(c.Pprof) && !c.Insecure {
		fault("--pprof %s is reached from other machines, and profiles ask nobody for a token: name an address on loopback, or give --insecure if something else keeps strangers out", c.Pprof)
	}
}

// Settings are the coordinator's share of the configuration.
func (c *Config) Settings() coordinator.Settings {
	return coordinator.Settings{
		RequiredTaskAcks:  c.RequiredTaskAcks,
		TimeoutMs:         c.CheckpointTimeout.Milliseconds(),
		IntervalMs:        c.CheckpointInterval.Milliseconds(),
		MinPauseMs:        c.MinPause.Milliseconds(),
		MaxConcurrent:     c.MaxConcurrentCheckpoints,
		TolerableFailures: c.TolerableFailed,
		StaleAfterMs:      c.StaleAfter.Milliseconds(),
		Retention: coordinator.Retention{
			Keep:     c.CheckpointsToKeep,
			MaxAgeMs: c.CheckpointsMaxAge.Milliseconds(),
			MaxBytes: int64(c.CheckpointsMaxBytes),
		},
		EventsToKeep: c.EventsToKeep,
		MaxPartBytes: int64(c.MaxPart),
	}
}

// maxEventsToKeep bounds the memory that the log of one job may take in Redis: about
// 200 bytes an event.
const maxEventsToKeep = 1_000_000

// MarshalZerologObject writes the effective configuration to the log, without secrets.
func (c *Config) MarshalZerologObject(e *zerolog.Event) {
	e.Str("listen", c.Listen).Str("tokens", c.Tokens).Bool("insecure", c.Insecure).Strs("public", c.Public).
		Str("tlsCert", c.TLSCert).Str("tlsKey", c.TLSKey).Str("tlsClientCA", c.TLSClientCA)
	if c.Redis != "" {
		e.Str("redis", redisstore.RedactURL(c.Redis)).Str("redisCA", c.RedisCA).Str("redisCert", c.RedisCert).Str("redisKey", c.RedisKey).
			Int("redisMinReplicas", c.RedisMinReplicas).
			Str("keyPrefix", c.KeyPrefix).Bool("adopt", c.Adopt)
	} else {
		e.Str("data", c.Data)
	}
	e.Int("requiredTaskAcks", c.RequiredTaskAcks).
		Stringer("checkpointTimeout", c.CheckpointTimeout).
		Stringer("checkpointInterval", c.CheckpointInterval).
		Stringer("minPause", c.MinPause).
		Int("maxConcurrentCheckpoints", c.MaxConcurrentCheckpoints).
		Int("tolerableFailedCheckpoints", c.TolerableFailed).
		Stringer("staleAfter", c.StaleAfter).
		Int("checkpointsToKeep", c.CheckpointsToKeep).
		Stringer("checkpointsMaxAge", c.CheckpointsMaxAge).
		Stringer("checkpointsMaxBytes", c.CheckpointsMaxBytes).
		Int("eventsToKeep", c.EventsToKeep).
		Stringer("maxPart", c.MaxPart).
		EmbedObject(&c.Bounds).
		Stringer("idleTimeout", c.IdleTimeout).
		Stringer("drainDelay", c.DrainDelay).
		Stringer("drainTimeout", c.DrainTimeout).
		Int("metricsJobs", c.MetricsJobs).
		Str("logLevel", c.LogLevel).
		Str("pprof", c.Pprof)
}
