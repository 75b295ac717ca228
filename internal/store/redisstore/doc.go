// Package redisstore keeps jobs and checkpoints in Redis, 6.2 or newer, or Valkey.
//
// Every change is one Lua script: it validates everything, then writes, and Redis runs
// it alone, so that any number of servers may share one Redis without talking to each
// other. All keys of a job share a slot; connect.go finds the server that has it. The scripts are in lua/, one a verb, each under
// its header; what they share is in the preludes. keys.go lists every key.
//
// # Where a snapshot lies
//
// A part is cut into strings of [coordinator.ChunkBytes], named by the upload that wrote
// them. A part becomes a task's own when one hash field names its upload: an upload is
// never half visible, and a replaced one is garbage at once. Garbage is indexed; the
// sweep unlinks it in steps.
//
// # Acknowledgements
//
// They come in crowds, so those that arrive while others are on their way go together in the
// next round trip, see [coalescer]: the items of one checkpoint in one script call, which
// blocks Redis for about two microseconds an item, where a call of its own takes thirty. The script
// answers a call that ends nothing before it makes the functions that only others need, and
// leaves it to readers to put the tasks in order.
//
// # Events
//
// A job's log is a stream. A script appends an event where it makes the change, and publishes
// the job's name once when it answers: a channel is no log, and who missed a message reads on
// from the stream. Settings, the schedule, failures and the end of the log are fields of the
// job's hash, so that one script sees and changes all of them together.
//
// # Time
//
// Scripts read the server's TIME once. Two servers with skewed clocks therefore agree,
// and a deadline passes for everybody in the same step.
package redisstore
