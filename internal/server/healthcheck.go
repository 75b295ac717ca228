package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// CheckHealth asks the server that listens at listen whether it is alive. It is what a
// container without a shell can run as its health check.
func CheckHealth(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen %q must be HOST:PORT: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	response, err := new(http.Client).Do(request)
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
