package load_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/bench/load"
)

// serve runs a server that answers each body through answer.
func serve(t *testing.T, answer func(body string) (int, string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status, text := answer(string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a long one goes in chunks
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func post(buffer []byte, n int64) []byte {
	body := strconv.FormatInt(n, 10)
	return fmt.Appendf(buffer, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestARunOfACountSendsEachNumberOnceAndMeasuresEachAnswer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	long := strings.Repeat("long ", 5000) // in several chunks, and more than the first buffer
	address := serve(t, func(body string) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		seen[body]++
		if n, _ := strconv.Atoi(body); n%2 == 0 {
			return 200, long
		}
		return 200, "short"
	})
	check := func(status int, body []byte) error {
		if text := string(body); status != 200 || text != "short" && text != long {
			return fmt.Errorf("answered %d: %s", status, body)
		}
		return nil
	}
	result, err := load.Run(t.Context(), load.Options{Address: address, Connections: 7, Threads: 2, Next: post, Check: check, Count: 500})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock() // the race detector does not see that every answer came after its request
	defer mu.Unlock()
	if result.Requests != 500 || len(seen) != 500 {
		t.Errorf("%d requests with %d numbers, want 500", result.Requests, len(seen))
	}
	if result.Percentile(0) > result.Percentile(0.99) || result.Percentile(1) <= 0 {
		t.Errorf("latencies from %s to %s", result.Percentile(0), result.Percentile(1))
	}
}

func TestARunOfADurationBeginsAndEndsMeasuringOnce(t *testing.T) {
	t.Parallel()
	address := serve(t, func(string) (int, string) { return 200, "" })
	var calls []string
	result, err := load.Run(t.Context(), load.Options{
		Address: address, Connections: 3, Next: post, WarmUp: time.Millisecond, Duration: 50 * time.Millisecond,
		Began: func() { calls = append(calls, "began") }, Ended: func() { calls = append(calls, "ended") },
	})
	if err != nil || result.Requests == 0 || result.Elapsed < 50*time.Millisecond {
		t.Errorf("%d requests in %s: %v", result.Requests, result.Elapsed, err)
	}
	if fmt.Sprint(calls) != "[began ended]" {
		t.Errorf("called %v", calls)
	}
}

func TestARunFailsWithTheAnswerThatIsNotWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	address := serve(t, func(body string) (int, string) {
		if body == "17" {
			return 409, "not that one"
		}
		return 200, "fine"
	})
	_, err := load.Run(t.Context(), load.Options{Address: address, Connections: 4, Next: post, Count: 100})
	if err == nil || !strings.Contains(err.Error(), "409: not that one") {
		t.Errorf("got %v", err)
	}
}

func TestARunEndsWhenItsContextDoes(t *testing.T) {
	t.Parallel()
	address := serve(t, func(string) (int, string) { return 200, "" })
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	_, err := load.Run(ctx, load.Options{
		Address: address, Connections: 4, Duration: time.Hour,
		Next: func(buffer []byte, n int64) []byte {
			if n > 100 {
				once.Do(cancel)
			}
			return post(buffer, n)
		},
	})
	if err == nil {
		t.Error("a cancelled run is no success")
	}
}
