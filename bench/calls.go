package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// call sends one request and gives the answer's body; an answer that is no 2xx is an error.
func (b *bench) call(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, url, response.Status, answer)
	}
	return answer, nil
}

// trigger makes a pending checkpoint that so many tasks have to acknowledge.
func (b *bench) trigger(ctx context.Context, s *system, required int) (id int64, err error) {
	answer, err := b.call(ctx, http.MethodPost, s.url(serverName, "/checkpoints"), strings.NewReader(`{"requiredTaskAcks":`+strconv.Itoa(required)+`}`))
	if err != nil {
		return 0, err
	}
	var checkpoint struct {
		CheckpointID int64 `json:"checkpointId"`
	}
	if err := json.Unmarshal(answer, &checkpoint); err != nil {
		return 0, fmt.Errorf("reading the answer of a trigger: %w", err)
	}
	return checkpoint.CheckpointID, nil
}

// requestTimeout is longer than anything that is asked of a server here.
const requestTimeout = 2 * time.Minute

func newClient() *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}
