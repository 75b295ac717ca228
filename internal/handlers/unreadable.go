package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Unreadable is the whole answer to what net/http could not read as a request, and so
// answered by itself with status and a text, or to a connection for which there is no room (503). It gives the status that it has made of that.
func Unreadable(status int, requestID string) (answer []byte, now int) {
	refusal := unreadable(status)
	problem := problemOf(refusal, "urn:checkpointd:request:"+requestID)
	body, err := json.Marshal(problem)
	if err != nil {
		body = nil // cannot happen: a problem of ours always marshals
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n"+
		"Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\n\r\n%s",
		problem.Status, http.StatusText(problem.Status), len(body), mediaProblem, requestID, body), problem.Status
}

func unreadable(status int) *coordinator.Error {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return &coordinator.Error{
			Code:   coordinator.CodeTooLarge,
			Detail: "The request line and the headers are larger than is read here (--max-header of the server). Shorten them; of a restore, ask for fewer tasks at a time.",
		}
	case http.StatusServiceUnavailable:
		return &coordinator.Error{
			Code:   coordinator.CodeOverloaded,
			Detail: "The server has all the connections that it takes at once (--max-connections), and all are in use. Nothing was read. Come back in a second, or to another replica.",
		}
	case http.StatusExpectationFailed:
		return invalidParameter("Expect", "The only expectation that is met is 100-continue.")
	case http.StatusNotImplemented:
		return invalidParameter("Transfer-Encoding", "The only one that is known is chunked.")
	case http.StatusHTTPVersionNotSupported:
		return &coordinator.Error{Code: coordinator.CodeInvalidRequest, Detail: "The request is of an HTTP that is not spoken here. Speak HTTP/1.1."}
	}
	return &coordinator.Error{
		Code: coordinator.CodeInvalidRequest,
		Detail: "The bytes are no HTTP request that can be read. Look at the first line, where what is no letter, digit or one of -._~ is percent-encoded; at the " +
			"names and values of the headers, with one Host among them; and at Content-Length and Transfer-Encoding.",
	}
}
