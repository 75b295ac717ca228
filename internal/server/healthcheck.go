package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// CheckHealth asks the server that listens at listen whether it is alive. It is what a
// container without a shell can run as its health check. It needs no token where healthz is
// public. Over TLS it looks at no name: it speaks to itself, and the certificate is for others.
func CheckHealth(ctx context.Context, listen string, overTLS bool) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen %q must be HOST:PORT: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	scheme := "http://"
	if overTLS {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // It is no secret that is sent, and nothing is trusted.
	}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz answered %s", response.Status)
	}
	return nil
}
