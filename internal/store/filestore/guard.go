package filestore

import (
	"errors"
	"sync"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// guardEvery is how long a look at the data directory holds for reads. What a change wrote is looked at
// each time, before it is answered.
const guardEvery = 100 * time.Millisecond

// guard notices that the data directory is not the one that the store opened: a backup was put in its
// place, it was removed, or its disk was unmounted. An open file outlives its name, so without it the
// store would go on for days with a database that nobody finds again.
type guard struct {
	disk   disk
	places []place

	mu     sync.Mutex
	looked time.Time
	fault  error
}

// check is nil while everything is where it was; else it gives the [coordinator.Cause].
func (g *guard) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.looked) >= guardEvery {
		g.look()
	}
	return g.fault
}

// checkNow looks, whenever the last look was.
func (g *guard) checkNow() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	return g.fault
}

func (g *guard) look() {
	g.looked, g.fault = time.Now(), nil
	for _, p := range g.places {
		err := p.check(g.disk)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errMoved):
			g.fault = &coordinator.Cause{
				Says: "the data directory, or what is in it, was moved, removed or replaced while the server ran: put back what was there, or start the server again to use what is there now",
				Err:  err,
			}
		default:
			g.fault = &coordinator.Cause{Says: "the data directory cannot be looked at: " + reasonOf(err), Err: err}
		}
		return
	}
}
