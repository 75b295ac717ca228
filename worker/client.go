package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// callTimeout is how long a call may take beside what it asks the server to wait.
const callTimeout = 30 * time.Second

// client speaks to the server in the name of a job.
type client struct {
	base   string
	job    string
	token  string // empty: none is sent
	http   *http.Client
	log    *slog.Logger
	policy backoff
}

// newTransport keeps few connections and has no limit on a whole answer: uploads, restores
// and event streams may take hours.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   4,
	}
}

// request makes a request of the job.
func (c *client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	if query == nil {
		query = url.Values{}
	}
	if !strings.HasPrefix(path, "/jobs/") {
		query.Set("job", c.job)
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// open sends a request; a refusal is a *Problem.
func (c *client) open(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // It names method, address and cause.
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close() //nolint:errcheck // It was read only.
		return nil, problemOf(response)
	}
	return response, nil
}

// call is a small request.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	// wait is how long the server may keep the question open, in whole seconds.
	wait time.Duration
}

// answer is what a call decodes. JSON of something else than checkpointd, which may be an empty
// object, is known by what it lacks: taken at its word it might be a fresh start.
type answer interface{ genuine() bool }

var errForeign = errors.New("it is JSON, but not checkpointd's")

func decode(response *http.Response, into answer) error {
	err := json.NewDecoder(response.Body).Decode(into)
	if err == nil && !into.genuine() {
		err = errForeign
	}
	if err != nil {
		return fmt.Errorf("reading the answer of %s %s: %w", response.Request.Method, response.Request.URL.Path, err)
	}
	return nil
}

// do sends it once. What is answered is dropped when into is nil.
func (c *client) do(ctx context.Context, call call, into answer) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+call.wait)
	defer cancel()
	var body io.Reader
	if call.body != nil {
		text, err := json.Marshal(call.body)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	if call.wait > 0 {
		if call.query == nil {
			call.query = url.Values{}
		}
		call.query.Set("wait", strconv.Itoa(int(call.wait/time.Second)))
	}
	request, err := c.request(ctx, call.method, call.path, call.query, body)
	if err != nil {
		return err
	}
	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, call.header)
	response, err := c.open(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // It was read only.
	if into == nil {
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection can be used again
		return nil
	}
	return decode(response, into)
}

// retry repeats what fails for a while, until ctx ends.
func (c *client) retry(ctx context.Context, what string, f func() error) error {
	policy := c.policy
	for failures := 0; ; failures++ {
		err := f()
		if err == nil && failures > 0 {
			c.log.InfoContext(ctx, "checkpointd answers again", "call", what, "failures", failures)
		}
		if err == nil || !transient(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		level := slog.LevelDebug // the first one has told it
		if failures == 0 {
			level = slog.LevelWarn
		}
		c.log.Log(ctx, level, "checkpointd is away, trying again", "call", what, "error", err)
		if err := pause(ctx, max(policy.next(), retryAfter(err))); err != nil {
			return err
		}
	}
}

// surely is do with retry.
func (c *client) surely(ctx context.Context, call call, into answer) error {
	return c.retry(ctx, call.method+" "+call.path, func() error { return c.do(ctx, call, into) })
}
