package handlers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
)

// GetLimits serves the limits.
func (s *server) GetLimits(context.Context, api.GetLimitsRequestObject) (api.GetLimitsResponseObject, error) {
	return api.GetLimits200JSONResponse(limitsOf(s.coordinator.Settings(), s.options.Load.Limits())), nil
}

// GetHealth says that the process serves, and fails where only a new start of it helps.
func (s *server) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	if err := s.coordinator.Alive(); err != nil {
		return nil, notReady(coordinator.ErrStoreUnavailable(err))
	}
	return api.GetHealth200JSONResponse{Status: api.HealthStatusOk}, nil
}

// GetReadiness says whether requests can be served now.
func (s *server) GetReadiness(ctx context.Context, request api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	if s.options.Draining() {
		return nil, &coordinator.Error{
			Code:   coordinator.CodeShuttingDown,
			Detail: "The server is shutting down and finishes what it has begun. Send new requests to another replica.",
		}
	}
	warnings, err := s.options.Ready(ctx)
	if err != nil {
		return nil, notReady(err)
	}
	answer := api.GetReadiness200JSONResponse{Status: api.ReadinessStatusReady, Warnings: warningsOf(warnings)}
	if verbose := request.Params.Verbose; verbose != nil && *verbose != api.GetReadinessParamsVerboseFalse {
		if err := admitVerbose(ctx); err != nil {
			return nil, err
		}
		e := exchangeOf(ctx)
		e.giveSlot() // it is a list, and no small request any more
		if err := s.takeSlot(ctx, e, load.List); err != nil {
			return nil, err
		}
		jobs, err := s.coordinator.Jobs(ctx)
		if err != nil {
			return nil, notReady(err)
		}
		jobs = jobsFor(ctx, jobs)
		answer.Jobs = readyJobsOf(jobs[:min(len(jobs), coordinator.MaxListLimit)], s.coordinator.Settings())
	}
	return answer, nil
}

// notReady says why, as far as that can be said without quoting a library.
func notReady(err error) error {
	if coordinator.CodeOf(err) != coordinator.CodeStoreUnavailable {
		return err
	}
	if cause, known := coordinator.CauseOf(err); known {
		return &coordinator.Error{Code: coordinator.CodeStoreUnavailable, Detail: readinessOf(cause), RetryAfter: time.Second, Err: err}
	}
	reason := "is away: it does not answer as it should"
	var network net.Error
	var lookup *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		reason = "is away: it refuses connections"
	case errors.As(err, &lookup):
		reason = "is away: the name of its host is not known"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		reason = "is away: it does not answer in time"
	}
	return &coordinator.Error{
		Code:       coordinator.CodeStoreUnavailable,
		Detail:     fmt.Sprintf("The storage %s. Requests are answered 503 until it is back, and go on by themselves then; the server's log has the cause.", reason),
		RetryAfter: time.Second, Err: err,
	}
}

// readinessOf says what is wrong and whether it ends by itself.
func readinessOf(cause *coordinator.Cause) string {
	then := "Requests are answered 503 until that is over, and go on by themselves then"
	if cause.Restart {
		then = "Start the server again: what needs the storage is answered 503 until then, and GET /healthz fails"
	}
	return fmt.Sprintf("The storage cannot be used: %s. %s; the server's log has the cause.", cause.Says, then)
}

// GetMetrics serves the metrics.
func (s *server) GetMetrics(ctx context.Context, _ api.GetMetricsRequestObject) (api.GetMetricsResponseObject, error) {
	return metricsAnswer{handler: s.options.Metrics, request: exchangeOf(ctx).request}, nil
}

// metricsAnswer lets another handler answer.
type metricsAnswer struct {
	handler http.Handler
	request *http.Request
}

func (a metricsAnswer) VisitGetMetricsResponse(w http.ResponseWriter) error {
	a.handler.ServeHTTP(w, a.request)
	return nil
}

// GetContract serves the contract, byte for byte.
func (s *server) GetContract(context.Context, api.GetContractRequestObject) (api.GetContractResponseObject, error) {
	return contractAnswer{}, nil
}

type contractAnswer struct{}

func (contractAnswer) VisitGetContractResponse(w http.ResponseWriter) error {
	return writeBytes(w, mediaYAML, api.Spec)
}
