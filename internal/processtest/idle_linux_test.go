package processtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// idleMemory is what a server may have with ten thousand idle connections, as
	// docs/operations.md says; with fewer it may have idleAlone and as much for each of them.
	idleMemory = 512 << 20
	idleAlone  = 64 << 20
	// silentWithin is how long a connection that sends nothing stays, with some room.
	silentWithin = 14 * time.Second
)

// connections are many from this process to a server.
type connections []net.Conn

// connect opens so many. Those that ask have their answer then and go on, as the connections of a
// pool do; the others never say a word.
func (p *process) connect(t *testing.T, n int, ask bool) (all connections) {
	t.Helper()
	for i := range n {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { connection.Close() })
		all = append(all, connection)
		if !ask {
			continue
		}
		if _, err := io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return all
}

func (c connections) close() {
	for _, connection := range c {
		connection.Close()
	}
}

// ended waits until the server has closed all of them.
func (c connections) ended(t *testing.T, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	var waiting sync.WaitGroup
	for _, connection := range c {
		waiting.Go(func() {
			_ = connection.SetReadDeadline(deadline)
			if n, err := connection.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("a connection that sends nothing is open still (%d, %v)", n, err)
			}
		})
	}
	waiting.Wait()
}

// descriptors is how many files and connections the server has open.
func (p *process) descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// collect lets the server give back what it does not use, and tells what heap and stacks have then.
func (p *process) collect(t *testing.T, profiles string) int64 {
	t.Helper()
	for range 2 { // the second one finds what the first has only let go
		got, err := newRequest("GET", "http://"+profiles+"/debug/pprof/heap?gc=1", "").send(t.Context())
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("collecting garbage: %s %v", got, err)
		}
	}
	return p.metric(t, "go_memstats_heap_alloc_bytes") + p.metric(t, "go_memstats_stack_inuse_bytes")
}

// mostConnections is how many of these there may be: as many as wanted, if both processes may
// have so many files open. The runtime has raised the limit as far as it goes.
func mostConnections(t *testing.T, wanted int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Logf("the limit of open files cannot be raised: %v", err)
		}
	}
	const others = 1000 // a fiftieth among them
	if limit.Cur < uint64(wanted+others) {
		t.Logf("this machine allows %d open files, so there are fewer connections than %d", limit.Cur, wanted)
		return max(0, int(limit.Cur)-others)
	}
	return wanted
}

// The server is alone, since its memory is measured.
func TestThousandsOfIdleConnectionsAreBorneAndLetGo(t *testing.T) { //nolint:paralleltest // See above.
	n := mostConnections(t, setting(t, "CHECKPOINTD_IDLE", 2000))
	p := serve(t, embedded(t), "--pprof", "127.0.0.1:0")
	profiles := p.await(t, "profiles are served").Address
	id := p.trigger(t, `{"requiredTaskAcks":1000,"timeoutMs":0}`)
	p.acknowledge(t, id, "first")
	client.CloseIdleConnections()
	before, rss, files, routines := p.collect(t, profiles), p.memory(t, "VmRSS"), p.descriptors(t), p.metric(t, "go_goroutines")
	p.resetPeak(t)

	began := time.Now()
	idle := p.connect(t, n, true)
	silent := p.connect(t, n/50, false)
	eventually(t, "the server has them all", func() bool { return p.descriptors(t) >= n })
	t.Logf("%d connections in %s: the server has %d files and %d goroutines", n, time.Since(began).Round(time.Millisecond), p.descriptors(t), p.metric(t, "go_goroutines"))
	var worst time.Duration
	for i := range 200 {
		began := time.Now()
		p.acknowledge(t, id, fmt.Sprintf("task-%d", i))
		worst = max(worst, time.Since(began))
	}
	silent.ended(t, silentWithin)
	p.acknowledge(t, id, "between")
	peak := p.memory(t, "VmHWM")
	t.Logf("200 acknowledgements beside them took at most %s; the server had %.1f MiB and has at most %.1f MiB, %.1f KiB a connection",
		worst.Round(time.Microsecond), mibOf(rss), mibOf(peak), float64(peak-rss)/float64(max(1, n))/1024)
	if peak > idleAlone+int64(n)*(idleMemory-idleAlone)/10_000 {
		t.Errorf("the server took %.0f MiB", mibOf(peak))
	}
	if worst > 5*time.Second {
		t.Errorf("an acknowledgement took %s", worst)
	}
	// Those that have asked something stay for two minutes, of which TestConnectionsThatDoNotGoOn…
	// of the server's own package does not wait a moment.
	if got := p.descriptors(t); got < len(idle) && time.Since(began) < time.Minute {
		t.Errorf("the server has closed connections before their time: it has %d files", got)
	}
	idle.close()
	eventually(t, "the server has closed what its clients have", func() bool {
		client.CloseIdleConnections()
		return p.descriptors(t) <= files+5 && p.metric(t, "go_goroutines") <= routines+10
	})
	after := p.collect(t, profiles)
	t.Logf("heap and stacks had %.1f MiB and have %.1f MiB", mibOf(before), mibOf(after))
	if after > before+(8<<20) {
		t.Error("the server keeps memory of connections that are gone")
	}
	// As many again take no more than the first ones.
	p.resetPeak(t)
	p.connect(t, n/2, true).close()
	if again := p.memory(t, "VmHWM"); again > peak+(16<<20) {
		t.Errorf("with the next %d it took %.0f MiB", n/2, mibOf(again))
	}
	p.acknowledge(t, id, "last")
}

// A server that may open no more files goes on with the connections that it has, and takes others
// when it may again.
func TestAServerAtItsLimitOfOpenFilesGoesOnAndRecovers(t *testing.T) {
	t.Parallel()
	const files = 150
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			flags := append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files), binary, "--listen", "127.0.0.1:0"}, where.flags...)
			p := launchAs(t, "sh", flags...)
			p.url = "http://" + p.await(t, "checkpointd serves").Address
			id := p.trigger(t, `{"requiredTaskAcks":1000,"timeoutMs":0}`)
			old, uploader := p.keepAlive(t), p.keepAlive(t)
			if got := old.acknowledge(id, "before"); got != http.StatusOK {
				t.Fatal(got)
			}
			var crowd connections
			for range 2 * files { // the kernel takes them until its backlog is full
				connection, err := net.DialTimeout("tcp", strings.TrimPrefix(p.url, "http://"), patience)
				if err != nil {
					t.Fatal(err)
				}
				defer connection.Close()
				crowd = append(crowd, connection)
			}
			p.awaitEntry(t, "too many open files", func(e entry) bool { return strings.Contains(e.Error+e.Message, "too many open files") })
			answers := map[int]int{}
			for i := range 20 {
				answers[old.acknowledge(id, fmt.Sprintf("task-%d", i))]++
			}
			t.Logf("with %d of %d files, acknowledgements over a connection from before are answered %v", p.descriptors(t), files, answers)
			if answers[http.StatusOK] != 20 {
				t.Errorf("acknowledgements over a connection from before are answered %v", answers)
			}
			// What needs a file more is refused, and told as trouble of the server.
			upload := uploader.send(request{method: "PUT", url: p.url + at(id, "/tasks/part/state"), body: newLargePart(9 << 20).lines(""), header: map[string]string{"Content-Type": typeNDJSON}})
			t.Logf("an upload is answered %d", upload)
			if upload != http.StatusOK && upload < http.StatusInternalServerError {
				t.Errorf("an upload is answered %d, which is nobody's fault but the server's", upload)
			}
			crowd.close()
			began := time.Now()
			p.acknowledge(t, id, "after")
			p.upload(t, at(id, "/tasks/part/state?ack=true"), newLargePart(1<<20))
			t.Logf("a new connection is served %s after the others have gone", time.Since(began).Round(time.Millisecond))
			if got := p.must(t, http.StatusOK, "GET", at(id, ""), "").message().AcknowledgedTasks; got != 23 {
				t.Errorf("%d tasks are acknowledged, want 23", got)
			}
			if got := old.acknowledge(id, "before"); got != http.StatusOK {
				t.Errorf("a repetition is answered %d", got)
			}
		})
	}
}

// keptAlive is one connection, which a client of net/http would at times give up for a new one.
type keptAlive struct {
	t          *testing.T
	url        string
	connection net.Conn
	answers    *bufio.Reader
}

func (p *process) keepAlive(t *testing.T) *keptAlive {
	t.Helper()
	connection, err := net.DialTimeout("tcp", strings.TrimPrefix(p.url, "http://"), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return &keptAlive{t, p.url, connection, bufio.NewReader(connection)}
}

func (k *keptAlive) acknowledge(id int64, task string) int {
	k.t.Helper()
	return k.send(newRequest("POST", k.url+at(id, "/acks"), fmt.Sprintf(`{"taskId":%q}`, task)))
}

// send gives the status of the answer.
func (k *keptAlive) send(r request) int {
	k.t.Helper()
	call, err := http.NewRequestWithContext(k.t.Context(), r.method, r.url, r.body)
	if err != nil {
		k.t.Fatal(err)
	}
	call.Header.Set("Content-Type", typeJSON)
	for name, value := range r.header {
		call.Header.Set(name, value)
	}
	if err := k.connection.SetDeadline(time.Now().Add(patience)); err != nil {
		k.t.Fatal(err)
	}
	go func() { _ = call.Write(k.connection) }() // a refusal may come before all is written
	response, err := http.ReadResponse(k.answers, call)
	if err != nil {
		k.t.Fatalf("%s %s: %v", r.method, r.url, err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode >= http.StatusBadRequest {
		k.t.Logf("%s %s: %d %s", r.method, r.url, response.StatusCode, body)
	}
	return response.StatusCode
}
