package filestore

import (
	"fmt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// InlineBytes is the size up to which a part lies in the database; a larger one gets a
// file. Small parts are thus durable with the commit that names them, and large ones
// neither stay in the database's memory map nor make it grow.
const InlineBytes = 64 << 10

// part is where the part of a task lies.
type part struct {
	// Upload names the upload that wrote it, and its file.
	Upload  string `json:"u"`
	File    bool   `json:"f,omitempty"`
	Bytes   int64  `json:"b,omitempty"`
	Entries int64  `json:"e,omitempty"`
	// Digest is "" for a part without entries.
	Digest string `json:"d,omitempty"`
}

func newPart(upload string, info coordinator.PartInfo, file bool) part {
	p := part{Upload: upload, File: file, Bytes: info.Bytes, Entries: info.Entries}
	if info.Digest != coordinator.EmptyDigest {
		p.Digest = info.Digest
	}
	return p
}

func (p part) info() coordinator.PartInfo {
	info := coordinator.PartInfo{Entries: p.Entries, Bytes: p.Bytes, Digest: p.Digest}
	if info.Digest == "" {
		info.Digest = coordinator.EmptyDigest
	}
	return info
}

// part finds the part of a task; nil when it surely has none. Error: coordinator.ErrInconsistent.
func (c *checkpoint) part(task string) (*part, error) {
	text := get(child(c.b, bucketParts), []byte(task))
	if text == nil {
		return nil, nil //nolint:nilnil // No part is no error.
	}
	p := new(part)
	if err := decode(text, p); err != nil {
		return nil, c.job.inconsistent(c.id, fmt.Sprintf("the record of the part of task %q", task), err)
	}
	return p, nil
}

// staged finds the part of a task that has not acknowledged; nil when it surely has none. Mostly
// there is none at all, which the record tells.
func (c *checkpoint) staged(task string) (*part, error) {
	if c.Staged == 0 {
		return nil, nil //nolint:nilnil // No part is no error.
	}
	return c.part(task)
}

// setPart makes p the part of a task in place of the one before. content is nil for a
// part with a file, which belongs to the record from now on.
func (s *step) setPart(c *checkpoint, task string, p part, content []byte) {
	key := []byte(task)
	if before := fileOf(get(child(c.b, bucketParts), key)); before != "" {
		s.dropFile(before)
		c.Files--
	}
	s.putJSON(s.bucket(c.b, bucketParts), key, p)
	if p.File {
		s.adoptFile(p.Upload)
		c.Files++
	}
	if content != nil {
		s.put(s.bucket(c.b, bucketContent), key, content)
	} else {
		s.delete(child(c.b, bucketContent), key)
	}
	s.touch(c)
}
