package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// bbolt trusts its file. A page that leads nowhere has it panic, or read outside of the file's
// map, in a goroutine of its own at that, where nobody can catch it. So the pages are looked at
// here first, with reads that fail as reads do: each must lie within the file, be what refers to
// it, be referred to once, and have its keys in order. It is what bbolt looks at when it opens a
// file without a list of free pages, and what its cursors rely on.

const (
	pageHeader  = 16 // id, flags, count, overflow
	pageElement = 16
	metaEnd     = pageHeader + 64

	flagsBranch   = 1
	flagsLeaf     = 2
	flagsFreelist = 16

	elementIsBucket = 1

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)

	maxKeyBytes = bolt.MaxKeySize
)

var native = binary.NativeEndian // bbolt writes what the machine has in memory

// checkDatabase looks at a database that nobody writes to meanwhile. An error that is no damage
// says that it could not be looked at.
func checkDatabase(dir string, options Options) error {
	path := filepath.Join(dir, "meta.db")
	// Reading only, bbolt takes the lock and looks at the two meta pages alone.
	lock, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: options.LockTimeout, ReadOnly: true, NoStatistics: true})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return inUse(dir, err)
	case isPathError(err):
		return fmt.Errorf("open %q: %w", path, err)
	case err != nil:
		return damagedRecords(dir, err)
	}
	file, err := os.Open(path) //nolint:gosec // The operator says where data lies.
	if err != nil {
		return errors.Join(fmt.Errorf("open %q: %w", path, err), lock.Close())
	}
	err = checkPages(file)
	if err := errors.Join(file.Close(), lock.Close()); err != nil {
		return fmt.Errorf("close %q: %w", path, err)
	}
	if err != nil {
		return damagedRecords(dir, err)
	}
	return nil
}

func isPathError(err error) bool {
	_, is := errors.AsType[*os.PathError](err)
	return is
}

// inUse is that another process has the directory.
func inUse(dir string, err error) error {
	return fmt.Errorf("the data directory %q is in use by another process: stop that one, or give this one a directory of its own with --data: %w", dir, err)
}

// damagedRecords is that the database cannot be used, and what to do about it.
func damagedRecords(dir string, cause error) error {
	return fmt.Errorf("the data directory %q has a meta.db that is damaged (%w): restore meta.db and parts/ from a backup, or move the directory away to begin with nothing; nothing was deleted", dir, cause)
}

// pages are those of one database, as they are found on the way from its root.
type pages struct {
	file io.ReaderAt
	size uint64 // of one page, in bytes
	// end is the first page that was never used.
	end  uint64
	seen []uint64 // a bit for each page
	// spare are heads of pages that were looked at.
	spare [][]byte
}

// page is one page, of which only the first bytes are in memory: values may be long.
type page struct {
	*pages

	id    uint64
	head  []byte
	bytes uint64 // all of it
	flags uint16
	count int
}

// keyRange is where the keys below a branch lie. A nil high has no end.
type keyRange struct{ low, high []byte }

// checkPages looks at all pages that are in use.
func checkPages(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("its size is unknown: %w", err)
	}
	p, root, freelist, err := openPages(file, uint64(max(0, info.Size())))
	if err != nil {
		return err
	}
	if freelist != noFreelist {
		if err := p.checkFreelist(freelist); err != nil {
			return err
		}
	}
	return p.walk(root, keyRange{})
}

// openPages reads the newer of the two valid meta pages, as bbolt does.
func openPages(file io.ReaderAt, fileBytes uint64) (p *pages, root, freelist uint64, err error) {
	first, found := readMeta(file, 0)
	for at := uint64(1024); !found && at <= 1024<<14; at *= 2 {
		first, found = readMeta(file, at)
	}
	if !found {
		return nil, 0, 0, errors.New("neither of its meta pages is valid")
	}
	size := uint64(native.Uint32(first[24:]))
	if size < metaEnd {
		return nil, 0, 0, fmt.Errorf("its pages have %d bytes", size)
	}
	var newest []byte
	for _, at := range []uint64{0, size} {
		meta, valid := readMeta(file, at)
		if valid && (newest == nil || native.Uint64(meta[64:]) > native.Uint64(newest[64:])) {
			newest = meta
		}
	}
	if newest == nil {
		return nil, 0, 0, errors.New("neither of its meta pages is where it belongs")
	}
	p = &pages{file: file, size: size, end: native.Uint64(newest[56:])}
	if p.end > fileBytes/size {
		return nil, 0, 0, fmt.Errorf("it has %d bytes and its records fill %d pages of %d", fileBytes, p.end, size)
	}
	p.seen = make([]uint64, p.end/64+1)
	return p, native.Uint64(newest[32:]), native.Uint64(newest[48:]), nil
}

// readMeta reads the meta page at an offset and tells whether it is one.
func readMeta(file io.ReaderAt, at uint64) (meta []byte, valid bool) {
	meta = make([]byte, metaEnd)
	if _, err := file.ReadAt(meta, int64(at)); err != nil {
		return nil, false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(meta[pageHeader : metaEnd-8])
	return meta, native.Uint32(meta[16:]) == metaMagic && native.Uint32(meta[20:]) == metaVersion &&
		native.Uint64(meta[metaEnd-8:]) == sum.Sum64()
}

// open reads the beginning of a page that is referred to.
func (p *pages) open(id uint64) (*page, error) {
	if id < 2 || id >= p.end {
		return nil, fmt.Errorf("there is no page %d", id)
	}
	var head []byte
	if last := len(p.spare) - 1; last >= 0 {
		head, p.spare = p.spare[last], p.spare[:last]
	} else {
		head = make([]byte, p.size)
	}
	if _, err := p.file.ReadAt(head, int64(id*p.size)); err != nil {
		return nil, fmt.Errorf("page %d cannot be read: %w", id, err)
	}
	if got := native.Uint64(head); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	more := uint64(native.Uint32(head[12:]))
	if id+more >= p.end {
		return nil, fmt.Errorf("page %d has no end", id)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, fmt.Errorf("page %d is referred to twice", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	return &page{pages: p, id: id, head: head, bytes: (more + 1) * p.size, flags: native.Uint16(head[8:]), count: int(native.Uint16(head[10:]))}, nil
}

// at gives some of a page's bytes.
func (p *page) at(from, n uint64) ([]byte, error) {
	if from+n > p.bytes {
		return nil, fmt.Errorf("page %d ends before its content does", p.id)
	}
	if from+n <= uint64(len(p.head)) {
		return p.head[from : from+n], nil
	}
	b := make([]byte, n)
	if _, err := p.file.ReadAt(b, int64(p.id*p.size+from)); err != nil {
		return nil, fmt.Errorf("page %d cannot be read: %w", p.id, err)
	}
	return b, nil
}

// checkFreelist looks at a list of free pages. Only a database that was never written to has one.
func (p *pages) checkFreelist(id uint64) error {
	list, err := p.open(id)
	if err != nil {
		return err
	}
	if list.flags != flagsFreelist || list.count == 1<<16-1 {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	for i := range uint64(list.count) {
		free, err := list.at(pageHeader+i*8, 8)
		if err != nil {
			return err
		}
		if n := native.Uint64(free); n < 2 || n >= p.end {
			return fmt.Errorf("page %d, which is free, is not there", n)
		}
	}
	return nil
}

// walk looks at a page and at all below it.
func (p *pages) walk(id uint64, within keyRange) error {
	here, err := p.open(id)
	if err != nil {
		return err
	}
	defer func() { p.spare = append(p.spare, here.head) }()
	switch {
	case here.flags == flagsBranch && here.count > 0:
		return here.walkBranch(within)
	case here.flags == flagsLeaf:
		return here.walkLeaf(within)
	}
	return fmt.Errorf("page %d is of no kind that belongs there", id)
}

func (p *page) walkBranch(within keyRange) error {
	keys, children := make([][]byte, p.count), make([]uint64, p.count)
	for i := range p.count {
		at := pageHeader + uint64(i)*pageElement
		element, err := p.at(at, pageElement)
		if err != nil {
			return err
		}
		children[i] = native.Uint64(element[8:])
		if keys[i], err = p.key(at+uint64(native.Uint32(element)), native.Uint32(element[4:])); err != nil {
			return err
		}
	}
	if err := p.inOrder(keys, within); err != nil {
		return err
	}
	for i, child := range children {
		below := keyRange{low: keys[i], high: within.high}
		if i+1 < len(keys) {
			below.high = keys[i+1]
		}
		if err := p.walk(child, below); err != nil {
			return err
		}
	}
	return nil
}

func (p *page) walkLeaf(within keyRange) error {
	keys := make([][]byte, p.count)
	for i := range p.count {
		at := pageHeader + uint64(i)*pageElement
		element, err := p.at(at, pageElement)
		if err != nil {
			return err
		}
		flags, keyBytes, valueBytes := native.Uint32(element), native.Uint32(element[8:]), uint64(native.Uint32(element[12:]))
		at += uint64(native.Uint32(element[4:]))
		if keys[i], err = p.key(at, keyBytes); err != nil {
			return err
		}
		at += uint64(keyBytes)
		if at+valueBytes > p.bytes {
			return fmt.Errorf("page %d ends before its content does", p.id)
		}
		switch flags {
		case 0:
		case elementIsBucket:
			value, err := p.at(at, valueBytes)
			if err != nil {
				return err
			}
			if err := p.walkBucket(value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("page %d has an entry of no known kind", p.id)
		}
	}
	return p.inOrder(keys, within)
}

// walkBucket looks at a bucket: the number of its page, or a leaf page right there.
func (p *page) walkBucket(value []byte) error {
	if len(value) < pageHeader {
		return fmt.Errorf("page %d has a bucket that is too short", p.id)
	}
	if root := native.Uint64(value); root != 0 {
		return p.walk(root, keyRange{})
	}
	value = value[16:]
	if len(value) < pageHeader || native.Uint16(value[8:]) != flagsLeaf {
		return fmt.Errorf("page %d has a bucket that is none", p.id)
	}
	inline := &page{pages: p.pages, id: p.id, head: value, bytes: uint64(len(value)), count: int(native.Uint16(value[10:]))}
	for i := range inline.count {
		element, err := inline.at(pageHeader+uint64(i)*pageElement, pageElement)
		if err != nil {
			return err
		}
		if native.Uint32(element) != 0 {
			return fmt.Errorf("page %d has a bucket in a bucket that is too small for one", p.id)
		}
	}
	return inline.walkLeaf(keyRange{})
}

func (p *page) key(at uint64, n uint32) ([]byte, error) {
	if n == 0 || n > maxKeyBytes {
		return nil, fmt.Errorf("page %d has a key of %d bytes", p.id, n)
	}
	return p.at(at, uint64(n))
}

// inOrder tells whether the keys of a page ascend, and lie where the page above says.
func (p *page) inOrder(keys [][]byte, within keyRange) error {
	before := within.low
	for i, key := range keys {
		order := bytes.Compare(before, key)
		if order > 0 || order == 0 && i > 0 {
			return fmt.Errorf("page %d has keys out of order", p.id)
		}
		before = key
	}
	if within.high != nil && len(keys) > 0 && bytes.Compare(before, within.high) >= 0 {
		return fmt.Errorf("page %d has keys of another", p.id)
	}
	return nil
}
