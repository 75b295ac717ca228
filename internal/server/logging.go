package server

import (
	"fmt"
	"io"
	stdlog "log"
	"time"

	"github.com/rs/zerolog"
)

// newLogger makes the process' logger: JSON lines, or a console format for people.
func newLogger(config Config, out io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(config.LogLevel)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("--log-level %q: %w", config.LogLevel, err)
	}
	if config.LogFormat == "console" {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.TimeOnly}
	}
	// Many goroutines log, and not every writer takes that.
	out = zerolog.SyncWriter(out)
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

// newHTTPErrorLog takes what net/http has to say (failed handshakes, broken
// connections) into the log.
func newHTTPErrorLog(log zerolog.Logger) *stdlog.Logger {
	return stdlog.New(log.With().Str("from", "net/http").Logger().Level(zerolog.WarnLevel), "", 0)
}
