package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

// holderVariable makes the test binary a process that has a server and does nothing.
const holderVariable = "CHECKPOINTD_TEST_HOLD_A_SERVER"

func TestHoldAServer(t *testing.T) { //nolint:paralleltest // It is not a test but a process.
	if os.Getenv(holderVariable) == "" {
		t.Skip("this is for TestAServerEndsWithATestProcessThatWasKilled")
	}
	s := redistest.Start(t, redistest.Options{Own: true})
	s.Pause(t)
	fmt.Println("serves " + s.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestAServerEndsWithATestProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	redistest.Start(t, redistest.Options{Own: true}) // skips where there is none
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHoldAServer$")
	holder.Env = append(os.Environ(), holderVariable+"=1")
	// It goes on while this is open.
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	var address string
	for lines := bufio.NewScanner(output); address == "" && lines.Scan(); {
		if found, is := strings.CutPrefix(lines.Text(), "serves "); is {
			address = found
		}
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("the server does not listen: %v", err)
	}
	defer connection.Close()
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	// The end of a process ends its connections.
	if err := connection.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server lives on (%v)", err)
	}
}
