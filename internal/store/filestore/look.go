package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A look at a file of parts/ has three answers. It is as recorded: nil. It surely is not: a [*lacking].
// Or that could not be seen, because the limit of open files is used up, or the disk is away or fails:
// any other error. Only the second is damage, which takes a checkpoint away from its fleet. Everything
// that reads a part asks here, and nothing else decides.

// lacking is the proof that a file of parts/ is not as recorded.
type lacking struct{ what error }

func (l *lacking) Error() string { return l.what.Error() }

func (l *lacking) Unwrap() error { return l.what }

// look sees whether the file of a part is there with the size that is recorded.
func (f *folder) look(name string, size int64) error {
	info, err := f.disk.Stat(f.file(name))
	switch {
	case err != nil:
		return f.judge(err)
	case !info.Mode().IsRegular():
		return &lacking{fmt.Errorf("file %s is no file but %s", name, info.Mode().Type())}
	case info.Size() != size:
		return &lacking{fmt.Errorf("file %s has %d bytes instead of %d", name, info.Size(), size)}
	}
	return nil
}

// open opens the file of a part for reading.
func (f *folder) open(name string) (*os.File, error) {
	file, err := f.disk.Open(f.file(name), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = f.disk.Stat(f.file(name)) // which tells a link that leads nowhere from nothing
		if err == nil {
			err = fmt.Errorf("file %s comes and goes", name)
		}
	}
	if err == nil {
		return file, nil
	}
	err = f.judge(err)
	if _, proven := errors.AsType[*lacking](err); !proven {
		f.failing.Store(true)
	}
	return nil, err
}

// readAt fills p from off of the file of a part.
func (f *folder) readAt(file *os.File, p []byte, off int64) (int, error) {
	n, err := f.disk.ReadAt(file, p, off)
	if n == len(p) {
		return n, nil
	}
	return n, f.judge(err)
}

// judge tells what an error of the file system proves of a file.
func (f *folder) judge(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the file ends early
		return &lacking{err}
	case errors.Is(err, fs.ErrNotExist):
		// That proves something only in the folder that the file was put in.
		if away := f.place.check(f.disk); away != nil {
			return away
		}
		return &lacking{err}
	}
	return err
}

// refusal is what a reader answers after a look: damage only where it is proven.
func (f *folder) refusal(err error, id int64, task string) error {
	if _, proven := errors.AsType[*lacking](err); proven {
		return damaged(id, task, err)
	}
	return storageError(err)
}
