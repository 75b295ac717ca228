package archive

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// Read takes an export in and checks it as it comes. A part may have maxPart bytes. tempDir is where the text is kept
// meanwhile, "" is the system's folder for that. ask is asked before so many bytes of memory more are taken
// for a line above 64 KiB; nil lets them be taken. The error is a [coordinator.Error], or that of body or ask.
func Read(body io.Reader, maxPart int64, tempDir string, ask func(bytes int) error) (*Archive, error) {
	file, err := os.CreateTemp(tempDir, "checkpointd-import-*")
	if err != nil {
		return nil, noRoom(fmt.Errorf("making an import's file: %w", err))
	}
	// Without a name it goes with the process, whatever becomes of that.
	_ = os.Remove(file.Name())
	a := &Archive{file: file, attempts: map[string]int64{}}
	source := &kept{from: body, in: file}
	in := &lines{from: bufio.NewReaderSize(source, pieceBytes), memory: memory{ask: ask}, head: &a.job}
	c := &check{archive: a, lines: in, maxPart: maxPart, tempDir: tempDir}
	c.sum = sha256.New()
	err = c.all()
	if source.err != nil {
		err = source.err // whatever the check made of it
	}
	if err != nil {
		_ = a.Close() // the refusal says more
		return nil, err
	}
	return a, nil
}

// noRoom is for a file that cannot be made or written where temporary files are.
func noRoom(cause error) error {
	return &coordinator.Error{
		Code:   coordinator.CodeStoreFull,
		Detail: "The server cannot keep the import where it has its temporary files: the folder is full, missing or not writable. Nothing was imported. Give it room, or start the server with TMPDIR set to another folder.",
		Err:    cause,
	}
}

// pieceBytes is how much of an export is read at once.
const pieceBytes = 64 << 10

// kept keeps what is read in a file. It is checked as it comes, so that the disk takes no more of
// what is none than up to the line that shows it.
type kept struct {
	from io.Reader
	in   io.Writer
	// err is why it could not be read or kept, nil at its end.
	err error
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	if _, failed := k.in.Write(p[:n]); failed != nil {
		err = noRoom(fmt.Errorf("keeping an import: %w", failed))
	}
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// memory is what long lines take, which is what the longest one takes.
type memory struct {
	ask  func(bytes int) error
	held int
}

// need asks for what is missing of so many bytes, and for as much again as there was, so that it
// is not asked for every piece of a line.
func (m *memory) need(bytes int) error {
	if m.ask == nil || bytes <= m.held {
		return nil
	}
	more := max(bytes-m.held, m.held)
	if err := m.ask(more); err != nil {
		return err
	}
	m.held += more
	return nil
}

// from reads the file from a place on.
func (a *Archive) from(place int64) *lines {
	const toTheEnd = 1 << 62
	return &lines{from: bufio.NewReaderSize(io.NewSectionReader(a.file, place, toTheEnd), pieceBytes), offset: place, head: &a.job}
}

// check goes once over an export.
type check struct {
	*lines
	archive *Archive
	maxPart int64
	tempDir string
}

func (c *check) all() error {
	text, err := c.next(maxHeadLine)
	if err != nil {
		return err
	}
	if err := c.head(text); err != nil {
		return err
	}
	before := c.archive.job.NextID
	for {
		place := c.offset
		text, err := c.next(maxLine)
		if err != nil {
			return err
		}
		if kindOf(text) == "end" {
			return c.end(text, place)
		}
		record, tasks, err := c.checkpoint(text)
		if err == nil && record.ID >= before {
			err = c.wrongBefore("Checkpoint %d should come before those with lower ids, and below the job's next id.", record.ID)
		}
		if err == nil && record.Snapshot != nil {
			err = c.snapshot(&record, tasks)
		}
		if err != nil {
			return err
		}
		before = record.ID
		for i := range tasks {
			if ack := tasks[i].Ack; ack != nil && ack.Attempt > c.archive.attempts[ack.TaskID] {
				c.archive.attempts[ack.TaskID] = ack.Attempt
			}
		}
		c.archive.places = append(c.archive.places, place)
	}
}

func (c *check) head(text []byte) error {
	job := &c.archive.job
	if err := c.object(text, job, "job"); err != nil {
		return err
	}
	if job.Format != coordinator.ExportFormat {
		return &coordinator.Error{
			Code: coordinator.CodeUnsupportedVersion,
			Detail: fmt.Sprintf("The export has format %d, and this server reads %d. Import it with a server of the version that wrote it, or of a later one.",
				job.Format, coordinator.ExportFormat),
		}
	}
	if job.Type != "job" {
		return c.wrongBefore("The first line should be that of the job.")
	}
	if err := job.Check(); err != nil {
		return c.wrongBefore("%v.", err)
	}
	return nil
}

// snapshot checks the restore lines of a checkpoint: each part by itself, and all of them by their manifest.
func (c *check) snapshot(record *coordinator.ExportedCheckpoint, tasks []coordinator.TaskState) error {
	s := record.Snapshot
	shared, err := c.part(snapshot.Shared, s.SharedBytes)
	if err != nil {
		return err
	}
	parts := []coordinator.ManifestPart{{Shared: true, PartInfo: shared}}
	total := shared
	for i := range tasks {
		ack := tasks[i].Ack
		if ack == nil {
			continue
		}
		found, err := c.part(ack.TaskID, ack.Part.Bytes)
		if err != nil {
			return err
		}
		if found != ack.Part {
			return c.wrongBefore("The part of task %q does not have the entries, the bytes or the digest that its task's line says.", ack.TaskID)
		}
		total.Entries += found.Entries
		total.Bytes += found.Bytes
		parts = append(parts, coordinator.ManifestPart{TaskID: ack.TaskID, PartInfo: found})
	}
	if shared.Entries != s.SharedEntries || total.Entries != s.Entries || total.Bytes != s.Bytes || coordinator.ManifestDigest(parts) != s.Digest {
		return c.wrongBefore("Checkpoint %d does not have the entries, the bytes or the digest that its line says.", record.ID)
	}
	return nil
}

// part reads so many bytes, which must be exactly the restore lines of a part.
func (c *check) part(task string, size int64) (coordinator.PartInfo, error) {
	begins, raw := c.offset, sha256.New()
	section := io.LimitReader(c.from, size)
	entries := snapshot.NewLineReader(io.TeeReader(section, io.MultiWriter(raw, c.sum)), task, coordinator.MaxValueBytes)
	var tooMuch error
	entries.OnLongLine(func(bytes int) error {
		tooMuch = c.memory.need(bytes)
		return tooMuch
	})
	keys := snapshot.NewKeySet(c.tempDir)
	defer keys.Close() //nolint:errcheck // The temporary file has no name any more.
	rendered := snapshot.NewPartWriter(task, max(c.maxPart, coordinator.MaxSharedBytes), func(int, []byte) error { return nil })
	defer rendered.Close()
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = keys.Add(entry.Key, rendered.Bytes(), entry.Line)
		}
		if err == nil {
			err = rendered.Add(entry.Key, entry.Value)
		}
		if tooMuch != nil {
			return coordinator.PartInfo{}, tooMuch
		}
		if failed, is := errors.AsType[*fs.PathError](err); is {
			return coordinator.PartInfo{}, noRoom(failed)
		}
		if err != nil {
			return coordinator.PartInfo{}, c.wrong("What follows is not the part of task %q: %v.", task, err)
		}
	}
	info, err := rendered.Finish()
	if err == nil {
		err = keys.Finish(io.NewSectionReader(c.archive.file, begins, size))
	}
	switch {
	case err != nil:
		return info, c.wrong("What follows is not the part of task %q: %v.", task, err)
	case info.Bytes != size || info.Digest != coordinator.Digest(raw.Sum(nil)):
		return info, c.wrong("What follows are not %d bytes of the part of task %q as a restore writes them.", size, task)
	}
	c.offset += size
	c.line += info.Entries
	return info, nil
}

func (c *check) end(text []byte, place int64) error {
	var end coordinator.ExportedEnd
	if err := c.object(text, &end, "end"); err != nil {
		return err
	}
	digest := coordinator.Digest(c.sum.Sum(nil))
	if end.Checkpoints != len(c.archive.places) || end.Lines != c.line-1 || end.Bytes != place || end.Digest != digest {
		return c.wrongBefore("The lines before it are not those that it counts.")
	}
	if _, err := c.from.Peek(1); !errors.Is(err, io.EOF) {
		return c.wrong("There is more behind the last line.")
	}
	return nil
}
