package server_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
)

// Beyond the bound of connections one goes that has no request, and a new client is served.
func TestConnectionsWithoutARequestMakeRoomForThoseWithOne(t *testing.T) {
	t.Parallel()
	const most = 8
	config := embedded(t)
	config.MaxConnections = most
	s := start(t, config)
	// As many as there may be, which rest after a request: the oldest is closed for each new one.
	var resting []net.Conn
	for range 2 * most {
		conn := dial(t, s.Addr())
		ask(t, conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resting = append(resting, conn)
	}
	if _, err := resting[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that has rested longest is not closed: %v", err)
	}
	ask(t, resting[len(resting)-1], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	// As many that have begun a request and do not go on: they are left alone for a moment.
	for range most {
		if _, err := io.WriteString(dial(t, s.Addr()), "GET /healthz HTTP/1.1\r\nHost: "); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "a client is served although all connections are in the middle of a head", func() bool {
		got := sendRaw(t, s.Addr(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if got.status == http.StatusServiceUnavailable && !strings.Contains(got.text, `"code":"overloaded"`) {
			t.Errorf("the refusal is %s", got.text)
		}
		return got.status == http.StatusOK
	})
	if metrics := call(t, http.MethodGet, s.URL()+"/metrics", "").text; !strings.Contains(metrics, `checkpointd_connections_closed_total{why="waiting"}`) {
		t.Error("the metrics do not count the connections that were closed")
	}
}

// dial connects until the test ends.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask sends a request on a connection and reads the beginning of a success.
func ask(t *testing.T, conn net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4<<10)
	if n, err := conn.Read(head); err != nil || !strings.HasPrefix(string(head[:n]), "HTTP/1.1 200") {
		t.Fatalf("%q, %v", head[:n], err)
	}
}

func TestHeadersAreBoundedByAFlagAndSixteenKibibytesOtherwise(t *testing.T) {
	t.Parallel()
	raised := embedded(t)
	raised.MaxHeader = 64 << 10
	with := func(bytes int) string {
		return "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + strings.Repeat("x", bytes) + "\r\n\r\n"
	}
	plain := start(t, embedded(t))
	if got := sendRaw(t, plain.Addr(), with(15<<10)); got.status != http.StatusOK {
		t.Errorf("15 KiB of headers: %d %s", got.status, got.text)
	}
	if got := sendRaw(t, plain.Addr(), with(24<<10)); got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.text, "--max-header") {
		t.Errorf("24 KiB of headers: %d %s", got.status, got.text)
	}
	if got := sendRaw(t, start(t, raised).Addr(), with(60<<10)); got.status != http.StatusOK {
		t.Errorf("60 KiB of headers with --max-header 64KiB: %d %s", got.status, got.text)
	}
}

// What a client certificate was let in for ends with the authority that stood for it.
func TestAStreamEndsWhenTheAuthorityOfItsClientCertificateIsRemoved(t *testing.T) {
	t.Parallel()
	b, config := newBehindTLS(t)
	doorstest.Write(t, config.Tokens, []byte(strings.Replace(dashboardTokens, `"read"`, `"read","events"`, 1)))
	s, _ := startEvery(t, config, 10*time.Millisecond)
	b.url = s.URL()
	open := func(path string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := b.dial(b.shown, b.reader).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	streams := open("/events") //nolint:bodyclose // open closes it when the test ends.
	if streams.StatusCode != http.StatusOK {
		t.Fatal(streams.Status)
	}
	// Another authority beside it changes nothing.
	other := doorstest.NewCertificate(t, "other.test")
	doorstest.Write(t, config.TLSClientCA, append(append([]byte{}, b.reader.CertPEM...), other.CertPEM...))
	until(t, "the authority beside it is one", func() bool { return b.status(b.dial(b.shown, other)) == http.StatusUnauthorized })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, streams.Body) // until the server ends it
	}()
	select {
	case <-ended:
		t.Fatal("the stream ended though its authority stays")
	default:
	}
	doorstest.Write(t, config.TLSClientCA, other.CertPEM)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the stream goes on")
	}
}
