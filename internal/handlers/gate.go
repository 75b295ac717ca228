package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
	"github.com/checkpointd/checkpointd/internal/operations"
)

const (
	// longBudget is for operations that take several steps in the store.
	longBudget = 15 * time.Second
	// budgetPerMiB is what a body adds to the budget of its request.
	budgetPerMiB = 500 * time.Millisecond
)

// gate stands before every operation and refuses, in this order, a caller that may not use it, an Accept that rules the
// answer out, a wrong query, tags that are none, a wrong media type, a body that is not strict JSON of the
// operation's form, and what is more than the server takes at once. It then gives the store its
// budget.
func (s *server) gate(next api.StrictHandlerFunc, operationID string) api.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		o := operations.Named(operationID)
		e := exchangeOf(ctx)
		e.operation = o
		if err := s.admit(e, request); err != nil {
			return nil, err
		}
		s.options.OnAdmitted(r, o.Role)
		ctx = coordinator.By(ctx, e.callerName())
		e.holds.who = load.Who{Client: clientOf(r, e.caller), Job: jobOfRequest(o, request)}
		if err := checkAccept(r, o); err != nil {
			return nil, err
		}
		if err := checkQuery(r, o); err != nil {
			return nil, err
		}
		if err := checkTags(r, o); err != nil {
			return nil, err
		}
		if o.Class == load.Stream { // no transfer would ever end it
			e.untilRevoked(ctx)
		}
		if o.Streams {
			if err := s.takeSlot(ctx, e, o.Class); err != nil {
				return nil, err
			}
			return next(ctx, w, r, request)
		}
		wait := waitOf(r, o)
		e.wait = wait
		class := o.Class
		if wait > 0 && r.Method == http.MethodGet { // what changes something is not broken off before it has
			e.untilRevoked(ctx)
		}
		if wait > 0 {
			class = load.Stream
		}
		size, err := s.takeBody(e, request)
		if err != nil {
			return nil, err
		}
		// After the body, or senders that dawdle would take the places of those that do not.
		if err := s.takeSlot(ctx, e, class); err != nil {
			return nil, err
		}
		defer e.giveSlot() // before the answer is read, which the client may take its time for
		e.budget = s.budget(o, size)
		ctx, cancel := context.WithTimeout(ctx, e.budget+wait)
		defer cancel()
		response, err := next(ctx, w, r, request)
		if err == nil {
			err = s.keepAnswer(e, response)
		}
		s.limitAnswer(e)
		return response, err
	}
}

// budget is how long the store may take over an operation with so many bytes of body.
func (s *server) budget(o *operations.Operation, size int) time.Duration {
	if o.Long {
		return max(longBudget, s.options.Budget)
	}
	return s.options.Budget + time.Duration(size>>20)*budgetPerMiB
}

// starting gives the context of a stream whose first call of the store has a budget. The
// budget is over with inTime, which tells whether it had run out; the stream goes on.
func (s *server) starting(ctx context.Context, budget time.Duration) (stream context.Context, inTime func() bool, cancel context.CancelFunc) {
	stream, cancel = context.WithCancel(ctx)
	timer := time.AfterFunc(budget, cancel)
	return stream, timer.Stop, cancel
}
