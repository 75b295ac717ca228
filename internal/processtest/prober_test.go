package processtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// prober is a fleet of its own that acknowledges at a steady pace, in a process of its own:
// beside the load of a test its clock would show how busy the test is.
type prober struct {
	command *exec.Cmd
	control io.WriteCloser
	out     *bufio.Reader
}

// proberVariable makes the test binary such a process; it has the server's URL.
const proberVariable = "CHECKPOINTD_TEST_PROBER"

// probed is how acknowledgements fared.
type probed struct {
	Count   int            `json:"count"`
	P50     float64        `json:"p50"` // ms
	P99     float64        `json:"p99"`
	Worst   float64        `json:"worst"`
	Refused map[string]int `json:"refused"`
}

func (p probed) String() string {
	return fmt.Sprintf("%d acknowledgements: half within %.1f ms, 99 of 100 within %.1f ms, the slowest %.0f ms, refused %v", p.Count, p.P50, p.P99, p.Worst, p.Refused)
}

func (p *process) probe(t *testing.T) *prober {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	command.Env = append(os.Environ(), proberVariable+"="+p.url)
	command.Stderr = os.Stderr
	control, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return &prober{command, control, bufio.NewReader(out)}
}

// since gives what was measured since the last call.
func (p *prober) since(t *testing.T) probed {
	t.Helper()
	if _, err := fmt.Fprintln(p.control); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var result probed
	if err := json.Unmarshal(line, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// runProber is the process. Each line on its standard input asks for what was measured.
func runProber(url string) error {
	const tasks, pause = 4, 10 * time.Millisecond
	fleet := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: tasks}, Timeout: patience}
	created, err := fleet.Post(url+"/checkpoints?job=quiet", typeJSON, bytes.NewBufferString(`{"requiredTaskAcks":100000,"timeoutMs":0}`))
	if err != nil {
		return err
	}
	created.Body.Close()
	if created.StatusCode != http.StatusCreated {
		return fmt.Errorf("the trigger answers %s", created.Status)
	}
	var mu sync.Mutex
	var took []float64
	refused := map[string]int{}
	for task := range tasks {
		go func() {
			for n := 0; ; n++ {
				body := fmt.Sprintf(`{"taskId":"task-%d-%d","state":{"n":%d}}`, task, n, n)
				began := time.Now()
				code := "no answer"
				if answered, err := fleet.Post(url+"/checkpoints/0/acks?job=quiet", typeJSON, bytes.NewBufferString(body)); err == nil {
					var said struct {
						Code string `json:"code"`
					}
					_ = json.NewDecoder(answered.Body).Decode(&said) // "" is what is none
					_, _ = io.Copy(io.Discard, answered.Body)
					answered.Body.Close()
					code = said.Code
				}
				mu.Lock()
				took = append(took, time.Since(began).Seconds()*1e3)
				if code != "" {
					refused[code]++
				}
				mu.Unlock()
				<-time.After(pause)
			}
		}()
	}
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		mu.Lock()
		slices.Sort(took)
		result := probed{Count: len(took), Refused: refused}
		if len(took) > 0 {
			result.P50, result.P99, result.Worst = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
		}
		took, refused = nil, map[string]int{}
		mu.Unlock()
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			return err
		}
	}
	return asked.Err()
}
