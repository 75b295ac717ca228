package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

const (
	// firstBuffer is what a LineReader begins with and smallBuffer what it
	// grows to for speed alone, in bytes. Beyond that it grows for long lines
	// only.
	firstBuffer = 4 << 10
	smallBuffer = 64 << 10

	// lineSlack is what a line may be longer than its value, in bytes: a key
	// and a taskId of 1024 bytes each, all escaped as \u0000, take 12 KiB, the
	// rest is room for white space.
	lineSlack = 64 << 10
)

// LineReader reads the entries of an NDJSON upload: one object
// {"key":…,"value":…} a line, members in any order, optionally with the taskId
// of the upload. Lines end with a line feed, which a carriage return may
// precede and the last line may lack. Lines of only white space are skipped but
// counted.
//
// It holds one line in memory and allocates nothing per line, unless a line has
// an object of more than sixteen members.
type LineReader struct {
	src      io.Reader
	taskID   string
	maxValue int
	scan     scanner
	quick    quickScanner
	// ours is what a line begins with that names the upload's task as a restore does.
	ours []byte

	// buf[start:end] is read but not yet handed out; there is no line feed in
	// its first searched bytes.
	buf        []byte
	start, end int
	searched   int
	srcErr     error
	// longLine is asked before buf grows for a long line.
	longLine func(bytes int) error
	// eager tells that the source gave all it was asked for: ask for more.
	eager bool

	// offset is the place of buf[start] in the body.
	offset int64
	line   int
	key    []byte
	name   []byte
	err    error
}

// NewLineReader returns a reader of the upload of taskID's part. A taskId on a
// line must equal taskID. A value may have maxValue bytes when canonical, and a
// line 64 KiB more.
func NewLineReader(src io.Reader, taskID string, maxValue int) *LineReader {
	return &LineReader{
		src: src, taskID: taskID, maxValue: maxValue,
		ours: linePrefix(taskID),
	}
}

// OnLongLine lets ask be asked before the reader takes so many bytes of memory more for a
// line above 64 KiB; its error ends the reading, and comes back wrapped.
func (r *LineReader) OnLongLine(ask func(bytes int) error) { r.longLine = ask }

// Next returns the next entry, and io.EOF after the last. The error is
// otherwise a *SyntaxError, an *EntryError or a *TooLargeError with the line,
// or wraps what the source answered. After an error the reader keeps answering
// it.
func (r *LineReader) Next() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	for {
		line, err := r.nextLine()
		if err != nil {
			r.err = err
			return Entry{}, err
		}
		first := skipSpace(line, 0)
		if first == len(line) {
			r.offset += int64(len(line)) + 1
			continue
		}
		entry, plain := r.plain(line)
		if !plain {
			entry, err = r.parse(line, first)
		}
		if err != nil {
			r.err = r.locate(err)
			return Entry{}, r.err
		}
		r.offset += int64(len(line)) + 1
		return entry, nil
	}
}

// nextLine returns the next line without its line feed.
func (r *LineReader) nextLine() ([]byte, error) {
	for {
		if at := bytes.IndexByte(r.buf[r.start+r.searched:r.end], '\n'); at >= 0 {
			line := r.buf[r.start : r.start+r.searched+at]
			r.start, r.searched = r.start+len(line)+1, 0
			r.line++
			return line, nil
		}
		r.searched = r.end - r.start
		switch {
		case r.searched > r.maxValue+lineSlack:
			return nil, &TooLargeError{
				What: "line", Max: int64(r.maxValue + lineSlack), Line: r.line + 1,
				Detail: "one line is longer than " + strconv.Itoa(r.maxValue+lineSlack) + " bytes",
			}
		case r.srcErr == io.EOF && r.searched == 0:
			return nil, io.EOF
		case r.srcErr == io.EOF:
			line := r.buf[r.start:r.end]
			r.start, r.searched = r.end, 0
			r.line++
			return line, nil
		case r.srcErr != nil:
			return nil, fmt.Errorf("read line %d: %w", r.line+1, r.srcErr)
		}
		r.fill()
	}
}

// fill reads more of the source behind the unfinished line.
func (r *LineReader) fill() {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) || r.eager && len(r.buf) < smallBuffer {
		if r.srcErr = r.grow(); r.srcErr != nil {
			return
		}
	}
	const patience = 100 // as bufio: a reader that never progresses must not hang us
	for range patience {
		// A bare io.EOF is the end of the body, a wrapped one a broken transfer,
		// which must not pass as a shorter upload.
		n, err := r.src.Read(r.buf[r.end:])
		r.eager = n == len(r.buf)-r.end
		r.end += n
		r.srcErr = err
		if n > 0 || err != nil {
			return
		}
	}
	r.srcErr = io.ErrNoProgress
}

// grow makes the buffer twice as large.
func (r *LineReader) grow() error {
	size := max(firstBuffer, 2*len(r.buf))
	if size > smallBuffer {
		size = min(size, r.maxValue+lineSlack+1)
		if r.longLine != nil {
			if err := r.longLine(size); err != nil {
				return err
			}
		}
	}
	r.buf = append(make([]byte, 0, size), r.buf[:r.end]...)[:size]
	return nil
}

// plain reads a line that is written as nearly all are: a key without escapes and
// then the value, with the white space that is usual or none, and with no other
// member than the task in front, as a restore writes it. Only the value needs the scanner
// then, which takes a third off the time of a short line. For any other line,
// well-formed or not, ok is false, and nothing has happened to it.
func (r *LineReader) plain(line []byte) (entry Entry, ok bool) {
	start, middle := len(plainHead), headEnd
	switch {
	case bytes.HasPrefix(line, plainHead):
	case bytes.HasPrefix(line, spacedHead):
		start, middle = len(spacedHead), spacedMiddle
	case bytes.HasPrefix(line, r.ours):
		start = len(r.ours)
	default:
		return Entry{}, false
	}
	end := shortString(line, start)
	if end < 0 {
		var escaped bool
		var problem string
		if end, escaped, problem = scanString(line, start); escaped || problem != "" {
			return Entry{}, false
		}
	}
	key, value := line[start:end:end], end+len(middle)
	if keyProblem(key) != "" || value >= len(line) || line[value] <= ' ' || string(line[end:value]) != middle {
		return Entry{}, false
	}
	end, spaced, quick := r.quick.value(line, value)
	if !quick {
		r.scan.maxDepth, r.scan.inside = MaxDepth, true
		var err error
		if end, err = r.scan.value(line, value); err != nil {
			return Entry{}, false
		}
		spaced = r.scan.lastSpace >= 0
	}
	if end+1 != len(line) || line[end] != '}' {
		return Entry{}, false
	}
	entry = Entry{Key: key, Value: line[value:end:end], Line: r.line}
	if len(entry.Value) > r.maxValue {
		return Entry{}, false
	}
	if spaced {
		entry.Value = compact(entry.Value[:0], entry.Value)
	}
	return entry, true
}

// How most programs write what stands before and after a key, without spaces or, as
// Python does, with them.
var (
	plainHead  = []byte(`{"key":"`)
	spacedHead = []byte(`{"key": "`)
)

const spacedMiddle = `", "value": `

// parse reads the entry on a line that begins, after white space, at first.
func (r *LineReader) parse(line []byte, first int) (Entry, error) {
	r.scan.maxDepth, r.scan.inside = MaxDepth+1, false // the line's object is around the value
	if problem := noValue(line, first); problem != "" {
		return Entry{}, &SyntaxError{Offset: int64(first), Detail: problem}
	}
	end, err := r.scan.value(line, first)
	if err != nil {
		return Entry{}, err
	}
	if rest := skipSpace(line, end); rest < len(line) {
		return Entry{}, &SyntaxError{Offset: int64(rest), Detail: "there is more after the end of the line's object"}
	}
	if line[first] != '{' {
		return Entry{}, &EntryError{Detail: "a line must be an object, and is " + withArticle(Type(line[first:]))}
	}

	var haveKey, haveValue bool
	entry := Entry{Line: r.line}
	for _, m := range r.scan.members {
		name := line[m.nameStart:m.nameEnd]
		if m.escaped {
			r.name = appendUnescaped(r.name[:0], name)
			name = r.name
		}
		switch string(name) {
		case "key":
			haveKey = true
			if r.key, err = unescapeString(r.key[:0], line[m.start:m.end], "/key"); err != nil {
				return Entry{}, err
			}
			if problem := keyProblem(r.key); problem != "" {
				return Entry{}, &EntryError{Pointer: "/key", Detail: problem}
			}
			entry.Key = r.key
		case "taskId":
			if r.name, err = unescapeString(r.name[:0], line[m.start:m.end], "/taskId"); err != nil {
				return Entry{}, err
			}
			if string(r.name) != r.taskID {
				return Entry{}, &EntryError{
					Pointer: "/taskId",
					Detail:  "taskId " + quoted(r.name) + " is not the task of this upload, " + quoted([]byte(r.taskID)),
				}
			}
		case "value":
			haveValue = true
			entry.Value = line[m.start:m.end:m.end]
			if m.spaced {
				// In place: the compact value ends before the next member
				// begins, and names and values stay where they are.
				entry.Value = compact(entry.Value[:0], entry.Value)
			}
			if len(entry.Value) > r.maxValue {
				return Entry{}, valueTooLarge(r.maxValue, 0)
			}
		default:
			return Entry{}, &EntryError{
				Pointer: memberPointer(name),
				Detail:  "unknown member " + quoted(name) + "; a line has key, value and optionally taskId",
			}
		}
	}
	switch {
	case !haveKey:
		return Entry{}, &EntryError{Detail: "the member key is missing"}
	case !haveValue:
		return Entry{}, &EntryError{Detail: "the member value is missing"}
	}
	return entry, nil
}

// unescapeString appends what a JSON string stands for, and refuses a value of
// another type.
func unescapeString(dst, value []byte, pointer string) ([]byte, error) {
	if value[0] != '"' {
		return dst, &EntryError{Pointer: pointer, Detail: pointer[1:] + " must be a string, and is " + withArticle(Type(value))}
	}
	inside := value[1 : len(value)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return append(dst, inside...), nil
	}
	return appendUnescaped(dst, inside), nil
}

// locate adds the line to an error about its text.
func (r *LineReader) locate(err error) error {
	switch e := err.(type) { //nolint:errorlint // made here just now, not wrapped
	case *SyntaxError:
		e.Line, e.Offset = r.line, e.Offset+r.offset
	case *EntryError:
		e.Line = r.line
	case *TooLargeError:
		e.Line = r.line
	}
	return err
}
