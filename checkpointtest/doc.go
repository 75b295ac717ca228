// Package checkpointtest runs a checkpointd server inside a test, in one line. A whole test:
//
//	func TestMyWorkerSendsAgainWhatGotLost(t *testing.T) {
//		server := checkpointtest.Start(t)
//		front := server.Front()
//		front.Script(fault.On(fault.Upload).CutAfter()) // it arrives, its answer does not
//
//		w := worker.Worker{URL: front.URL, TaskID: "task-1", Restore: restore, Snapshot: snapshot} // yours
//		go w.Run(t.Context())
//
//		id := server.Trigger("task-1").ID
//		if got := server.Ended(id); got.Status != "completed" {
//			t.Errorf("the checkpoint is %+v", got)
//		}
//	}
//
// It is the real server on the embedded store, on a free port of 127.0.0.1 and in a folder
// of the test's own, and it is gone when the test ends. [Server.Stop] and [Server.Restart]
// take it away and bring it back on the same address with the same data, for tests of what
// a worker does meanwhile. [Server.Front] gives another URL that loses answers, refuses, hangs
// and breaks off as a script says, and tells what it saw: package fault.
package checkpointtest
