package processtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	// mayGrow is how much memory a server may take for a part of any size.
	mayGrow = 64 << 20
	// slow is the pace of a slow reader, in bytes a second.
	slow = 20 << 20
	// slowFrom is the size in MiB from which on the reader is slow: below it everything
	// would fit into the buffers of the connection.
	slowFrom = 512
)

// The stores take turns: the memory of one server is measured, and its pace.
func TestALargePartGoesInAndOutInLittleMemory(t *testing.T) { //nolint:paralleltest // See above.
	mib := setting(t, "CHECKPOINTD_BIG_MIB", 48)
	for store, open := range stores { //nolint:paralleltest // See above.
		t.Run(store, func(t *testing.T) {
			p := serve(t, open(t))
			id := p.trigger(t, `{"tasks":["task-1"],"timeoutMs":0}`)
			part := newLargePart(int64(mib) << 20)
			digest, size := part.digest("task-1")

			before := p.memory(t, "VmRSS")
			p.resetPeak(t)
			began := time.Now()
			uploaded := p.upload(t, at(id, "/tasks/task-1/state?ack=true"), part)
			if uploaded.status != http.StatusOK || uploaded.message().Digest != "sha256:"+digest {
				t.Fatalf("the upload answers %s, want sha256:%s", uploaded, digest)
			}
			p.grewLittle(t, "the upload", before, size, time.Since(began))

			p.resetPeak(t)
			began = time.Now()
			pace := 0
			if mib >= slowFrom {
				pace = slow
			}
			p.readCutAndResumed(t, id, pace, digest, size)
			p.grewLittle(t, "the restore", before, size, time.Since(began))

			manifest := p.must(t, http.StatusOK, "GET", at(id, "/manifest"), "").body
			if want := fmt.Sprintf("%s %d %d task-1", digest, size, part.entries); !strings.Contains(manifest, want) {
				t.Errorf("the manifest is\n%s\nand lacks\n%s", manifest, want)
			}
		})
	}
}

// upload sends a part as it is made.
func (p *process) upload(t *testing.T, path string, part largePart) answer {
	t.Helper()
	response, err := request{
		method: "PUT", url: p.url + path, body: part.lines(""), header: map[string]string{"Content-Type": typeNDJSON},
	}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}
}

// readCutAndResumed reads a restore until the connection breaks at 60 %, and the rest
// from there. pace 0 is as fast as it comes.
func (p *process) readCutAndResumed(t *testing.T, id int64, pace int, digest string, size int64) {
	t.Helper()
	sum := sha256.New()
	cut := size * 6 / 10

	ctx, breakOff := context.WithCancel(t.Context())
	defer breakOff()
	first := request{method: "GET", url: p.url + at(id, "/restore")}
	response, err := first.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.ContentLength != size || response.Header.Get("Accept-Ranges") != "bytes" {
		t.Fatalf("the restore answers %s with %d bytes, want %d", response.Status, response.ContentLength, size)
	}
	if _, err := io.CopyN(sum, paced(ctx, response.Body, pace), cut); err != nil {
		t.Fatal(err)
	}
	breakOff()
	response.Body.Close()

	rest := request{method: "GET", url: first.url, header: map[string]string{
		"Range": fmt.Sprintf("bytes=%d-", cut), "If-Range": response.Header.Get("ETag"),
	}}
	resumed, err := rest.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Body.Close()
	if want := fmt.Sprintf("bytes %d-%d/%d", cut, size-1, size); resumed.StatusCode != http.StatusPartialContent || resumed.Header.Get("Content-Range") != want {
		t.Fatalf("the rest answers %s, %q, want %q", resumed.Status, resumed.Header.Get("Content-Range"), want)
	}
	if _, err := io.Copy(sum, paced(t.Context(), resumed.Body, pace)); err != nil {
		t.Fatal(err)
	}
	if got := hexOf(sum); got != digest {
		t.Errorf("what was read has the digest %s, want %s", got, digest)
	}
}

// paced reads no faster than so many bytes a second.
func paced(ctx context.Context, from io.Reader, bytesPerSecond int) io.Reader {
	if bytesPerSecond == 0 {
		return from
	}
	return &pacedReader{ctx: ctx, from: from, pace: bytesPerSecond, began: time.Now()}
}

type pacedReader struct {
	ctx   context.Context //nolint:containedctx // A Reader cannot be passed one.
	from  io.Reader
	pace  int
	began time.Time
	read  int
}

func (r *pacedReader) Read(p []byte) (int, error) {
	due := r.began.Add(time.Duration(float64(r.read) / float64(r.pace) * float64(time.Second)))
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case <-time.After(time.Until(due)):
	}
	n, err := r.from.Read(p)
	r.read += n
	return n, err
}

// memory reads a line of the process' status in bytes: VmRSS is what is resident,
// memory-mapped files included, VmHWM its peak.
func (p *process) memory(t *testing.T, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		if runtime.GOOS != "linux" {
			return 0 // nothing is measured elsewhere, the bytes are still compared
		}
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s of %d: %v", name, p.command.Process.Pid, err)
	}
	return kib << 10
}

// resetPeak makes VmHWM begin anew.
func (p *process) resetPeak(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

func (p *process) grewLittle(t *testing.T, what string, before, size int64, took time.Duration) {
	t.Helper()
	grown := p.memory(t, "VmHWM") - before
	t.Logf("%s of %d MiB took %s; the server had %.1f MiB and grew by %.1f MiB at most", what, size>>20, took.Round(time.Millisecond), mibOf(before), mibOf(grown))
	if grown > mayGrow {
		t.Errorf("%s made the server grow by %.1f MiB", what, mibOf(grown))
	}
}

func mibOf(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func TestCurlResumesABrokenDownload(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where)
			id := p.trigger(t, `{"requiredTaskAcks":1}`)
			part := newLargePart(4 << 20)
			digest, size := part.digest("task-1")
			p.upload(t, at(id, "/tasks/task-1/state?ack=true"), part)
			file := filepath.Join(t.TempDir(), "part")
			broken, err := request{method: "GET", url: p.url + at(id, "/restore")}.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			begun := make([]byte, size*6/10)
			if _, err := io.ReadFull(broken.Body, begun); err != nil {
				t.Fatal(err)
			}
			broken.Body.Close()
			if err := os.WriteFile(file, begun, 0o600); err != nil {
				t.Fatal(err)
			}
			resume := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--fail", "-C", "-", "-o", file, p.url+at(id, "/restore"))
			if output, err := resume.CombinedOutput(); err != nil {
				t.Fatalf("curl: %v\n%s", err, output)
			}
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(whole)); got != digest || int64(len(whole)) != size {
				t.Errorf("curl has %d bytes with digest %s, want %d with %s", len(whole), got, size, digest)
			}
		})
	}
}
