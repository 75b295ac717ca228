package filestore

import (
	"bytes"
	"encoding/binary"
	"iter"

	bolt "go.etcd.io/bbolt"
)

// The layout of meta.db. Ids are 8 bytes, big endian, so that byte order is numeric
// order; names are their UTF-8 bytes; sets have the value present.
//
//	meta          schema → schemaVersion, origin → origin
//	files         file name → present     every file in parts/ that a record names
//	jobs          job name → bucket:
//	  record      → jobRecord
//	  checkpoints id → bucket:
//	    record    → record
//	    acks      task → ack
//	    missing   task → present          expected tasks without an ack
//	    parts     task → part
//	    content   task → restore bytes    of parts that have no file
//	    state     key → canonical value
//	    leases    lease → expiry
//	  pending, completed, retained, ended: id → present
//	  deadlines   deadline, id → present  pending ones that have one
//	  importing   lease expiry, id → present  those that an import has begun and not finished
//	  attempts    task → highest attempt  only above 0
//	  calls       verb, key or token → remembered
//	  callExpiries  expiry, key of calls → present
//	  ages        end, id → present       the members of retained
//	  events      number → event          from 1, without gaps
//	  samples, restores: counter → sample, restoreRecord
//	  tasks       index → name            the named tasks of the job's settings
var (
	bucketMeta        = []byte("meta")
	bucketFiles       = []byte("files")
	bucketJobs        = []byte("jobs")
	bucketCheckpoints = []byte("checkpoints")

	bucketAcks    = []byte("acks")
	bucketMissing = []byte("missing")
	bucketParts   = []byte("parts")
	bucketContent = []byte("content")
	bucketState   = []byte("state")
	bucketLeases  = []byte("leases")

	bucketPending      = []byte("pending")
	bucketCompleted    = []byte("completed")
	bucketRetained     = []byte("retained")
	bucketEnded        = []byte("ended")
	bucketDeadlines    = []byte("deadlines")
	bucketImporting    = []byte("importing")
	bucketAttempts     = []byte("attempts")
	bucketCalls        = []byte("calls")
	bucketCallExpiries = []byte("callExpiries")
	bucketAges         = []byte("ages")
	bucketEvents       = []byte("events")
	bucketSamples      = []byte("samples")
	bucketRestores     = []byte("restores")
	bucketTasks        = []byte("tasks")

	keyRecord = []byte("record")
	keySchema = []byte("schema")

	present = []byte{1}
)

// idKey is an id, a time or a counter as a key or value.
func idKey(id int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// idOf is the inverse of idKey; it also reads the number that a composite key begins with.
func idOf(key []byte) int64 {
	if len(key) < 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(key))
}

// timeKey orders rest by a time.
func timeKey(ms int64, rest []byte) []byte { return append(idKey(ms), rest...) }

// child opens a bucket inside parent. A bucket that was never written is nil, and so are
// all below it; the functions here take nil for empty.
func child(parent *bolt.Bucket, name []byte) *bolt.Bucket {
	if parent == nil {
		return nil
	}
	return parent.Bucket(name)
}

// get reads one value; nil when there is none.
func get(b *bolt.Bucket, key []byte) []byte {
	if b == nil {
		return nil
	}
	return b.Get(key)
}

// ascend yields what is in b from the key first on, in byte order. The loop must not
// write to b: a cursor does not survive that.
func ascend(b *bolt.Bucket, first []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if b == nil {
			return
		}
		c := b.Cursor()
		for k, v := c.Seek(first); k != nil; k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// after is the first key that can follow key in byte order.
func after(key string) []byte { return append([]byte(key), 0) }

// descend yields what is in b below the key limit, highest first; a nil limit starts at
// the very highest. The loop must not write to b.
//
// It knows its end by the lowest key and not by a nil from Prev: where this transaction
// has emptied a whole page, Prev answers nil in the middle too.
func descend(b *bolt.Bucket, limit []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if b == nil {
			return
		}
		c := b.Cursor()
		lowest, _ := c.First()
		if lowest == nil || (limit != nil && bytes.Compare(lowest, limit) >= 0) {
			return
		}
		var k, v []byte
		if limit != nil {
			k, v = c.Seek(limit)
		}
		if k == nil {
			k, v = c.Last()
		}
		for {
			if k != nil && (limit == nil || bytes.Compare(k, limit) < 0) {
				if !yield(k, v) || bytes.Equal(k, lowest) {
					return
				}
			}
			k, v = c.Prev()
		}
	}
}

// ids gives the ids of a set in ascending order.
func ids(b *bolt.Bucket) []int64 {
	var out []int64
	for k := range ascend(b, nil) {
		out = append(out, idOf(k))
	}
	return out
}
