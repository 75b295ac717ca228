package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// keyspace builds the names of one job's keys. The scripts build the same names from the
// job's hash, which is the only key they are handed; testdata/keys.golden pins them all.
//
// "Lives" says how long a key stays. No key that holds data has a time to live: what
// ends is unlinked by a script, and what takes long is left to the sweep.
type keyspace struct {
	base string
}

// keys gives the key names of a job. Other jobs than the default one carry their name as
// a hash tag, and on a cluster every job does, so that all keys of a job share a slot.
func (s *Store) keys(job string) keyspace {
	if s.client.cluster != nil {
		return taggedKeyspace(s.prefix, job)
	}
	return newKeyspace(s.prefix, job)
}

func newKeyspace(prefix, job string) keyspace {
	if job == coordinator.DefaultJob {
		return keyspace{base: prefix}
	}
	return taggedKeyspace(prefix, job)
}

func taggedKeyspace(prefix, job string) keyspace {
	return keyspace{base: prefix + "{" + job + "}:"}
}

// jobKeys are the hashes of some jobs.
func (s *Store) jobKeys(jobs []string) []string {
	keys := make([]string, len(jobs))
	for i, job := range jobs {
		keys[i] = s.keys(job).job()
	}
	return keys
}

// jobsKey is a SET: the names of all jobs, and perhaps of some that came to nothing; the
// hash of a job decides. It lies in its own slot. Lives for ever.
func jobsKey(prefix string) string { return prefix + "jobs" }

// wakeChannel is no key but the channel on which the scripts publish the name of each job whose
// log has grown.
func wakeChannel(prefix string) string { return prefix + "wake" }

// job is a HASH: next (the next id), epoch, ts (the highest timestamp given), clock (an upper
// bound of the start of everything pending), runid (of the server that gave the last
// id), eprun (of the one that gave the epoch), evlast (the newest event), evrun (run_id
// of the server that wrote it), evfloor (the number that the next event must be above), gone ("1" after its deletion), rbytes (restore bytes of retained,
// absent until somebody needs them). What else it has:
//   - configured, srev (the revision) and the settings s_…, see lua/prelude_settings.lua;
//   - d_tolerate, d_events: what a server said last, for steps that nobody hands its settings to;
//   - due and sch_…: the schedule, see lua/trigger_due.lua;
//   - okid, okat, fails, failing and f_…: successes and failures, see lua/prelude_history.lua.
//
// A job exists if this does and it is not gone; the default job always does. Lives for ever.
func (k keyspace) job() string { return k.base + "job" }

// index is a ZSET id → id: every checkpoint. Entries live as long as their record.
func (k keyspace) index() string { return k.base + "index" }

// pending is a ZSET id → id: pending checkpoints, overdue ones until their expiry is written.
func (k keyspace) pending() string { return k.base + "pending" }

// deadlines is a ZSET id → deadline (Unix ms): pending checkpoints that can expire.
func (k keyspace) deadlines() string { return k.base + "deadlines" }

// completed is a ZSET id → id: completed checkpoints; the highest whose record names no damage is the latest.
func (k keyspace) completed() string { return k.base + "completed" }

// retained is a ZSET id → id: completed, not damaged and not pinned, what retention counts.
func (k keyspace) retained() string { return k.base + "retained" }

// ended is a ZSET id → id: expired and aborted checkpoints.
func (k keyspace) ended() string { return k.base + "ended" }

// remains is a ZSET id → id: expired and aborted and not pinned, the newest EndedKept.
func (k keyspace) remains() string { return k.base + "remains" }

// pinned is a SET: the ids of pinned checkpoints of any status.
func (k keyspace) pinned() string { return k.base + "pinned" }

// events is a STREAM, the job's log: entries "<epoch>-<seq>" as lua/prelude_event.lua writes
// them, trimmed to about as many as the last trigger said. Lives for ever.
func (k keyspace) events() string { return k.base + "events" }

// stats is a HASH outcome → how often: triggered, completed, expired, declined, aborted, superseded,
// evicted, deleted, restores, and restored (bytes). Lives until the job is deleted.
func (k keyspace) stats() string { return k.base + "stats" }

// samples is a LIST "id|at|duration|entries|bytes|acks|last task", newest first: the last
// SamplesKept completions, and up to a hundred more until they are trimmed. Lives until the job
// is deleted.
func (k keyspace) samples() string { return k.base + "samples" }

// restores is a LIST "id|at|bytes|finished|by", newest first: the last RestoresKept restores. Lives
// until the job is deleted.
func (k keyspace) restores() string { return k.base + "restores" }

// attempts is a HASH task id → highest attempt heard from, if above 0. Lives for ever.
func (k keyspace) attempts() string { return k.base + "attempts" }

// uploads is a ZSET "<id>:<uploadId>" → lease expiry (Unix ms): uploads that run.
func (k keyspace) uploads() string { return k.base + "uploads" }

// stages is a ZSET token → lease expiry (Unix ms): staged lists of task names that no
// record names yet.
func (k keyspace) stages() string { return k.base + "stages" }

// importing is a ZSET id → lease expiry (Unix ms): checkpoints that an import has begun and not
// finished, see lua/prelude_import.lua.
func (k keyspace) importing() string { return k.base + "importing" }

// garbage is a ZSET → time added (Unix ms): what the sweep has to unlink, in these forms:
// "parts:<id>" every part of a checkpoint that is gone or ended uncompleted,
// "staged:<id>" the parts of a completed one that were never acknowledged,
// "upload:<id>:<uploadId>:<chunks>" the chunks of one part.
func (k keyspace) garbage() string { return k.base + "garbage" }

// void is never written: unlinking it opens the writes of a script at maxmemory.
func (k keyspace) void() string { return k.base + "void" }

// pulse is a STRING without a value, written where replicas are waited for, see replicas.go. Lives for ever.
func (k keyspace) pulse() string { return k.base + "pulse" }

// Verbs of repeatable records.
const (
	// repeatCall remembers a call by its token for repeatCallMs, for the case that its reply was lost.
	repeatCall = "call"
	// repeatTrigger and repeatRecover remember an Idempotency-Key for repeatKeyMs after its last use.
	repeatTrigger = "trigger"
	repeatRecover = "recover"

	repeatCallMs = 10 * 60 * 1000
	repeatKeyMs  = 24 * 3600 * 1000
)

// repeat is a STRING "id|epoch|token|ended|fingerprint": what a call with this Idempotency-Key,
// or token, did; id is "-" where a recovery found nothing completed. It has a time to
// live and outlives its checkpoint. Keys are hashed since they may be 255 bytes of anything.
func (k keyspace) repeat(verb, key string) string { return k.base + "idem:" + repeatName(verb, key) }

// repeatName is what the scripts are told of it.
func repeatName(verb, key string) string {
	sum := sha256.Sum256([]byte(key))
	return verb + ":" + hex.EncodeToString(sum[:])
}

// answer is a STRING: the packed reply of a call with this token, where nothing else can tell a
// repeat what it did. Lives for ten seconds, which is longer than anybody asks again.
func (k keyspace) answer(token string) string { return k.base + "idem:answer:" + token }

// record is a HASH, the checkpoint itself: v ("1" marks it as ours, "import:<token>" as one under import), status, epoch, rev, ts, start,
// timeout, required, acked, tasks (token of its lists of names, or ""), ended, reason, ftask, fmsg,
// pinned, labels (JSON), desc, version, entries and bytes (shared state and acknowledged parts),
// sentries and sbytes (the shared state's share), srev, digest, sdigest, token (of the call that ended
// it). Lives until retention, a cleanup or a deletion.
func (k keyspace) record(id int64) string { return k.base + strconv.FormatInt(id, 10) }

// adopted is a HASH like record, of a checkpoint of which the name belongs to another program: it
// has source besides, the length of what was read there. Lives like record.
func (k keyspace) adopted(id int64) string { return k.part(id, "adopted") }

func (k keyspace) part(id int64, name string) string { return k.record(id) + ":" + name }

// acks is a HASH task id → "attempt|at|place|entries|bytes|digest|token": place is the number of
// acknowledgements right after it, digest is "" for an empty part. Lives with the record.
func (k keyspace) acks(id int64) string { return k.part(id, "acks") }

// acked is a ZSET task id → 0: the acknowledged tasks in byte order, but for those in unsorted. Lives
// with the record.
func (k keyspace) acked(id int64) string { return k.part(id, "acked") }

// unsorted is a LIST: tasks that have acknowledged since somebody last wanted the order, see
// lua/prelude_sort.lua. Lives until then, or with the record.
func (k keyspace) unsorted(id int64) string { return k.part(id, "unsorted") }

// parts is a HASH task id → "uploadId|chunks|bytes|entries|digest": parts that are uploaded or
// acknowledged. Lives until the sweep has unlinked the chunks it names.
func (k keyspace) parts(id int64) string { return k.part(id, "parts") }

// staged is a SET: tasks with a part and without an acknowledgement. Lives with the record.
func (k keyspace) staged(id int64) string { return k.part(id, "staged") }

// state is a HASH key → canonical JSON value: the shared state. Lives with the record, or
// until the checkpoint ends uncompleted.
func (k keyspace) state(id int64) string { return k.part(id, "state") }

// leases is a ZSET lease id → expiry (Unix ms): restores and recoveries that hold the
// checkpoint. Lives with the record.
func (k keyspace) leases(id int64) string { return k.part(id, "leases") }

// upload is a HASH n, top, bytes: how many chunks of a running upload are stored, the
// highest index of them plus one, and the sum of their lengths. Lives until it is
// committed, given up or discarded.
func (k keyspace) upload(id int64, uploadID string) string { return k.part(id, "upload:"+uploadID) }

// chunk is a STRING of up to ChunkBytes: chunk n of what an upload wrote.
func (k keyspace) chunk(id int64, uploadID string, n int) string {
	return k.part(id, "part:"+uploadID+":"+strconv.Itoa(n))
}

// tasks is a ZSET: the tasks that a trigger named, name → 0, so in byte order; or those that the
// settings of a job name, name → place. Lives with the record, with the settings, or until
// the lease in stages ends.
func (k keyspace) tasks(token string) string { return k.base + "tasks:" + token }

// missing is a ZSET name → 0: those of a record's tasks that have not acknowledged yet.
func (k keyspace) missing(token string) string { return k.base + "missing:" + token }
