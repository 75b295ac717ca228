package handlers

import (
	"reflect"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// seconds is how long a call may wait for something to answer.
func seconds(wait *int) time.Duration { return time.Duration(valueOr(wait, 0)) * time.Second }

// waitOf finds how long the request of an operation may wait, which the store's budget
// does not count.
func waitOf(o operation, request any) (time.Duration, error) {
	for _, parameter := range o.query {
		if parameter.name != "wait" {
			continue
		}
		wait, ok := reflect.TypeAssert[*int](reflect.ValueOf(request).FieldByName("Params").FieldByIndex(parameter.field))
		if ok && wait != nil && (*wait < 0 || *wait > coordinator.MaxWaitSeconds) {
			return 0, invalidParameter("wait", parameterForms["wait"])
		}
		return seconds(wait), nil
	}
	return 0, nil
}
