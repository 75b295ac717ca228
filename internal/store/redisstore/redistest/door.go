package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Door is an address that leads to one server at a time, as the address of an installation
// with a failover of its own does.
type Door struct {
	// URL is what a client connects to.
	URL string

	mu   sync.Mutex
	to   string
	open map[net.Conn]bool
}

// OpenDoor opens a door to a server, which closes with the test.
func OpenDoor(t testing.TB, to *Server) *Door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{URL: "redis://" + listener.Addr().String(), to: to.Addr, open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { d.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		d.Lead(to)
		running.Wait()
	})
	return d
}

// Lead makes the door lead to another server. Connections that are open break.
func (d *Door) Lead(to *Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to.Addr
	for connection := range d.open {
		_ = connection.Close()
	}
	clear(d.open)
}

// Move makes the door lead to another server for new connections. Those that are open stay, and lead where they did.
func (d *Door) Move(to *Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to.Addr
}

// serve carries bytes both ways until either end has closed.
func (d *Door) serve(client net.Conn) {
	d.mu.Lock()
	server, err := net.Dial("tcp", d.to)
	if err == nil {
		d.open[client], d.open[server] = true, true
	}
	d.mu.Unlock()
	if err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
		})
	}
	both.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, client)
	delete(d.open, server)
}
