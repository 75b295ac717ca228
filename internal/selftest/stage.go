package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
	"github.com/checkpointd/checkpointd/internal/server"
)

// stage is the coordinator that the worker meets: the server itself, which the kit speaks to
// straight, and the front before it, which the worker does.
type stage struct {
	// url is where the worker finds it: what was asked for, with the port that 0 became.
	url    string
	job    string
	folder string
	server *server.Server
	front  *fault.Front
	client *http.Client
}

// address takes the host and port out of a URL that the worker will use.
func address(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return "", fmt.Errorf("%q is not of the form http://HOST:PORT", raw)
	}
	return u.Host, nil
}

// raise opens the stage at a URL.
func raise(ctx context.Context, at, job string) (*stage, error) {
	listen, err := address(at)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "checkpointd-selftest")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the checkpoints: %w", err)
	}
	s := &stage{job: job, folder: folder, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.server, err = server.New(server.Config{
		Listen: "127.0.0.1:0", Data: folder, KeyPrefix: "checkpoint:", RequiredTaskAcks: 1, CheckpointsToKeep: 20,
		MaxConcurrentCheckpoints: 100, EventsToKeep: 10_000, MaxPart: 4 << 30,
		DrainTimeout: 100 * time.Millisecond, LogLevel: "error", LogFormat: "json",
		Bounds: server.DefaultBounds(),
	}, io.Discard)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if err := s.server.Start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.call(ctx, http.MethodPut, "/jobs/"+url.PathEscape(job), struct{}{}, nil); err != nil { // so that it exists
		return nil, errors.Join(err, s.close())
	}
	s.front, err = fault.Listen(listen, s.server.URL())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("something listens on %s already. selftest is the coordinator itself, so stop what runs there, "+
			"or name a free address, such as http://127.0.0.1:%d, and give that to your worker", listen, freePort())
	case err != nil:
		err = fmt.Errorf("cannot listen on %s: %w", listen, err)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.url = strings.TrimSuffix(at, "/"); strings.HasSuffix(s.url, ":0") {
		s.url = s.front.URL
	}
	return s, nil
}

// freePort is one that nobody uses now; 9091 when that cannot be found out.
func freePort() int {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 9091
	}
	defer listener.Close()
	at, _ := listener.Addr().(*net.TCPAddr)
	return at.Port
}

func (s *stage) close() error {
	if s.front != nil {
		s.front.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // also after a Ctrl-C
	defer cancel()
	return errors.Join(s.server.Stop(ctx), os.RemoveAll(s.folder))
}

// checkpoint is what the kit reads of one.
type checkpoint struct {
	ID                int64  `json:"checkpointId"`
	Status            string `json:"status"`
	Epoch             int64  `json:"epoch"`
	AcknowledgedTasks int    `json:"acknowledgedTasks"`
	Failure           struct {
		Reason  string `json:"reason"`
		TaskID  string `json:"taskId"`
		Message string `json:"message"`
	} `json:"failure"`
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// patient is how long the kit waits for the store of its own server, on a machine whose disk is busy.
const patient = 30 * time.Second

// call asks the server past the front. Every answer but a success is a *refusal.
func (s *stage) call(ctx context.Context, method, path string, body, into any) error {
	for began := time.Now(); ; {
		err := s.once(ctx, method, path, body, into)
		refusal, is := errors.AsType[*refusal](err)
		if !is || refusal.status != http.StatusServiceUnavailable || time.Since(began) > patient {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *stage) once(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	target, err := url.Parse(s.server.URL() + path)
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	if !strings.HasPrefix(path, "/jobs/") {
		query := target.Query()
		query.Set("job", s.job)
		target.RawQuery = query.Encode()
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), reader)
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("the kit's own server: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("the kit's own server: %s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return &refusal{response.StatusCode, fmt.Sprintf("the kit's own server: %s %s: %s %s", method, path, response.Status, answer)}
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = answer
		return nil
	default:
		return json.Unmarshal(answer, into)
	}
}
