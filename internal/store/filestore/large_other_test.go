//go:build !linux

package filestore

// largeDir and measureLarge are of the test that measures memory, on Linux only.
const largeDir = ""

func measureLarge(string) error { return nil }
