package processtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// moreThanBuffered is a part that does not fit into the buffers of a connection, so that
// a restore runs for as long as its reader wants.
const moreThanBuffered = 24 << 20

// slowRestore is a restore that has begun and waits for its reader.
type slowRestore struct {
	response *http.Response
	digest   string
}

func beginRestore(t *testing.T, p *process) slowRestore {
	t.Helper()
	id := p.trigger(t, `{"requiredTaskAcks":1}`)
	part := newLargePart(moreThanBuffered)
	if got := p.upload(t, at(id, "/tasks/task-1/state?ack=true"), part); got.status != http.StatusOK {
		t.Fatalf("the upload answers %s", got)
	}
	response, err := request{method: "GET", url: p.url + at(id, "/restore")}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	digest, _ := part.digest("task-1")
	return slowRestore{response: response, digest: digest}
}

// finish reads the rest and tells what kept it from being all.
func (r slowRestore) finish() error {
	sum := sha256.New()
	if _, err := io.Copy(sum, r.response.Body); err != nil {
		return err
	}
	if got := hexOf(sum); got != r.digest {
		return fmt.Errorf("the restore has the digest %s, want %s", got, r.digest)
	}
	return nil
}

// refusesConnections waits until nobody listens any more.
func refusesConnections(t *testing.T, p *process) {
	t.Helper()
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "new connections are refused", func() bool {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
		if err == nil {
			connection.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func TestASignalLetsARunningRestoreFinish(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			for store, open := range stores {
				t.Run(store, func(t *testing.T) {
					t.Parallel()
					where := open(t)
					p := serve(t, where)
					restore := beginRestore(t, p)
					p.signal(t, signal)
					p.await(t, "draining")
					refusesConnections(t, p)
					if err := restore.finish(); err != nil {
						t.Errorf("the restore that ran when %v came: %v", signal, err)
					}
					if code := p.exitCode(t); code != 0 {
						t.Errorf("exit code %d after %v", code, signal)
					}
				})
			}
		})
	}
}

func TestADrainUnderLoadLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		for name, timeout := range map[string]string{"finishes": "30s", "is cut off at once": "0s"} {
			t.Run(fmt.Sprintf("on %s, a drain that %s", store, name), func(t *testing.T) {
				t.Parallel()
				where := open(t)
				flags := append(underLoad(), "--drain-timeout", timeout)
				heard := newLedger()
				p := serve(t, where, flags...)
				heard.loadUntil(t, p, 100, "", func() {
					p.signal(t, syscall.SIGTERM)
					if code := p.exitCode(t); code != 0 {
						t.Errorf("exit code %d", code)
					}
				})
				heard.verify(t, serve(t, where, flags...))
			})
		}
	}
}

func TestTheDrainTimeoutCutsOffWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			where := open(t)
			p := serve(t, where, "--drain-timeout", "200ms")
			restore := beginRestore(t, p)
			p.signal(t, syscall.SIGTERM)
			p.await(t, "the drain timeout ran out; breaking off what still runs")
			if code := p.exitCode(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if err := restore.finish(); err == nil {
				t.Error("a restore that was cut off looks whole")
			}
			// What was there is there, and can be had again.
			again := serve(t, where)
			if manifest := again.must(t, http.StatusOK, "GET", "/checkpoints/latest/manifest", "").body; !strings.Contains(manifest, restore.digest) {
				t.Errorf("the manifest is\n%s\nand lacks %s", manifest, restore.digest)
			}
		})
	}
}

func TestTheDrainDelayServesOnWhileReadinessIsOff(t *testing.T) {
	t.Parallel()
	p := serve(t, embedded(t), "--drain-delay", "3s")
	p.must(t, http.StatusOK, "GET", "/readyz", "")
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	p.await(t, "draining")
	got := p.refused(t, http.StatusServiceUnavailable, "shutting_down", "GET", "/readyz", "")
	if got.header.Get("Retry-After") == "" {
		t.Error("/readyz does not say when to come again")
	}
	p.must(t, http.StatusOK, "GET", "/healthz", "")
	p.complete(t)
	if code := p.exitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the server was gone after %s", took)
	}
}
