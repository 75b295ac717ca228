package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// restoreStream is a task's part of a checkpoint as it arrives. A connection that breaks is
// resumed at the byte where it broke.
type restoreStream struct {
	ctx    context.Context //nolint:containedctx // A reader has no other place for it.
	client *client
	id     int64
	path   string
	query  url.Values
	// patience is how long it may bring nothing.
	patience time.Duration

	body   io.ReadCloser
	etag   string
	offset int64
	length int64 // -1 when a proxy does not say
	// stuck counts the connections in a row that brought nothing.
	stuck int
	// total is how many entries the server has announced, -1 when it has not.
	total int64

	selection selection
	meter     *meter
	// err ended the entries.
	err    error
	ranged bool
	// left tells that there may be entries that nobody has read.
	left bool
}

// stuckMax is how often a transfer may break off at the same byte: the server does so, too,
// when it finds that what it stores is damaged.
const stuckMax = 5

// openRestore asks for what this worker comes back to: the task's own part, or those of all
// where it has a share. A task that had no part in the checkpoint gets an empty one.
func (r *run) openRestore(ctx context.Context, from Checkpoint) (*restoreStream, error) {
	s := &restoreStream{
		ctx: ctx, client: &r.client, id: from.ID, path: fmt.Sprintf("/checkpoints/%d/restore", from.ID), query: url.Values{},
		patience: r.transferPatience, total: -1, selection: selection{owns: r.owns, shared: r.Shared},
	}
	if from.ID == None {
		return s, nil
	}
	if r.Share.Of == 0 {
		s.query.Set("taskId", r.TaskID)
		s.query.Set("shared", strconv.FormatBool(r.Shared))
	}
	err := s.open()
	if !isAny(err, CodeTaskNotInCheckpoint) {
		return s, err
	}
	r.Logger.WarnContext(ctx, "the checkpoint has no part of this task, which begins with nothing", "checkpoint", from.ID)
	if !r.Shared {
		return s, nil
	}
	s.query, s.selection.sharedOnly = url.Values{}, true // the server has no name for the shared state alone
	return s, s.open()
}

// open connects at the offset, however long the server is away.
func (s *restoreStream) open() error {
	return s.client.retry(s.ctx, "GET "+s.path, func() error {
		request, err := s.client.request(s.ctx, http.MethodGet, s.path, s.query, nil)
		if err != nil {
			return err
		}
		// Bytes are counted, so they must be the server's own.
		request.Header.Set("Accept-Encoding", "identity")
		if s.offset > 0 {
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.offset))
			request.Header.Set("If-Range", s.etag)
		}
		response, err := s.client.openPatiently(request, s.patience)
		if err != nil {
			return err
		}
		return s.adopt(response)
	})
}

// errAnotherSnapshot cannot happen with a completed checkpoint and a server that is one.
var errAnotherSnapshot = errors.New("the stored part is another one than before the connection broke")

// check finds out whether an answer is the server's. A page of something else in between is
// as good as no answer, and must not be taken for entries, nor for the end of them.
func (s *restoreStream) check(response *http.Response) error {
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); media != "application/x-ndjson" {
		return fmt.Errorf("GET %s is answered with status %d as %q", s.path, response.StatusCode, media)
	}
	if id := response.Header.Get("Checkpoint-Id"); id != "" && id != strconv.FormatInt(s.id, 10) {
		return fmt.Errorf("GET %s is answered with checkpoint %q", s.path, id)
	}
	return nil
}

// adopt goes on with an answer.
func (s *restoreStream) adopt(response *http.Response) error {
	if err := s.check(response); err != nil {
		_ = response.Body.Close() // nothing of it is wanted
		return err
	}
	etag := response.Header.Get("ETag")
	if s.offset == 0 {
		s.body, s.etag, s.length = response.Body, etag, response.ContentLength
		if total, err := strconv.ParseInt(response.Header.Get("Checkpoint-Entries"), 10, 64); err == nil {
			s.total = total
		}
		s.left = s.total != 0
		return nil
	}
	if etag != s.etag {
		_ = response.Body.Close()
		return &Problem{Status: response.StatusCode, Detail: errAnotherSnapshot.Error()}
	}
	if response.StatusCode == http.StatusOK { // a proxy without ranges
		if _, err := io.CopyN(io.Discard, response.Body, s.offset); err != nil {
			_ = response.Body.Close()
			return fmt.Errorf("skipping to byte %d: %w", s.offset, err)
		}
	}
	s.body = response.Body
	return nil
}

// Read reads on, over broken connections.
func (s *restoreStream) Read(p []byte) (int, error) {
	policy := s.client.policy
	for {
		if s.body == nil {
			err := s.open()
			if s.length < 0 && isAny(err, CodeRangeNotSatisfiable) {
				return 0, io.EOF // it broke after the last byte; the entries are counted
			}
			if err != nil {
				return 0, err
			}
		}
		n, err := s.body.Read(p)
		if s.offset += int64(n); n > 0 {
			s.stuck = 0
			s.meter.bytes(n)
			return n, nil // an error comes again with the next Read
		}
		if err == nil || (err == io.EOF && (s.length < 0 || s.offset >= s.length)) {
			return 0, err //nolint:wrapcheck // io.EOF
		}
		s.close()
		if s.ctx.Err() != nil {
			return 0, context.Cause(s.ctx)
		}
		if s.stuck++; s.stuck > stuckMax {
			return 0, fmt.Errorf("the transfer broke off %d times at byte %d: %w", s.stuck, s.offset, err)
		}
		if err := pause(s.ctx, policy.next()); err != nil {
			return 0, err
		}
	}
}

// size is how much is going to be read, -1 when that is not known.
func (s *restoreStream) size() int64 {
	if s.selection.sharedOnly {
		return -1
	}
	return s.length
}

func (s *restoreStream) close() {
	if s.body != nil {
		_ = s.body.Close() // it was read only
		s.body = nil
	}
}

// entries decodes the stream, once.
func (s *restoreStream) entries() Entries {
	return func(yield func(Entry, error) bool) {
		if s.ranged {
			yield(Entry{}, errors.New("the entries of a restore can be read only once"))
			return
		}
		if s.ranged = true; s.body == nil {
			return
		}
		lines := json.NewDecoder(s)
		for read := int64(0); ; read++ {
			entry, err := decodeEntry(lines)
			if err == io.EOF && (s.total < 0 || s.total == read) {
				s.left = false
				return
			}
			if err == io.EOF { // a proxy that does not tell where an answer was cut off
				err = fmt.Errorf("%d entries arrived of %d: %w", read, s.total, io.ErrUnexpectedEOF)
			}
			if err != nil {
				s.err = err
				yield(Entry{}, err)
				return
			}
			s.meter.entry()
			wanted, more := s.selection.judge(entry)
			if s.left = more && read+1 != s.total; !more || (wanted && !yield(entry, nil)) {
				return
			}
		}
	}
}

func decodeEntry(lines *json.Decoder) (Entry, error) {
	var line struct {
		TaskID string          `json:"taskId"`
		Key    string          `json:"key"`
		Value  json.RawMessage `json:"value"`
	}
	err := lines.Decode(&line)
	if err == nil && (line.Key == "" || line.Value == nil) {
		err = errors.New("a line of the restore is no entry")
	}
	return Entry{TaskID: line.TaskID, Key: line.Key, Value: line.Value}, err
}
