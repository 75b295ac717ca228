package load

import "time"

// Class is a kind of operations that share a bound, as x-class of the contract has it.
type Class string

// The classes.
const (
	// Small ends within moments.
	Small Class = "small"
	// List ends within moments, too, and reads what may be long.
	List Class = "list"
	// Heavy takes several steps in the store, or megabytes of memory.
	Heavy Class = "heavy"
	// Upload and Restore move bytes for as long as their client takes.
	Upload  Class = "upload"
	Restore Class = "restore"
	// Stream lasts as long as its client likes, and rests nearly all of that time.
	Stream Class = "stream"
	// Free asks no store and is never refused.
	Free Class = "free"
)

// Classes lists those that are bounded.
func Classes() []Class { return []Class{Small, List, Heavy, Upload, Restore, Stream} }

// Limits are what an operator sets. Every number is at least 1.
type Limits struct {
	Requests, Lists, HeavyRequests, Uploads, Restores, Streams int
	// BufferedBytes is how much memory large bodies, values and answers may take together.
	BufferedBytes int64
	// JobShare and ClientShare are the percentages of a bound that one job and one client
	// may hold when nobody else holds any.
	JobShare, ClientShare int
	// Patience is how long an upload or a restore waits for its turn. The others wait so long
	// at most: large bodies 5 seconds, heavy requests 2, small ones 1, streams not at all.
	Patience time.Duration
}

// DefaultLimits are those of a server whose operator says nothing.
func DefaultLimits() Limits {
	return Limits{
		Requests: 2048, Lists: 32, HeavyRequests: 16, Uploads: 128, Restores: 512, Streams: 20_000,
		BufferedBytes: 128 << 20, JobShare: 50, ClientShare: 75, Patience: 10 * time.Second,
	}
}

// Load has the bounds of one server.
type Load struct {
	limits Limits
	bounds map[Class]*Bound
	// Buffered is the bound of large bodies, values and answers, in bytes.
	Buffered *Bound
	// Turns are for whoever computes over a transfer.
	Turns Turns
}

// New makes the bounds.
func New(limits Limits) *Load {
	shared := func(size int64, places int, patience time.Duration) *Bound {
		return newBound(bound{
			size: size, places: places, patience: min(patience, limits.Patience), jobShare: limits.JobShare, clientShare: limits.ClientShare,
		})
	}
	return &Load{
		limits: limits,
		bounds: map[Class]*Bound{
			// They end so soon that taking turns is share enough, and costs those nothing who
			// need not wait.
			Small:   newBound(bound{size: int64(limits.Requests), places: 8 * limits.Requests, patience: min(time.Second, limits.Patience)}),
			List:    shared(int64(limits.Lists), 64*limits.Lists, 2*time.Second),
			Heavy:   shared(int64(limits.HeavyRequests), 16*limits.HeavyRequests, 2*time.Second),
			Upload:  shared(int64(limits.Uploads), 8*limits.Uploads, limits.Patience),
			Restore: shared(int64(limits.Restores), 2*limits.Restores, limits.Patience),
			Stream:  shared(int64(limits.Streams), 0, 0),
		},
		Buffered: shared(limits.BufferedBytes, 1024, 5*time.Second),
		Turns:    newTurns(),
	}
}

// Limits are those that the bounds were made with.
func (l *Load) Limits() Limits { return l.limits }

// Of gives the bound of a class, nil for one that has none.
func (l *Load) Of(class Class) *Bound { return l.bounds[class] }
