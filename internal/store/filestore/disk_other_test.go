//go:build !linux

package filestore

import "testing"

// smallDisk would mount a file system of its own.
func smallDisk(t *testing.T, _ int) string {
	t.Helper()
	t.Skip("a disk of a known size is made on Linux only")
	return ""
}
