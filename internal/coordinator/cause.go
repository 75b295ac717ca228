package coordinator

import "errors"

// Cause is why a store cannot do what it is asked, in words that callers may read. It travels inside
// the refusal that [ErrStoreUnavailable] makes of it, and GET /readyz says the same.
type Cause struct { //nolint:errname // It is the cause within a refusal, which is an Error.
	// Says is a clause without a full stop, such as "the disk of the data directory failed". It names no
	// host, no path and nothing secret: whoever may ask for readiness reads it.
	Says string
	// Restart tells that the process has to be started again, because nothing else ends what is wrong.
	// GET /healthz fails then.
	Restart bool
	// Err goes to the log only.
	Err error
}

// Error gives the clause and what it is about, for logs.
func (c *Cause) Error() string {
	if c.Err == nil {
		return c.Says
	}
	return c.Says + ": " + c.Err.Error()
}

// Unwrap gives what the cause is about.
func (c *Cause) Unwrap() error { return c.Err }

// CauseOf finds the cause in err that callers may read.
func CauseOf(err error) (cause *Cause, known bool) { return errors.AsType[*Cause](err) }

// Alive is nil while the process can do its work or waits for a store that comes back by itself. The
// error says why only a new start of the process helps.
func (c *Coordinator) Alive() error { return c.store.Alive() }
