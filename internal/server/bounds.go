package server

import (
	"github.com/rs/zerolog"

	"github.com/checkpointd/checkpointd/internal/load"
)

// Bounds are how much the server takes on at once; docs/operations.md says what each costs.
// They have no zero value that would do: begin with [DefaultBounds].
type Bounds struct {
	MaxRequests      int  `default:"2048" help:"Small requests, acknowledgements among them, to serve at once; more wait for a moment, then get 503." placeholder:"N"`
	MaxLists         int  `default:"32" help:"Reads to serve at once that may be long: lists, checkpoints, jobs, metrics. More wait for a moment, then get 503." placeholder:"N"`
	MaxHeavyRequests int  `default:"16" help:"Requests to serve at once that take several steps in the store, or much memory." placeholder:"N"`
	MaxUploads       int  `default:"128" help:"Uploads to take at once." placeholder:"N"`
	MaxRestores      int  `default:"512" help:"Restores to send at once." placeholder:"N"`
	MaxStreams       int  `default:"20000" help:"Event streams and waiting requests to serve at once." placeholder:"N"`
	MaxBuffered      Size `default:"128MiB" help:"Memory that large bodies, values and answers may take together (at least 1MiB)." placeholder:"SIZE"`
	MaxConnections   int  `default:"25000" help:"Connections to have at once. Beyond it the one is closed that has waited longest without a request." placeholder:"N"`
	MaxHeader        Size `default:"16KiB" help:"Largest request line with its headers (4KiB to 1MiB)." placeholder:"SIZE"`
	JobShare         int  `default:"50" help:"Per cent of each of these (the small requests aside) that one job may hold when nobody else holds any, and less when others do; 100 is all." placeholder:"PERCENT"`
	ClientShare      int  `default:"75" help:"The same for one client: for one token, or one address where there are no tokens." placeholder:"PERCENT"`
}

// DefaultBounds are those of a server whose operator says nothing.
func DefaultBounds() Bounds {
	l := load.DefaultLimits()
	return Bounds{
		MaxRequests: l.Requests, MaxLists: l.Lists, MaxHeavyRequests: l.HeavyRequests, MaxUploads: l.Uploads, MaxRestores: l.Restores, MaxStreams: l.Streams,
		MaxBuffered: Size(l.BufferedBytes), MaxConnections: 25_000, MaxHeader: 16 << 10, JobShare: l.JobShare, ClientShare: l.ClientShare,
	}
}

// Limits are the bounds for package load.
func (b *Bounds) Limits() load.Limits {
	l := load.DefaultLimits()
	l.Lists = b.MaxLists
	l.Requests, l.HeavyRequests, l.Uploads, l.Restores, l.Streams = b.MaxRequests, b.MaxHeavyRequests, b.MaxUploads, b.MaxRestores, b.MaxStreams
	l.BufferedBytes, l.JobShare, l.ClientShare = int64(b.MaxBuffered), b.JobShare, b.ClientShare
	return l
}

// mostAtOnce is more than any machine can serve.
const mostAtOnce = 10_000_000

func (b *Bounds) validate(fault func(format string, args ...any), number func(flag string, value int, low, high int64)) {
	number("max-requests", b.MaxRequests, 1, mostAtOnce)
	number("max-lists", b.MaxLists, 1, mostAtOnce)
	number("max-heavy-requests", b.MaxHeavyRequests, 1, mostAtOnce)
	number("max-uploads", b.MaxUploads, 1, mostAtOnce)
	number("max-restores", b.MaxRestores, 1, mostAtOnce)
	number("max-streams", b.MaxStreams, 1, mostAtOnce)
	number("job-share", b.JobShare, 1, 100)
	number("client-share", b.ClientShare, 1, 100)
	number("max-connections", b.MaxConnections, 1, mostAtOnce)
	if b.MaxHeader < 4<<10 || b.MaxHeader > 1<<20 {
		fault("--max-header must be from 4KiB to 1MiB")
	}
	if b.MaxBuffered < 1<<20 {
		fault("--max-buffered must be at least 1MiB")
	}
}

// MarshalZerologObject writes the bounds to the log.
func (b *Bounds) MarshalZerologObject(e *zerolog.Event) {
	e.Int("maxRequests", b.MaxRequests).
		Int("maxLists", b.MaxLists).
		Int("maxHeavyRequests", b.MaxHeavyRequests).
		Int("maxUploads", b.MaxUploads).
		Int("maxRestores", b.MaxRestores).
		Int("maxStreams", b.MaxStreams).
		Stringer("maxBuffered", b.MaxBuffered).
		Int("maxConnections", b.MaxConnections).
		Stringer("maxHeader", b.MaxHeader).
		Int("jobShare", b.JobShare).
		Int("clientShare", b.ClientShare)
}
