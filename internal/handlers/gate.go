package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/checkpointd/checkpointd/api"
)

const (
	// heavyBudget is for operations that take several steps in the store.
	heavyBudget = 15 * time.Second
	// budgetPerMiB is what a body adds to the budget of its request.
	budgetPerMiB = 500 * time.Millisecond
)

// gate stands before every operation and refuses, in this order, an Accept that rules the
// answer out, a wrong query, a wrong media type and a body that is not strict JSON of the
// operation's form. It then gives the store its budget.
func (s *server) gate(next api.StrictHandlerFunc, operationID string) api.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		o := operations[operationID]
		e := exchangeOf(ctx)
		e.operation = o
		if err := checkAccept(r, o); err != nil {
			return nil, err
		}
		if err := checkQuery(r, o, request); err != nil {
			return nil, err
		}
		if o.streams {
			return next(ctx, w, r, request)
		}
		wait, err := waitOf(o, request)
		if err != nil {
			return nil, err
		}
		size, err := s.takeBody(e, request)
		if err != nil {
			return nil, err
		}
		e.budget = s.budget(o, size)
		ctx, cancel := context.WithTimeout(ctx, e.budget+wait)
		defer cancel()
		return next(ctx, w, r, request)
	}
}

// budget is how long the store may take over an operation with so many bytes of body.
func (s *server) budget(o operation, size int) time.Duration {
	if o.heavy {
		return max(heavyBudget, s.options.Budget)
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
