package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: the kernel's USER_HZ is 100 on every platform
// that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time, user and system, that the process has used so far, to 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	return cpuTime(p.command.Process.Pid)
}

func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of a process: %w", err)
	}
	// The second field is the program's name, which may hold anything, in parentheses.
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	const user, system = 14 - 3, 15 - 3 // proc(5) counts from 1, and rest begins with field 3
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	ticks := 0
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Memory is resident memory in bytes.
type Memory struct {
	Now, Peak int64
}

// Memory reads how much memory the process has now, and had at most since ForgetPeak.
func (p *Process) Memory() (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return Memory{}, fmt.Errorf("reading the memory of %s: %w", p.Name, err)
	}
	var m Memory
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			m.Now = kilobytes << 10
		case "VmHWM":
			m.Peak = kilobytes << 10
		}
	}
	if m.Now == 0 || m.Peak == 0 {
		return Memory{}, fmt.Errorf("/proc/%d/status tells no memory", p.command.Process.Pid)
	}
	return m, nil
}

// ForgetPeak begins a new peak at what the process has now.
func (p *Process) ForgetPeak() error {
	const peak = "5" // proc(5), clear_refs
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte(peak), 0); err != nil {
		return fmt.Errorf("forgetting the peak of %s: %w", p.Name, err)
	}
	return nil
}
