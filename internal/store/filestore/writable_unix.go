//go:build unix

package filestore

import "syscall"

// Writable is nil where files can be made in a folder, as far as its rights tell.
func (realDisk) Writable(folder string) error {
	const write, search = 2, 1
	return syscall.Access(folder, write|search) //nolint:wrapcheck // as in disk.go
}
