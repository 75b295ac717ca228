// Package standin is what the server is compared with where nobody else offers it: an HTTP
// server that does nothing, and plain ways to restore and to upload. It runs as a process of
// its own, so that its cost can be told apart.
package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Argument makes the benchmark's binary run the stand-ins, in place of the benchmark. The
// next argument is the address of a Redis.
const Argument = "stand-ins"

// Run serves until ctx ends. It writes its address, alone on a line, to ready.
func Run(ctx context.Context, redisAddress string, ready io.Writer) error {
	client := redis.NewClient(&redis.Options{Addr: redisAddress})
	defer func() { _ = client.Close() }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /no-op", noOp)
	mux.Handle("GET /scan", scanRestore(client))
	mux.Handle("PUT /upload", plainUpload(client))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintln(ready, listener.Addr()); err != nil {
		return fmt.Errorf("telling the address: %w", err)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// noOp reads an acknowledgement and answers like one, with nothing between: what any server
// on net/http costs.
func noOp(w http.ResponseWriter, r *http.Request) {
	const answer = `{"checkpointId":0,"status":"pending","acknowledgedTasks":50000,"requiredTaskAcks":100000,"duplicate":false}`
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = io.WriteString(w, answer)
}

// Main is Run for a process: it tells its address on standard output, and a failure on
// standard error.
func Main(ctx context.Context, arguments []string) int {
	if len(arguments) != 1 {
		fmt.Fprintln(os.Stderr, Argument, "needs the address of a Redis")
		return 2
	}
	if err := Run(ctx, arguments[0], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, Argument, err)
		return 1
	}
	return 0
}
