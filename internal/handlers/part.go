package handlers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// maxNesting is how deep a value may be nested.
const maxNesting = snapshot.MaxDepth

// maxInlineParts is how many restore bytes the states of one acknowledging call may make.
// Each of its entries repeats the task's id, so that a body of 8 MiB of tiny entries under
// a long id would otherwise grow a hundredfold in memory.
const maxInlineParts = 64 << 20

// partRoom is the room for the restore bytes that the states of one call make.
type partRoom struct {
	// left is how many more there may be.
	left int
	// owed is memory that was not asked for yet, since it is little; below 0 it was asked for with the body.
	owed int
	// take asks for memory; nil where there is enough for all that is left.
	take func(bytes int64) error
}

// partRoom is that of an acknowledging call.
func (s *server) partRoom(ctx context.Context) *partRoom {
	e := exchangeOf(ctx)
	return &partRoom{left: maxInlineParts, owed: -(bodyCopies - 1) * e.bodySize, take: func(bytes int64) error { return s.takeBuffered(e, bytes) }}
}

// reserve makes room for a part of that size.
func (r *partRoom) reserve(size int) error {
	if r.left -= size; r.left < 0 {
		return coordinator.ErrTooLarge("ackBodyBytes", maxInlineParts, "The states of the call have too many bytes when every entry names its task; upload them as parts instead")
	}
	if r.owed += size; r.owed <= largeBytes || r.take == nil {
		return nil
	}
	owed := r.owed
	r.owed = 0
	return r.take(int64(owed))
}

// renderPart renders the state of an acknowledgement, which stands at pointer, into
// restore bytes, for which it takes room first.
func renderPart(pointer, taskID string, state []byte, room *partRoom) (*coordinator.PartContent, error) {
	members, err := snapshot.NewObjectReader(state, len(state))
	if err != nil {
		return nil, stateRefusal(pointer, err)
	}
	size, entries := 0, int64(0)
	for counted := *members; ; entries++ {
		entry, err := counted.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, stateRefusal(pointer, err)
		}
		size += snapshot.EntrySize(taskID, entry.Key, entry.Value)
	}
	if err := room.reserve(size); err != nil {
		return nil, err
	}
	content := make([]byte, 0, size)
	for range entries {
		entry, err := members.Next()
		if err != nil {
			return nil, stateRefusal(pointer, err) // cannot happen: it was read before
		}
		content = snapshot.AppendEntry(content, taskID, entry.Key, entry.Value)
	}
	sum := sha256.Sum256(content)
	return &coordinator.PartContent{Content: content, Entries: entries, Digest: coordinator.Digest(sum[:])}, nil
}

// stateRefusal gives an error of package snapshot about a JSON value at pointer, or about
// a line, as a refusal. Anything else stays as it is.
func stateRefusal(pointer string, err error) error {
	var syntax *snapshot.SyntaxError
	var entry *snapshot.EntryError
	var large *snapshot.TooLargeError
	var duplicate *snapshot.DuplicateKeyError
	switch {
	case errors.As(err, &syntax):
		return placed(coordinator.CodeInvalidJSON, "The state is not strict JSON", pointer+syntax.Pointer, syntax.Line, syntax.Detail)
	case errors.As(err, &entry):
		return placed(coordinator.CodeInvalidRequest, "The state is not a list of entries", pointer+entry.Pointer, entry.Line, entry.Detail)
	case errors.As(err, &duplicate):
		return placed(coordinator.CodeInvalidRequest, "The part has a key twice", pointer, duplicate.Line, duplicate.Detail())
	case errors.As(err, &large):
		limit, most, what := "valueBytes", large.Max, strings.TrimSuffix(sentence(large.Detail), ".")
		switch large.What {
		case "part":
			limit = "partBytes"
		case "line": // the number is that of GET /limits, without the room around the value
			most, what = coordinator.MaxValueBytes, "One line is longer than a value may be, with 64 KiB for what stands around it"
		}
		refusal := coordinator.ErrTooLarge(limit, most, what)
		if large.Line > 0 {
			refusal.Fields = []coordinator.FieldError{{Line: large.Line, Detail: sentence(large.Detail)}}
		}
		return refusal
	}
	return err
}

// placed makes a refusal of one place: a pointer into the body, or into a line of NDJSON.
func placed(code coordinator.Code, what, pointer string, line int, detail string) *coordinator.Error {
	where := pointer
	switch {
	case line > 0:
		where = fmt.Sprintf("line %d", line)
	case pointer == "":
		where = "the body"
	}
	return &coordinator.Error{
		Code:   code,
		Detail: fmt.Sprintf("%s; nothing was stored. Mend %s and send it again; errors has the reason.", what, where),
		Fields: []coordinator.FieldError{{Pointer: pointer, Line: line, Detail: sentence(detail)}},
	}
}
