package main

import (
	"context"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
)

// commit names the tree that is measured.
func (b *bench) commit(ctx context.Context) string {
	describe := exec.CommandContext(ctx, "git", "-C", b.root, "describe", "--always", "--dirty", "--exclude=*") //nolint:gosec // the folder is the user's word
	name, err := describe.Output()
	if err != nil {
		return "unknown commit"
	}
	return "commit " + strings.TrimSpace(string(name))
}

var number = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// versions names what the server is built with and compared with.
func versions(ctx context.Context) []string {
	all := []string{runtime.Version()}
	for _, program := range []string{"redis-server", "etcd"} {
		answer, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // one of two words
		if err == nil {
			all = append(all, program+" "+number.FindString(string(answer)))
		}
	}
	// webdis does not tell its version, its package does.
	if answer, err := exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat=${Version}", "webdis").Output(); err == nil {
		all = append(all, "webdis "+number.FindString(string(answer)))
	}
	return all
}
