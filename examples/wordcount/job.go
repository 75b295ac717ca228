package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// job is what the driver asks the server about, and tells it.
type job struct {
	url, name string
	client    http.Client
}

// newJob keeps no connection: the server is killed again and again.
func newJob(url, name string) job {
	return job{url: url, name: name, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// settings are those of the job that matter here.
type settings struct {
	Tasks      []string `json:"tasks,omitempty"`
	IntervalMs int64    `json:"intervalMs,omitempty"`
	TimeoutMs  int64    `json:"timeoutMs,omitempty"`
	Paused     *bool    `json:"paused,omitempty"`
}

// callTimeout is how long the server may be away.
const callTimeout = time.Minute

// awayError says that the server, or its store, was away. All calls may be repeated.
type awayError struct{ error }

// call sends a request until it is answered, since the server may be on its way back.
func (j *job) call(ctx context.Context, method, path string, query url.Values, header http.Header, body, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("checkpointd does not answer"))
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		answer, err := j.send(ctx, method, path, query, header, text)
		if err == nil && into != nil {
			err = json.Unmarshal(answer, into)
		}
		if _, away := errors.AsType[*awayError](err); !away {
			return err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (j *job) send(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, j.url+path+"?"+query.Encode(), nil) //nolint:gosec // It is our server.
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	if header != nil {
		request.Header = header.Clone()
	}
	if string(body) != "null" {
		request.Header.Set("Content-Type", "application/json")
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := j.client.Do(request) //nolint:gosec // As above.
	if err != nil {
		return nil, &awayError{err}
	}
	defer response.Body.Close() //nolint:errcheck // It was read only.
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, &awayError{err}
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	err = fmt.Errorf("%s %s is answered with %s: %s", method, path, response.Status, answer)
	if response.StatusCode == http.StatusServiceUnavailable {
		err = &awayError{err}
	}
	return nil, err
}

// ofJob is the query of everything that is not below /jobs.
func (j *job) ofJob() url.Values { return url.Values{"job": {j.name}} }

// put makes the job, or replaces its settings.
func (j *job) put(ctx context.Context, s settings) error {
	return j.call(ctx, http.MethodPut, "/jobs/"+j.name, nil, nil, s, nil)
}

// change sets what s names.
func (j *job) change(ctx context.Context, s settings) error {
	return j.call(ctx, http.MethodPatch, "/jobs/"+j.name, nil, nil, s, nil)
}

// remove forgets the job.
func (j *job) remove(ctx context.Context) error {
	return j.call(ctx, http.MethodDelete, "/jobs/"+j.name, url.Values{"force": {"true"}}, nil, nil, nil)
}

// pending tells how many checkpoints have not ended.
func (j *job) pending(ctx context.Context) (int, error) {
	var list struct {
		Checkpoints []struct{} `json:"checkpoints"`
	}
	query := j.ofJob()
	query.Set("status", "pending")
	err := j.call(ctx, http.MethodGet, "/checkpoints", query, nil, nil, &list)
	return len(list.Checkpoints), err
}

// checkpoint triggers one of all tasks and waits until it has completed. The key keeps a
// repeated call from triggering another one.
func (j *job) checkpoint(ctx context.Context, key string) error {
	query := j.ofJob()
	query.Set("wait", "30")
	var triggered struct {
		Status string `json:"status"`
	}
	err := j.call(ctx, http.MethodPost, "/checkpoints", query, http.Header{"Idempotency-Key": {key}}, struct{}{}, &triggered)
	if err == nil && triggered.Status != "completed" {
		return fmt.Errorf("the last checkpoint is %s", triggered.Status)
	}
	return err
}

// figures are the job's own.
type figures struct {
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

func (j *job) figures(ctx context.Context) (figures, error) {
	var stats struct {
		Counts figures `json:"counts"`
	}
	err := j.call(ctx, http.MethodGet, "/checkpoints/stats", j.ofJob(), nil, nil, &stats)
	return stats.Counts, err
}

// state is what is in the latest checkpoint, whichever tasks handed it in: a line for each key,
// in their order.
func (j *job) state(ctx context.Context) ([]byte, error) {
	restored, err := j.send(ctx, http.MethodGet, "/checkpoints/latest/restore", j.ofJob(), nil, []byte("null"))
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for line := range bytes.Lines(restored) {
		var entry struct {
			Key   string          `json:"key"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("reading the latest checkpoint: %w", err)
		}
		lines = append(lines, stateLine(entry.Key, entry.Value))
	}
	return canonical(lines), nil
}

func stateLine(key string, value []byte) []byte { return fmt.Appendf(nil, "%s %s\n", key, value) }

// canonical puts lines into one order.
func canonical(lines [][]byte) []byte {
	slices.SortFunc(lines, bytes.Compare)
	return bytes.Join(lines, nil)
}
