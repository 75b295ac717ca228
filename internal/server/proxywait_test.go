package server_test

import (
	"net/http"
	"testing"
	"time"
)

// Common proxies answer 504 for the server after 60 seconds without a byte.
func TestAWaitEndsBeforeProxiesGiveUpUnlessItsClientAsksForMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers string
		want    time.Duration
	}{
		"as it is":             {"", 50 * time.Second},
		"with a preference":    {"Prefer: respond-async, wait=60\r\n", time.Minute},
		"with a shorter one":   {"Prefer: wait=10\r\n", 50 * time.Second},
		"with one that is not": {"Prefer: wait=long\r\n", 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, dial func() slowClient) {
				t.Helper()
				call := dial()
				call.send(t, "POST /checkpoints?wait=60 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+c.headers+"\r\n")
				status, text, answered, _ := call.answer(t)
				if status != http.StatusCreated {
					t.Errorf("it is answered %d %s", status, text)
				}
				within(t, answered, c.want)
			})
		})
	}
}

func TestAnIdleConnectionIsKeptForAsLongAsTheOperatorSays(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.IdleTimeout = 50 * time.Millisecond
	s := start(t, config)
	got := sendRaw(t, s.Addr(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if got.status != http.StatusOK || got.header.Get("Connection") == "close" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if config.IdleTimeout = -1; config.Validate() == nil {
		t.Error("a negative time is taken")
	}
}
