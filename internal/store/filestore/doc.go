// Package filestore is the embedded store: durable, for one process, without a server
// beside it. It is what a checkpointd without a Redis address keeps its state in.
//
// # On disk
//
// A data directory holds meta.db, a bbolt database with every record, acknowledgement
// and index, with shared state, and with parts up to [InlineBytes]; and parts/, with one
// plain file for each larger part. Larger parts stay out of the database because it is
// mapped into memory and never shrinks. buckets.go has the layout.
//
// # Changes
//
// Every change is a function over one transaction. One goroutine, the committer, takes
// all changes that are waiting, runs them one after the other in a single transaction
// and makes them durable together with one fsync; then all callers get their answers.
// So a change sees every change before it, nothing that was answered is ever lost, and
// many concurrent acknowledgements cost little more than one. A change validates
// everything before it writes, so a refusal needs no rollback and its neighbours in the
// transaction never notice.
//
// A large part is written, synced and renamed before the change that names it runs: a
// record never names a file that may not be there. The other way round, a file that no
// record names is possible after a crash, and is swept at start.
//
// # Events
//
// A change writes its events into the log of its job as it goes, in its own transaction,
// and trims the log at its end. Who listens is woken once that is durable, before the
// change is answered, by the goroutine that asked for it.
//
// # Reads
//
// Reads use short read transactions beside the committer and never wait for it. No
// transaction is open while bytes go over a network: an open one keeps old pages alive
// and can hold up the committer.
package filestore
