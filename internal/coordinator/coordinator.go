package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// Coordinator is the service behind every door: it validates, fills in defaults, calls
// the [Store], and reports to the [Observer]. It is safe for concurrent use and keeps
// no state of its own, so any replica answers any request.
type Coordinator struct {
	store    Store
	settings Settings
	observer Observer
	pace     Pace
	// What follows is no state but what this process heard of it, see [feeds] and [scheduler].
	feeds     *feeds
	scheduler *scheduler
	draining  <-chan struct{}
	looks     sync.Map // job → *freshRead[struct{}], see inspectLatest
}

// Pace is how often things that nobody asked for are done. Zero fields take the
// defaults of [DefaultPace].
type Pace struct {
	// Sweep is the time between sweeps; half a second keeps status, lists and metrics
	// within a second of each deadline.
	Sweep time.Duration
	// Health is the time between looks at the store.
	Health time.Duration
	// UploadCheck is the time between checks of a running upload.
	UploadCheck time.Duration
	// RestoreLease is how long a restore's lease outlives a broken transfer.
	RestoreLease time.Duration
	// RecoverLease is how long recover holds the checkpoint that it answers.
	RecoverLease time.Duration
}

// DefaultPace is what the documentation says.
func DefaultPace() Pace {
	return Pace{
		Sweep:        500 * time.Millisecond,
		Health:       time.Second,
		UploadCheck:  2 * time.Second,
		RestoreLease: time.Minute,
		RecoverLease: 10 * time.Minute,
	}
}

func (p Pace) orDefaults() Pace {
	d := DefaultPace()
	for _, field := range []struct{ value, fallback *time.Duration }{
		{&p.Sweep, &d.Sweep},
		{&p.Health, &d.Health},
		{&p.UploadCheck, &d.UploadCheck},
		{&p.RestoreLease, &d.RestoreLease},
		{&p.RecoverLease, &d.RecoverLease},
	} {
		if *field.value <= 0 {
			*field.value = *field.fallback
		}
	}
	return p
}

// Options configure a [Coordinator].
type Options struct {
	Settings Settings
	// Observer defaults to [Silence].
	Observer Observer
	Pace     Pace
	// Draining is closed when the server begins to shut down: what waits for events ends
	// then. Defaults to never.
	Draining <-chan struct{}
}

// New makes a coordinator over store. It starts nothing; see [Coordinator.Run].
func New(store Store, options Options) *Coordinator {
	if options.Observer == nil {
		options.Observer = Silence{}
	}
	c := &Coordinator{
		store: store, settings: options.Settings, observer: options.Observer, pace: options.Pace.orDefaults(),
		draining: options.Draining,
	}
	c.feeds, c.scheduler = newFeeds(c), newScheduler(c)
	return c
}

// Settings gives the defaults that this server fills in.
func (c *Coordinator) Settings() Settings { return c.settings }

// call times one store call and makes its error presentable.
func call[T any](c *Coordinator, operation string, f func() (T, error)) (T, error) {
	began := time.Now()
	result, err := f()
	c.observer.StoreCall(operation, time.Since(began), err)
	return result, asError(err)
}

// newToken names one call, so that the store knows it again after a lost reply.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
