package handlers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/checkpointd/checkpointd/internal/operations"
)

// waitParameter is how the contract calls the seconds that a call may wait.
const waitParameter = "wait"

// seconds is how long a call may wait for something to answer.
func seconds(wait *int) time.Duration { return time.Duration(valueOr(wait, 0)) * time.Second }

// waitOf finds how long a request whose query was checked may wait, which the store's budget
// does not count.
func waitOf(r *http.Request, o *operations.Operation) time.Duration {
	if !o.Has(waitParameter) {
		return 0
	}
	wait, _ := strconv.Atoi(r.URL.Query().Get(waitParameter)) // none is 0
	return time.Duration(wait) * time.Second
}
