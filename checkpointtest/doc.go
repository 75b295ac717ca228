// Package checkpointtest runs a checkpointd server inside a test, in one line:
//
//	server := checkpointtest.Start(t)
//	w := worker.Worker{URL: server.URL, TaskID: "task-1", …}
//
// It is the real server on the embedded store, on a free port of 127.0.0.1 and in a folder
// of the test's own, and it is gone when the test ends. [Server.Stop] and [Server.Restart]
// take it away and bring it back on the same address with the same data, for tests of what
// a worker does meanwhile. [Server.Front] gives another URL that loses answers, refuses, hangs
// and breaks off as a script says, and tells what it saw: package fault.
package checkpointtest
