package server_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
	"github.com/checkpointd/checkpointd/internal/server"
)

// behindTLS are a server's files of TLS and tokens, and who is in them.
type behindTLS struct {
	t      *testing.T
	folder string
	shown  doorstest.Certificate // the server's
	reader doorstest.Certificate // an authority, and a token
	url    string
}

// dashboardTokens is a file with the token of the reader's certificate.
const dashboardTokens = `{"tokens":[{"name":"dashboard","certificate":"reader.test","roles":["read"]}]}`

func newBehindTLS(t *testing.T) (*behindTLS, server.Config) {
	t.Helper()
	b := &behindTLS{t: t, folder: t.TempDir(), shown: doorstest.NewCertificate(t, "server.test"), reader: doorstest.NewCertificate(t, "reader.test")}
	config := embedded(t)
	config.Public = []string{"healthz", "readyz"}
	config.TLSCert, config.TLSKey = b.shown.WriteTo(t, b.folder)
	config.TLSClientCA, config.Tokens = b.file("clients.pem"), b.file("tokens.json")
	doorstest.Write(t, config.TLSClientCA, b.reader.CertPEM)
	doorstest.Write(t, config.Tokens, []byte(dashboardTokens))
	return b, config
}

func (b *behindTLS) file(name string) string { return filepath.Join(b.folder, name) }

// dial gives a client that trusts one certificate and shows another, if any. It keeps its
// connection.
func (b *behindTLS) dial(trusted doorstest.Certificate, shown ...doorstest.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: trusted.Trust(shown...), MaxIdleConnsPerHost: 1}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// status asks for the jobs, or something else; 0 is a handshake that failed.
func (b *behindTLS) status(client *http.Client, call ...string) int {
	b.t.Helper()
	method, path := http.MethodGet, "/jobs"
	if len(call) > 0 {
		method, path = call[0], call[1]
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body) // or the connection could not go on
	_ = response.Body.Close()
	return response.StatusCode
}

// startEvery starts a server that looks at its files so often, and keeps what it logs.
func startEvery(t *testing.T, config server.Config, pause time.Duration) (*server.Server, *lines) {
	t.Helper()
	log := new(lines)
	s, err := server.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	s.LookAgainEvery(pause)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s, log
}

// until waits for a condition that the server's next look at its files brings about.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

func TestAClientCertificateIsWhoTheTokensFileSays(t *testing.T) {
	t.Parallel()
	b, config := newBehindTLS(t)
	s := start(t, config)
	b.url = s.URL()
	if err := server.CheckHealth(t.Context(), s.Addr(), true); err != nil {
		t.Errorf("the server's own health check: %v", err)
	}
	if err := server.CheckHealth(t.Context(), s.Addr(), false); err == nil {
		t.Error("a health check in the clear was answered over TLS")
	}
	if got := b.status(b.dial(b.shown, b.reader)); got != http.StatusOK {
		t.Errorf("the reader's certificate may read: %d", got)
	}
	if got := b.status(b.dial(b.shown, b.reader), http.MethodPost, "/checkpoints"); got != http.StatusForbidden {
		t.Errorf("the reader's certificate may trigger: %d", got)
	}
	if got := b.status(b.dial(b.shown)); got != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d", got)
	}
	// A name is worth nothing that no authority stands for.
	if got := b.status(b.dial(b.shown, doorstest.NewCertificate(t, "reader.test"))); got == http.StatusOK {
		t.Errorf("a certificate of nobody's authority: %d", got)
	}
}

// The files are read again on SIGHUP and by the clock. Each has to do without the other here.
func TestFilesOfTLSAndTokensAreReadAgain(t *testing.T) { //nolint:paralleltest // The signal is for the whole process.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP) // without a server that waits for it, it would end the tests
	defer signal.Stop(signals)
	for name, c := range map[string]struct { //nolint:paralleltest // see above
		pause  time.Duration
		hangup func()
	}{
		"on change": {10 * time.Millisecond, func() {}},
		"on SIGHUP": {time.Hour, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGHUP) }},
	} {
		t.Run(name, func(t *testing.T) {
			b, config := newBehindTLS(t)
			s, _ := startEvery(t, config, c.pause)
			b.url = s.URL()
			open, seen := b.dial(b.shown), b.dial(b.shown, b.reader)
			if got := b.status(seen); got != http.StatusOK {
				t.Fatalf("before anything changed: %d", got)
			}
			b.status(open)

			old, next := b.shown, doorstest.NewCertificate(t, "server.test")
			next.WriteTo(t, b.folder)
			c.hangup()
			until(t, "new connections are shown the new certificate", func() bool { return b.status(b.dial(next)) == http.StatusUnauthorized })
			if got := b.status(b.dial(old)); got != 0 {
				t.Errorf("new connections are shown the old certificate: %d", got)
			}
			if got := b.status(open); got != http.StatusUnauthorized {
				t.Errorf("the connection that there was is gone: %d", got)
			}

			doorstest.Write(t, config.Tokens, []byte(strings.Replace(dashboardTokens, "read\"]", "events\"]", 1)))
			c.hangup()
			until(t, "the token may not read any more", func() bool { return b.status(seen) == http.StatusForbidden })
			doorstest.Write(t, config.Tokens, []byte(dashboardTokens))
			c.hangup()
			until(t, "it may again", func() bool { return b.status(seen) == http.StatusOK })

			// Another authority: the one of before is none, on no connection.
			other := doorstest.NewCertificate(t, "reader.test")
			doorstest.Write(t, config.TLSClientCA, other.CertPEM)
			c.hangup()
			until(t, "the new authority's client may read", func() bool { return b.status(b.dial(next, other)) == http.StatusOK })
			if got := b.status(seen); got != http.StatusUnauthorized {
				t.Errorf("a client whose authority is gone has its connection, and is answered %d", got)
			}
		})
	}
}

func TestBrokenFilesOfTLSAndTokensChangeNothingAndShow(t *testing.T) {
	t.Parallel()
	b, config := newBehindTLS(t)
	config.Public = append(config.Public, "metrics")
	s, log := startEvery(t, config, 10*time.Millisecond)
	b.url = s.URL()
	shows := func(path string) string {
		config := tls.Config{InsecureSkipVerify: true} // certificates are looked at elsewhere
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &config}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return do(t, &client, request).text
	}
	const canary = "hunter2hunter2"
	other := doorstest.NewCertificate(t, "other.test")
	for _, c := range []struct {
		file, kind string
		broken     []byte // nil removes the file
	}{
		{config.TLSCert, "tls", []byte(canary)},
		{config.TLSCert, "tls", other.CertPEM}, // not the key's
		{config.TLSKey, "tls", []byte(canary)},
		{config.TLSKey, "tls", nil},
		{config.TLSClientCA, "tls", []byte(canary)},
		{config.TLSClientCA, "tls", other.KeyPEM},
		{config.TLSClientCA, "tls", []byte("-----BEGIN CERTIFICATE-----\n" + canary + "ab\n-----END CERTIFICATE-----\n")},
		{config.Tokens, "tokens", []byte(canary)},
		{config.Tokens, "tokens", nil},
	} {
		good, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if c.broken == nil {
			if err := os.Remove(c.file); err != nil {
				t.Fatal(err)
			}
		} else {
			doorstest.Write(t, c.file, c.broken)
		}
		what := filepath.Base(c.file) + " is noticed"
		until(t, what, func() bool { return strings.Contains(shows("/readyz"), c.kind+"_files") })
		until(t, what, func() bool { return strings.Contains(shows("/metrics"), `credentials_valid{files="`+c.kind+`"} 0`) })
		if got := b.status(b.dial(b.shown, b.reader)); got != http.StatusOK {
			t.Errorf("%s broken: the certificates and tokens of before do not hold: %d", c.file, got)
		}
		doorstest.Write(t, c.file, good)
		until(t, what+" to be mended", func() bool { return !strings.Contains(shows("/readyz"), "_files") })
		until(t, what+" to be mended", func() bool { return strings.Contains(shows("/metrics"), `credentials_valid{files="`+c.kind+`"} 1`) })
	}
	if text := log.String(); strings.Contains(text, canary) || strings.Count(text, "holds on") < 9 {
		t.Errorf("the log is\n%s", text)
	}
}
