// Package fault puts a front before a checkpointd server that misbehaves as it is told, and
// notes what arrives. Tests of workers give the worker the front's URL:
//
//	server := checkpointtest.Start(t)
//	front := server.Front()
//	front.Script(
//		fault.On(fault.Upload).CutAfter(),                            // carried out, the answer is lost
//		fault.On(fault.Upload).Refuse("store_unavailable").Times(3),  // then three 503s
//		fault.On(fault.Restore).CutAnswerAfter(100),                  // and one restore breaks off
//	)
//	w := worker.Worker{URL: front.URL, TaskID: "task-1", …}
//
// What no [Rule] is about passes through as it is, unbuffered: event streams, long polls,
// ranges, uploads with Expect: 100-continue. [Front.Requests] has every request in the order
// in which they arrived, with what became of it, and [Front.Wait] waits for them.
//
// Each worker may have a front of its own: one of a fleet has a bad line, the others do not. The
// server is any that has a URL, also one in another process.
package fault
