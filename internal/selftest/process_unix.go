//go:build unix

package selftest

import (
	"os/exec"
	"syscall"
)

// ownGroup lets the worker be killed with all that it starts, and keeps a Ctrl-C for us.
func ownGroup(process *exec.Cmd) { process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills everything of the worker's group. It may have ended by itself.
func killGroup(process *exec.Cmd, _ bool) { _ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
