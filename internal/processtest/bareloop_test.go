package processtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// bareLoop is a process of its own, as the server is.
type bareLoop struct {
	address string
	command *exec.Cmd
	control io.WriteCloser
	lines   *bufio.Reader
}

// bareLoopVariable makes the test binary such a process.
const bareLoopVariable = "CHECKPOINTD_TEST_BARE_LOOP"

func startBareLoop(b *testing.B, clients int) *bareLoop {
	b.Helper()
	command := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", bareLoopVariable, clients))
	command.Stderr = os.Stderr
	control, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	l := &bareLoop{command: command, control: control, lines: bufio.NewReader(out)}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	l.address = l.line(b)
	return l
}

func (l *bareLoop) line(b *testing.B) string {
	b.Helper()
	line, err := l.lines.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (l *bareLoop) ready(b *testing.B) {
	b.Helper()
	if got := l.line(b); got != "ready" {
		b.Fatalf("the bare loop says %q", got)
	}
}

// write lets the loop write so many bytes to each connection.
func (l *bareLoop) write(b *testing.B, size int) {
	b.Helper()
	if _, err := fmt.Fprintln(l.control, size); err != nil {
		b.Fatal(err)
	}
}

// runBareLoop is the process: it accepts all connections, and writes to each of them in
// a loop whenever its standard input names a number of bytes.
func runBareLoop(clients string) error {
	many, err := strconv.Atoi(clients)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	connections := make([]net.Conn, 0, many)
	for range many {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		connections = append(connections, connection)
	}
	fmt.Println("ready")
	for {
		var size int
		if _, err := fmt.Scanln(&size); err != nil {
			return err
		}
		frame := append(bytes.Repeat([]byte("x"), size-2), "\n\n"...)
		for _, connection := range connections {
			if _, err := connection.Write(frame); err != nil {
				return err
			}
		}
	}
}
