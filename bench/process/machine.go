package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Ticks are what all processors of the machine did since it started.
type Ticks struct {
	Total, Idle, Steal float64
}

// MachineTicks reads them.
func MachineTicks() (Ticks, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Ticks{}, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	const idle, ioWait, steal = 4, 5, 8 // proc(5): cpu user nice system idle iowait irq softirq steal
	if len(fields) <= steal {
		return Ticks{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t Ticks
	for i, field := range fields[1 : steal+1] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return Ticks{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.Total += n
		switch i + 1 {
		case idle, ioWait:
			t.Idle += n
		case steal:
			t.Steal = n
		}
	}
	return t, nil
}

// Share is what part of the machine's time, 0 to 1, was idle and what part was stolen by
// other machines on the same hardware.
type Share struct {
	Idle, Steal float64
}

// Since gives the shares since an earlier reading.
func (t Ticks) Since(before Ticks) Share {
	total := t.Total - before.Total
	if total <= 0 {
		return Share{}
	}
	return Share{Idle: (t.Idle - before.Idle) / total, Steal: (t.Steal - before.Steal) / total}
}

// Machine names the processor and the kernel.
func Machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel := "unknown kernel"
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(release))
	}
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), model, kernel, runtime.GOARCH)
}
