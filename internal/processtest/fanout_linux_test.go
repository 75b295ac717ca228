package processtest

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAnEventReachesEveryClient compares, in turns, the time from a trigger to the
// last of many event streams with a bare loop that writes as many bytes to as many
// connections: no server of events can be faster than that on the same machine.
//
//	go test -run '^$' -bench EventReaches -benchtime 15x ./internal/processtest
//
// CHECKPOINTD_WAITERS says how many clients there are, 5000 unless set.
func BenchmarkAnEventReachesEveryClient(b *testing.B) {
	clients := setting(b, "CHECKPOINTD_WAITERS", 5000)
	for _, store := range []string{"embedded", "redis"} {
		b.Run(store, func(b *testing.B) {
			p := serve(b, stores[store](b))
			streams := newCrowd(b)
			for range clients {
				streams.join(b, strings.TrimPrefix(p.url, "http://"), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", []byte("\nid: "))
			}
			bare := startBareLoop(b, clients)
			loop := newCrowd(b)
			for range clients {
				loop.join(b, bare.address, "", nil)
			}
			bare.ready(b)

			var ours, theirs, ratios []float64
			trigger := func() {
				got, err := newRequest("POST", p.url+"/checkpoints", "{}").send(b.Context())
				if err != nil || got.status != http.StatusCreated {
					b.Fatalf("trigger: %s %v", got, err)
				}
			}
			size := streams.round(b, trigger)
			for b.Loop() {
				began := time.Now()
				streams.round(b, trigger)
				took := time.Since(began)
				began = time.Now()
				loop.round(b, func() { bare.write(b, size) })
				limit := time.Since(began)
				ours, theirs = append(ours, took.Seconds()*1e3), append(theirs, limit.Seconds()*1e3)
				ratios = append(ratios, took.Seconds()/limit.Seconds())
				// The next trigger must not be one of many that are pending.
				got, err := newRequest("POST", p.url+"/checkpoints/cleanup", `{"keep":0}`).send(b.Context())
				if err != nil || got.status != http.StatusOK {
					b.Fatalf("cleanup: %s %v", got, err)
				}
				streams.drain(b)
			}
			b.ReportMetric(median(ours), "ms/last")
			b.ReportMetric(median(theirs), "ms/bare")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// crowd is many connections read by one thread, so that the clients cost little.
type crowd struct {
	epoll int
	fds   []int
	got   map[int]int // bytes since the round began
}

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	epoll, err := syscall.EpollCreate1(0)
	if err != nil {
		b.Fatal(err)
	}
	c := &crowd{epoll: epoll, got: map[int]int{}}
	b.Cleanup(func() {
		for _, fd := range append(c.fds, epoll) {
			_ = syscall.Close(fd)
		}
	})
	return c
}

// join connects, sends a request, and reads until the answer contains the text.
func (c *crowd) join(b *testing.B, address, request string, until []byte) {
	b.Helper()
	host, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		b.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	c.fds = append(c.fds, fd)
	to := &syscall.SockaddrInet4{Port: host.Port}
	copy(to.Addr[:], host.IP.To4())
	if err := syscall.Connect(fd, to); err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(descriptor(fd), request); err != nil {
		b.Fatal(err)
	}
	var head bytes.Buffer
	piece := make([]byte, 4096)
	for until != nil && !bytes.Contains(head.Bytes(), until) {
		n, err := syscall.Read(fd, piece)
		if err != nil || n == 0 {
			b.Fatalf("the connection ended after %q (%v)", head.Bytes(), err)
		}
		head.Write(piece[:n])
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		b.Fatal(err)
	}
	if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
		b.Fatal(err)
	}
}

// descriptor writes to a file descriptor.
type descriptor int

// Write writes all of p.
func (d descriptor) Write(p []byte) (int, error) { return syscall.Write(int(d), p) }

// round begins something and reads until every connection has received a whole frame,
// that is, bytes that end with an empty line. It gives how many bytes the first one got.
func (c *crowd) round(b *testing.B, begin func()) int {
	b.Helper()
	done := make(map[int]bool, len(c.fds))
	clear(c.got)
	begin()
	events := make([]syscall.EpollEvent, 1024)
	piece := make([]byte, 64<<10)
	for len(done) < len(c.fds) {
		n, err := syscall.EpollWait(c.epoll, events, 20_000)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			b.Fatalf("%d of %d clients got nothing (%v)", len(c.fds)-len(done), len(c.fds), err)
		}
		for _, ready := range events[:n] {
			fd := int(ready.Fd)
			size, err := syscall.Read(fd, piece)
			if err != nil || size == 0 {
				b.Fatalf("a connection ended (%v)", err)
			}
			c.got[fd] += size
			// The chunked encoding puts a line end behind the frame's own.
			if text := bytes.TrimSuffix(piece[:size], []byte("\r\n")); bytes.HasSuffix(text, []byte("\n\n")) {
				done[fd] = true
			}
		}
	}
	return c.got[c.fds[0]]
}

// drain reads what else was sent, until nothing comes for a moment.
func (c *crowd) drain(b *testing.B) {
	b.Helper()
	events := make([]syscall.EpollEvent, 1024)
	piece := make([]byte, 64<<10)
	for {
		n, err := syscall.EpollWait(c.epoll, events, 100)
		if n <= 0 {
			if err != nil && err != syscall.EINTR {
				b.Fatal(err)
			}
			return
		}
		for _, ready := range events[:n] {
			if _, err := syscall.Read(int(ready.Fd), piece); err != nil {
				b.Fatal(err)
			}
		}
	}
}
