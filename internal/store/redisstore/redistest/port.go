package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort names a port that was free a moment ago.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}

// busOffset is how far above its port a node of a cluster talks to the others.
const busOffset = 10000

// lastingPort names a port that was free a moment ago, as was the one of its bus, and that
// no system gives to a connection by itself: a node that was killed finds it free again.
func lastingPort() (int, error) {
	var err error
	for range 100 {
		port := 20000 + rand.IntN(2700)
		if err = free(port); err != nil {
			continue
		}
		if err = free(port + busOffset); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find two free ports: %w", err)
}

func free(port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return listener.Close()
}
