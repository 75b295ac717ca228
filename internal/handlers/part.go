package handlers

import (
	"crypto/sha256"
	"errors"
	"fmt"
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

// renderPart renders the state of an acknowledgement, which stands at pointer, into
// restore bytes. budget is how many there may be, and is lowered by those there are.
func renderPart(pointer, taskID string, state []byte, budget *int) (*coordinator.PartContent, error) {
	members, err := snapshot.Object(state)
	if err != nil {
		return nil, stateRefusal(pointer, err)
	}
	size := 0
	for _, member := range members {
		size += snapshot.EntrySize(taskID, member.Name, member.Value)
	}
	if *budget -= size; *budget < 0 {
		return nil, coordinator.ErrTooLarge("ackBodyBytes", maxInlineParts, "The states of the call have too many bytes when every entry names its task; upload them as parts instead")
	}
	content := make([]byte, 0, size)
	for _, member := range members {
		content = snapshot.AppendEntry(content, taskID, member.Name, member.Value)
	}
	sum := sha256.Sum256(content)
	return &coordinator.PartContent{Content: content, Entries: int64(len(members)), Digest: coordinator.Digest(sum[:])}, nil
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
