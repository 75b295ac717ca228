//go:build !unix

package filestore

// Writable cannot tell here; the first upload finds out.
func (realDisk) Writable(string) error { return nil }
