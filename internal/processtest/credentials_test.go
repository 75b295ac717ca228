package processtest

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/checkpointd/checkpointd/internal/doors/doorstest"
)

// A SIGHUP must not end the process, as it does by default, and has it read its files.
func TestASIGHUPHasTheServerReadItsTokensAndCertificates(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens := filepath.Join(folder, "tokens.json")
	doorstest.WriteTokens(t, tokens, doorstest.Entry("old", "secret-old", `"roles":["read"]`))
	first, second := doorstest.NewCertificate(t, "one.test"), doorstest.NewCertificate(t, "two.test")
	cert, key := first.WriteTo(t, folder)
	p := serve(t, embedded(t), "--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
	p.url = strings.Replace(p.url, "http:", "https:", 1)
	status := func(trusted doorstest.Certificate, token string) int {
		transport := &http.Transport{TLSClientConfig: trusted.Trust(), DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, p.url+"/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
		if err != nil {
			return 0
		}
		_ = response.Body.Close() // only its status counts
		return response.StatusCode
	}
	if got := status(first, "secret-old"); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	second.WriteTo(t, folder)
	doorstest.WriteTokens(t, tokens, doorstest.Entry("new", "secret-new", `"roles":["read"]`))
	p.signal(t, syscall.SIGHUP)
	eventually(t, "certificate and tokens are the new ones", func() bool { return status(second, "secret-new") == http.StatusOK })
	if got := status(second, "secret-old"); got != http.StatusUnauthorized {
		t.Errorf("the old token: %d", got)
	}
	if got := status(first, "secret-new"); got != 0 {
		t.Errorf("the old certificate is still shown: %d", got)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(t); code != 0 {
		t.Errorf("the process ended with %d", code)
	}
}
