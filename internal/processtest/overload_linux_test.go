package processtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// overload is how much is asked of a server at once. In a common run of the tests it is
// little, and nobody's pace is judged; `make overload` asks for all, and judges.
type overload struct {
	uploads, readers int
	// uploadMiB is the size of each upload.
	uploadMiB int
	judged    bool
}

const (
	// mostMemory is what a server may have under this load, and acksWithin what 99 of 100
	// acknowledgements of another job have to be answered in.
	mostMemory = 512 << 20
	acksWithin = 50 // ms
)

func overloadOf(t *testing.T, fullMiB int) overload {
	t.Helper()
	if os.Getenv("CHECKPOINTD_OVERLOAD") == "" {
		return overload{uploads: 8, readers: 20, uploadMiB: 16}
	}
	return overload{uploads: setting(t, "CHECKPOINTD_OVERLOAD_UPLOADS", 50), readers: 200, uploadMiB: setting(t, "CHECKPOINTD_OVERLOAD_MIB", fullMiB), judged: true}
}

// Uploads and slow restores of one job must not keep another job from acknowledging, nor
// take memory without end. The cases take turns, since each is measured.
func TestAcknowledgementsGoOnWhileAnotherJobUploadsAndRestores(t *testing.T) { //nolint:paralleltest // See above.
	//nolint:paralleltest // See above.
	for _, c := range []struct {
		name string
		open func(t testing.TB) place
		mib  int
		// room is how much memory Redis may take, 0 for all.
		room int64
	}{
		{"embedded", embedded, 1024, 0},
		{"redis", stores["redis"], 64, 0},
		{"redis into maxmemory", func(t testing.TB) place { t.Helper(); return onRedis(t, "--maxmemory-policy", "noeviction") }, 64, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := overloadOf(t, c.mib)
			if c.room > 0 && !o.judged {
				t.Skip("so little memory is full with the chunks that are on their way: make overload runs it")
			}
			where := c.open(t)
			p := serve(t, where)
			if c.room > 0 {
				f := fullRedis{process: p, redis: where.redis.Client(t), prefix: where.redis.Prefix}
				c.room = int64(o.uploads*o.uploadMiB/4+32) << 20
				f.limit(t, c.room)
			}
			o.run(t, p, c.room > 0)
		})
	}
}

func (o overload) run(t *testing.T, p *process, fills bool) {
	t.Helper()
	// The readers are slower than what they read is long.
	slowly := p.must(t, http.StatusCreated, "POST", "/checkpoints?job=hog", `{"requiredTaskAcks":1}`).message().CheckpointID
	p.upload(t, at(slowly, "/tasks/part/state?ack=true&job=hog"), newLargePart(16<<20))
	id := p.must(t, http.StatusCreated, "POST", "/checkpoints?job=hog", fmt.Sprintf(`{"requiredTaskAcks":%d,"timeoutMs":0}`, o.uploads+1)).message().CheckpointID

	prober := p.probe(t)
	<-time.After(2 * time.Second)
	t.Logf("alone      %s", prober.since(t))
	p.resetPeak(t)
	if o.judged {
		giveWay(t)
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers, uploads sync.WaitGroup
	var reading atomic.Int64
	for range o.readers {
		readers.Go(func() { readSlowly(ctx, p.url, at(slowly, "/restore?job=hog"), &reading) })
	}
	eventually(t, "all restores run", func() bool { return reading.Load() == int64(o.readers) })
	began := time.Now()
	var done, refused, full atomic.Int64
	for i := range o.uploads {
		uploads.Go(func() {
			u := insistentUpload{url: p.url + at(id, fmt.Sprintf("/tasks/task-%d/state?ack=true&job=hog", i)), part: newLargePart(int64(o.uploadMiB) << 20)}
			switch err := u.run(ctx, fills); {
			case err == nil:
				done.Add(1)
			case fills && errors.Is(err, errFull):
				full.Add(1)
			default:
				t.Errorf("upload %d: %v", i, err)
			}
			refused.Add(u.refused)
		})
	}
	uploads.Wait()
	took := time.Since(began)
	under, peak := prober.since(t), p.memory(t, "VmHWM")
	stop()
	readers.Wait()
	t.Logf("under load %s", under)
	t.Logf("%d uploads of %d MiB in %s (%.0f MiB/s), %d did not fit, %d times told to come back; %d slow restores; memory at most %.0f MiB",
		done.Load(), o.uploadMiB, took.Round(time.Second/10), float64(done.Load())*float64(o.uploadMiB)/took.Seconds(), full.Load(), refused.Load(), o.readers, mibOf(peak))
	if len(under.Refused) > 0 {
		t.Errorf("acknowledgements of another job were refused: %v", under.Refused)
	}
	if fills && full.Load() == 0 {
		t.Error("everything did fit, so this has not filled Redis")
	}
	if peak > mostMemory {
		t.Errorf("the server took %.0f MiB", mibOf(peak))
	}
	if o.judged && under.P99 > acksWithin {
		t.Errorf("99 of 100 acknowledgements of another job took %.1f ms", under.P99)
	}
}

// giveWay lets what runs beside this process go first, since its load comes from other
// machines elsewhere. New threads are as the one that made them.
func giveWay(t *testing.T) {
	t.Helper()
	prioritise(t, 10)
	t.Cleanup(func() { prioritise(t, 0) }) // or all that this process starts from now on would be slow
}

func prioritise(t *testing.T, niceness int) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness) // the thread may be gone
	}
}

// readSlowly reads a restore at a few kilobytes a second until ctx ends.
func readSlowly(ctx context.Context, url, path string, reading *atomic.Int64) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return // the restores are counted
	}
	defer connection.Close()
	context.AfterFunc(ctx, func() { connection.Close() })
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) // the read finds out
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(connection, head); err != nil || string(head) != "HTTP/1.1 200" {
		return
	}
	reading.Add(1)
	_, _ = io.Copy(io.Discard, paced(ctx, &smallReads{connection}, 16<<10)) // until ctx ends
}

// smallReads reads a kilobyte at a time.
type smallReads struct{ from io.Reader }

func (r *smallReads) Read(p []byte) (int, error) { return r.from.Read(p[:min(len(p), 1<<10)]) }

var errFull = errors.New("the store is full")

// insistentUpload comes back when it is told to, as a worker does.
type insistentUpload struct {
	url     string
	part    largePart
	refused int64
}

func (u *insistentUpload) run(ctx context.Context, fills bool) error {
	for {
		response, err := request{method: "PUT", url: u.url, body: u.part.lines(""), header: map[string]string{"Content-Type": typeNDJSON}}.open(ctx)
		if err != nil {
			// A refusal may overtake the body, of which the client is still sending.
			if u.refused++; u.refused > 1000 {
				return err
			}
			continue
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusInsufficientStorage:
			if fills {
				return errFull
			}
			return fmt.Errorf("%s: %s", response.Status, text)
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			u.refused++
			after, err := strconv.Atoi(response.Header.Get("Retry-After"))
			if err != nil {
				return fmt.Errorf("no Retry-After: %s", text)
			}
			select {
			case <-time.After(time.Duration(after) * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return fmt.Errorf("%s: %s", response.Status, text)
		}
	}
}
