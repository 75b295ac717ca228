package fault_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/checkpointd/checkpointd/checkpointtest"
	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

// The answer to an acknowledgement is lost, so it is sent again, and counts once.
func Example() {
	server := checkpointtest.NewServer() // in a test, with its t: checkpointtest.Start(t)
	defer server.Close()
	front := server.Front()
	front.Script(fault.On(fault.Ack).CutAfter())

	id := server.Trigger("task-1", "task-2").ID
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for attempts := 1; ; attempts++ {
		answer, err := client.Post(fmt.Sprintf("%s/checkpoints/%d/acks", front.URL, id), "application/json",
			strings.NewReader(`{"taskId":"task-1","state":{"count":1}}`))
		if err == nil {
			fmt.Println(attempts, "attempts,", answer.Status)
			answer.Body.Close()
			break
		}
	}
	fmt.Println(server.Checkpoint(id).AcknowledgedTasks, "acknowledgement")
	for _, request := range front.Requests() {
		fmt.Println(request)
	}
	// Output:
	// 2 attempts, 200 OK
	// 1 acknowledgement
	// POST /checkpoints/0/acks → no answer (carried out, answer lost)
	// POST /checkpoints/0/acks → 200
}
