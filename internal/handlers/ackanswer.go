package handlers

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Answers to acknowledgements are written by hand, byte for byte as encoding/json writes the
// contract's types.

// appendAckResult appends an answer as encoding/json writes it.
func appendAckResult(dst []byte, a api.AckResult) []byte {
	dst = append(dst, `{"checkpointId":`...)
	dst = strconv.AppendInt(dst, a.CheckpointID, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, a.Status...)
	dst = append(dst, `","acknowledgedTasks":`...)
	dst = strconv.AppendInt(dst, int64(a.AcknowledgedTasks), 10)
	dst = append(dst, `,"requiredTaskAcks":`...)
	dst = strconv.AppendInt(dst, int64(a.RequiredTaskAcks), 10)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, a.Duplicate)
	return append(dst, '}', '\n')
}

// bulkAnswer is the answer to a list.
type bulkAnswer struct {
	id     int64
	result coordinator.AckResult
}

// VisitAcknowledgeResponse writes the answer.
func (a bulkAnswer) VisitAcknowledgeResponse(w http.ResponseWriter) error {
	return writeBytes(w, mediaJSON, appendBulkAckResult(nil, a.id, a.result))
}

// appendBulkAckResult appends an answer as encoding/json writes an api.BulkAckResult.
func appendBulkAckResult(dst []byte, id int64, result coordinator.AckResult) []byte {
	dst = append(dst, `{"checkpointId":`...)
	dst = strconv.AppendInt(dst, id, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, result.Status...)
	dst = append(dst, `","acknowledgedTasks":`...)
	dst = strconv.AppendInt(dst, int64(result.AcknowledgedTasks), 10)
	dst = append(dst, `,"requiredTaskAcks":`...)
	dst = strconv.AppendInt(dst, int64(result.RequiredTaskAcks), 10)
	dst = append(dst, `,"results":[`...)
	for i := range result.Outcomes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendBulkAckItem(dst, &result.Outcomes[i])
	}
	return append(dst, ']', '}', '\n')
}

func appendBulkAckItem(dst []byte, outcome *coordinator.AckOutcome) []byte {
	dst = append(dst, `{"taskId":`...)
	dst = appendText(dst, outcome.TaskID)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, outcome.Outcome...)
	if outcome.Refusal != nil {
		dst = append(dst, `","code":"`...)
		dst = append(dst, outcome.Refusal.Code...)
	}
	return append(dst, '"', '}')
}

// appendText appends a JSON string.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) //nolint:errchkjson // A string is always written.
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}
