package filestore

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ledger is what one transaction has read: each job and each checkpoint is decoded once,
// changed in memory, and encoded once at the end. In a batch that holds the
// acknowledgements of a whole fleet this is most of the work saved.
type ledger struct {
	tx    *bolt.Tx
	jobs  map[string]*job
	dirty bool // something has to be committed
	// unreadable is told of what cannot be read.
	unreadable func(job string, id int64, err error)
}

func newLedger(tx *bolt.Tx, unreadable func(job string, id int64, err error)) *ledger {
	if unreadable == nil {
		unreadable = func(string, int64, error) {}
	}
	return &ledger{tx: tx, jobs: map[string]*job{}, unreadable: unreadable}
}

// step is one change within a transaction. Its methods are the rules; what they report
// or let go takes effect only after the commit.
//
// Its write methods panic on an error: there is none but misuse of the database, which
// is our own fault, and the committer makes a failed change of it.
type step struct {
	*ledger
	now int64
	// by is who asked for the change, for its events.
	by      string
	reports []func(coordinator.Observer)
	// dropped are files in parts/ that no record names any more.
	dropped []string
	// crowded are jobs in which checkpoints ended uncompleted, see finish.
	crowded []*job
	// logged counts the events that were written.
	logged map[*job]int
}

func must(err error) {
	if err != nil {
		panic(fmt.Errorf("database: %w", err))
	}
}

func (l *ledger) put(b *bolt.Bucket, key, value []byte) {
	l.dirty = true
	must(b.Put(key, value))
}

func (l *ledger) putJSON(b *bolt.Bucket, key []byte, value any) {
	text, err := encode(value)
	must(err)
	l.put(b, key, text)
}

// delete removes a key, present or not.
func (l *ledger) delete(b *bolt.Bucket, key []byte) {
	if get(b, key) == nil {
		return
	}
	l.dirty = true
	must(b.Delete(key))
}

// bucket opens a bucket in parent for writing.
func (l *ledger) bucket(parent *bolt.Bucket, name []byte) *bolt.Bucket {
	if b := parent.Bucket(name); b != nil {
		return b
	}
	l.dirty = true
	b, err := parent.CreateBucket(name)
	must(err)
	return b
}

// drop removes a bucket in parent with all that is in it.
func (l *ledger) drop(parent *bolt.Bucket, name []byte) {
	if child(parent, name) == nil {
		return
	}
	l.dirty = true
	must(parent.DeleteBucket(name))
}

// flush encodes what was changed in memory.
func (l *ledger) flush() error {
	for _, j := range l.jobs {
		for _, read := range []map[int64]*checkpoint{j.read, j.importing} {
			for _, c := range read {
				if c != nil && c.changed {
					if err := write(c.b, &c.record); err != nil {
						return fmt.Errorf("write checkpoint %d of job %q: %w", c.id, j.name, err)
					}
				}
			}
		}
		if j.changed {
			if err := write(j.b, &j.jobRecord); err != nil {
				return fmt.Errorf("write job %q: %w", j.name, err)
			}
		}
	}
	return nil
}

func write(b *bolt.Bucket, record any) error {
	text, err := encode(record)
	if err != nil {
		return err
	}
	return b.Put(keyRecord, text) //nolint:wrapcheck // flush says what.
}

// report queues what the observer is told once the change is durable.
func (s *step) report(f func(coordinator.Observer)) { s.reports = append(s.reports, f) }

// dropFile gives up a file of parts/.
func (s *step) dropFile(name string) {
	s.delete(s.tx.Bucket(bucketFiles), []byte(name))
	s.dropped = append(s.dropped, name)
}

// adoptFile makes a file of parts/ one that a record names.
func (s *step) adoptFile(name string) {
	s.put(s.tx.Bucket(bucketFiles), []byte(name), present)
}
