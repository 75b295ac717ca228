package handlers

import (
	"context"
	"net/http"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// ExportJob streams a job as lines of JSON.
func (s *server) ExportJob(ctx context.Context, request api.ExportJobRequestObject) (api.ExportJobResponseObject, error) {
	stream, inTime, cancel := s.starting(ctx, longBudget)
	export, err := s.coordinator.OpenExport(stream, request.Job)
	if !inTime() {
		err = coordinator.ErrStoreUnavailable(err)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &exportAnswer{server: s, export: export, exchange: exchangeOf(ctx), ctx: stream, cancel: cancel}, nil
}

// exportAnswer streams an export. Whoever has it must visit it.
type exportAnswer struct {
	server   *server
	export   *coordinator.Export
	exchange *exchange
	ctx      context.Context //nolint:containedctx // It is the stream's own life, which begins before the answer does.
	cancel   context.CancelFunc
}

// VisitExportJobResponse streams. What goes wrong before the first bytes are sent is a problem like
// any other; later it can only break the transfer off, and the last line is missing.
func (a *exportAnswer) VisitExportJobResponse(w http.ResponseWriter) error {
	defer a.cancel()
	head := &headedWriter{to: w}
	if a.exchange.request.Method == http.MethodHead {
		head.send()
		return nil
	}
	sink := &patientWriter{to: head, control: http.NewResponseController(w), patience: a.server.options.RestoreIdle}
	err := a.export.Write(a.ctx, sink)
	switch {
	case err == nil:
		return nil
	case !head.sent:
		return err
	}
	a.server.reportStream(a.exchange.request, err)
	panic(http.ErrAbortHandler)
}

// headedWriter sends the head with the first bytes.
type headedWriter struct {
	to   http.ResponseWriter
	sent bool
}

// Write passes p on.
func (w *headedWriter) Write(p []byte) (int, error) {
	w.send()
	return w.to.Write(p) //nolint:wrapcheck // The export wraps it.
}

// send sends the head once.
func (w *headedWriter) send() {
	if !w.sent {
		w.sent = true
		w.to.Header().Set("Content-Type", mediaNDJSON)
		w.to.WriteHeader(http.StatusOK)
	}
}
