//go:build !linux

package filestore

import "os"

// writeBack leaves it to the system when it writes.
func writeBack(*os.File, int64, int64) {}
