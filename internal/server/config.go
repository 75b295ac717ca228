package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Config is everything that an operator can set. The tags are kong's: every flag is
// also CHECKPOINTD_<FLAG> in the environment, and a flag wins over it.
type Config struct {
	Listen string `default:"127.0.0.1:8080" help:"Address to serve HTTP on. There is no authentication: leave loopback only behind something that has." placeholder:"HOST:PORT"`

	Redis     string `help:"Keep everything in this Redis (redis://, rediss:// or unix:// URL). Without it the embedded store in --data is used." placeholder:"URL"`
	Data      string `default:"checkpointd-data" help:"Folder of the embedded store; made when absent, used by one process at a time." placeholder:"DIR"`
	KeyPrefix string `default:"checkpoint:" help:"Prefix of every Redis key; braces are refused." placeholder:"PREFIX"`

	RequiredTaskAcks         int           `default:"1" help:"Acknowledgements that complete a checkpoint whose trigger names neither a number nor tasks." placeholder:"N"`
	CheckpointTimeout        time.Duration `default:"60s" help:"How long a checkpoint may stay pending when its trigger does not say; 0s is for ever." placeholder:"DURATION"`
	CheckpointsToKeep        int           `default:"5" help:"Completed, unpinned checkpoints that retention keeps in each job; 0 keeps all." placeholder:"N"`
	MaxConcurrentCheckpoints int           `default:"16" help:"Pending checkpoints that a job may have (1 to 1000)." placeholder:"N"`
	MaxPart                  Size          `default:"4GiB" help:"Largest part that one task may hand in (B, KiB, MiB or GiB)." placeholder:"SIZE"`

	DrainDelay   time.Duration `default:"0s" help:"After SIGTERM, how long to serve on with /readyz at 503 before closing the listener." placeholder:"DURATION"`
	DrainTimeout time.Duration `default:"30s" help:"After that, how long running requests and restores may take to finish." placeholder:"DURATION"`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"Least severe level to log (debug, info, warn, error)." placeholder:"LEVEL"`
	LogFormat string `default:"json" enum:"json,console" help:"Format of the log on standard error (json, console)." placeholder:"FORMAT"`
}

// Validate reports everything that is wrong at once. kong calls it after parsing.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		fault("--listen %q must be HOST:PORT", c.Listen)
	}
	if c.Redis != "" {
		if u, err := url.Parse(c.Redis); err != nil || (u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix") {
			fault("--redis must be a redis://, rediss:// or unix:// URL")
		}
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") || c.KeyPrefix == "" {
		fault("--key-prefix %q must not be empty or have braces", c.KeyPrefix)
	}
	if c.RequiredTaskAcks < 1 || c.RequiredTaskAcks > coordinator.MaxRequiredTaskAcks {
		fault("--required-task-acks must be between 1 and %d", coordinator.MaxRequiredTaskAcks)
	}
	if c.CheckpointTimeout.Milliseconds() > coordinator.MaxTimeoutMs {
		fault("--checkpoint-timeout is longer than a hundred years; 0s is for ever")
	}
	if c.CheckpointsToKeep < 0 {
		fault("--checkpoints-to-keep must not be negative; 0 keeps all")
	}
	if c.MaxConcurrentCheckpoints < 1 || c.MaxConcurrentCheckpoints > coordinator.MaxConcurrentUpper {
		fault("--max-concurrent-checkpoints must be between 1 and %d", coordinator.MaxConcurrentUpper)
	}
	if c.MaxPart < 1 {
		fault("--max-part must be at least 1B")
	}
	if c.DrainTimeout < 0 || c.DrainDelay < 0 {
		fault("--drain-timeout and --drain-delay must not be negative")
	}
	return errors.Join(faults...)
}

// Settings are the coordinator's share of the configuration.
func (c *Config) Settings() coordinator.Settings {
	return coordinator.Settings{
		RequiredTaskAcks: c.RequiredTaskAcks,
		TimeoutMs:        c.CheckpointTimeout.Milliseconds(),
		Retention:        coordinator.Retention{Keep: c.CheckpointsToKeep},
		EventsToKeep:     10_000,
		MaxConcurrent:    c.MaxConcurrentCheckpoints,
		MaxPartBytes:     int64(c.MaxPart),
	}
}

// MarshalZerologObject writes the effective configuration to the log, without secrets.
func (c *Config) MarshalZerologObject(e *zerolog.Event) {
	e.Str("listen", c.Listen)
	if c.Redis != "" {
		e.Str("redis", RedactURL(c.Redis)).Str("keyPrefix", c.KeyPrefix)
	} else {
		e.Str("data", c.Data)
	}
	e.Int("requiredTaskAcks", c.RequiredTaskAcks).
		Stringer("checkpointTimeout", c.CheckpointTimeout).
		Int("checkpointsToKeep", c.CheckpointsToKeep).
		Int("maxConcurrentCheckpoints", c.MaxConcurrentCheckpoints).
		Stringer("maxPart", c.MaxPart).
		Stringer("drainDelay", c.DrainDelay).
		Stringer("drainTimeout", c.DrainTimeout).
		Str("logLevel", c.LogLevel)
}

// RedactURL hides the password and the query of a URL, which may hold one too. What
// cannot be parsed is hidden whole.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unparsable)"
	}
	if u.RawQuery != "" {
		u.RawQuery = "redacted"
	}
	return u.Redacted()
}
