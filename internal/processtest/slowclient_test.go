package processtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// headersWithin is how long a client may take to send its headers, with some room.
const headersWithin = 14 * time.Second

func TestHeadersThatTrickleAreCutOffAndASlowRestoreIsNot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the server is patient for ten seconds")
	}
	p := serve(t, embedded(t))
	id := p.trigger(t, `{"requiredTaskAcks":1}`)
	part := newLargePart(moreThanBuffered)
	digest, size := part.digest("task-1")
	p.upload(t, at(id, "/tasks/task-1/state?ack=true"), part)

	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	response, err := request{method: "GET", url: p.url + at(id, "/restore")}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	ctx, cancel := context.WithTimeout(t.Context(), headersWithin)
	defer cancel()
	began := time.Now()
	if err := trickle(ctx, connection); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	t.Logf("headers that trickle were cut off after %s", took.Round(time.Millisecond))
	if took < 5*time.Second {
		t.Error("that is too soon for a client on a bad line")
	}

	// By now the restore has run for longer than headers may take, most of it unread.
	sum := sha256.New()
	if n, err := io.Copy(sum, paced(t.Context(), response.Body, int(size/2))); err != nil {
		t.Errorf("the slow restore ended after %d of %d bytes: %v", n, size, err)
	}
	if got := hexOf(sum); got != digest {
		t.Errorf("the slow restore has the digest %s, want %s", got, digest)
	}
	p.must(t, http.StatusOK, "GET", "/healthz", "")
}

// trickle sends a header byte by byte until the server closes the connection.
func trickle(ctx context.Context, connection net.Conn) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, connection) // however it ends, it has ended
	}()
	if _, err := io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-closed:
			return nil
		case <-ctx.Done():
			return errors.New("a client may trickle its headers for ever")
		case <-tick.C:
			if _, err := fmt.Fprint(connection, "x"); err != nil {
				return nil // it was closed, which is what this is about
			}
		}
	}
}
