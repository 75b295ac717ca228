package handlers

import (
	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// PlainAckItems reads a body as the door for plain acknowledgements does.
func PlainAckItems(body []byte) (items []coordinator.AckItem, list, plain bool) {
	a := new(plainAck)
	plain = a.read(body)
	return a.items, a.list, plain
}

// StrictAckItems reads a body as the general door does.
func StrictAckItems(body []byte) (items []coordinator.AckItem, list bool, err error) {
	var decoded api.AckBody
	if err := decodeStrict(body, &decoded); err != nil {
		return nil, false, err
	}
	if decoded.Acks != nil {
		items, err = ackItemsOf(&decoded, &partRoom{left: maxInlineParts})
		return items, true, err
	}
	item, err := ackItemOf("", decoded.One(), &partRoom{left: maxInlineParts})
	return []coordinator.AckItem{item}, false, err
}

// AppendAckResult is how the door for plain acknowledgements answers.
func AppendAckResult(result api.AckResult) []byte { return appendAckResult(nil, result) }

// AnswerToAList is how an acknowledged list is answered.
func AnswerToAList(id int64, result coordinator.AckResult) api.AcknowledgeResponseObject {
	return bulkAnswer{id, result}
}

// DecodeStrict decodes a body into a pointer.
func DecodeStrict(raw []byte, target any) error { return decodeStrict(raw, target) }

// ParseRange gives the offset and length of a Range header for a stream of size bytes.
func ParseRange(header string, size int64) (offset, length int64, ok bool, err error) {
	r, ok, err := parseRange(header, size)
	return r.offset, r.length, ok, err
}

// TagsOf splits an If-Match.
func TagsOf(header string) (tags []string, star bool, err error) { return tagsOf("If-Match", header) }

// SHA256Of finds the digest in a Content-Digest.
func SHA256Of(header string) ([]byte, error) { return sha256Of(&header) }
