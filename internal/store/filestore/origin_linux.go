package filestore

import (
	"io/fs"
	"syscall"
)

// inodeOf gives the number of a file in its file system, and when its contents or its description were last
// changed, in nanoseconds. No copy takes either along. The number of the device is left out: a volume has
// another one on the next machine.
func inodeOf(info fs.FileInfo) (inode uint64, changed int64) {
	if stat, known := info.Sys().(*syscall.Stat_t); known {
		return stat.Ino, stat.Ctim.Nano()
	}
	return 0, 0
}
