package handlers

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// What a body lists is counted and checked item by item while it is decoded: a body of some
// megabytes can list millions of empty objects or labels, which take a hundred times the memory
// and minutes of computing. Decoding ends at the first item that is wrong or one too many.
var boundedLists = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(decoder *jsontext.Decoder, list *[]api.AckRequest) error {
		return decodeList(decoder, list, "bulkAcks", coordinator.MaxBulkAcks, "acknowledgements", checkAck)
	}),
	json.UnmarshalFromFunc(func(decoder *jsontext.Decoder, list *[]string) error {
		return decodeList(decoder, list, "tasks", coordinator.MaxTasks, "tasks", func(pointer string, name *string) error {
			return refusedAt(pointer, coordinator.CheckTaskID(*name))
		})
	}),
	json.UnmarshalFromFunc(decodeLabels),
)

// decodeList decodes an array of at most so many items, each of which check may refuse. It is for
// the array alone: anything else is left to the decoder.
func decodeList[T any](decoder *jsontext.Decoder, list *[]T, limit string, most int, what string, check func(pointer string, item *T) error) error {
	if decoder.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err //nolint:wrapcheck // The decoder looks at it.
	}
	*list = []T{}
	for decoder.PeekKind() != ']' {
		if len(*list) == most {
			return coordinator.ErrLimitExceeded(limit, int64(most), fmt.Sprintf("The body lists more than %d %s", most, what))
		}
		var item T
		if err := json.UnmarshalDecode(decoder, &item); err != nil {
			return err //nolint:wrapcheck // As above.
		}
		if err := check(shortPointer(decoder.StackPointer()), &item); err != nil {
			return err
		}
		*list = append(*list, item)
	}
	_, err := decoder.ReadToken()
	return err //nolint:wrapcheck // As above.
}

// checkAck refuses an acknowledgement of a list that cannot be one, whatever is stored.
func checkAck(pointer string, ack *api.AckRequest) error {
	if err := refusedAt(pointer+"/taskId", coordinator.CheckTaskID(ack.TaskID)); err != nil || ack.Digest == nil {
		return err
	}
	return refusedAt(pointer+"/digest", coordinator.CheckDigest(*ack.Digest))
}

func refusedAt(pointer string, err error) error {
	if err == nil {
		return nil
	}
	return invalidRequest(pointer, err.Error())
}

// decodeLabels decodes labels, of which there are few.
func decodeLabels(decoder *jsontext.Decoder, labels *api.Labels) error {
	if decoder.PeekKind() != '{' {
		return errors.ErrUnsupported
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err //nolint:wrapcheck // The decoder looks at it.
	}
	*labels = api.Labels{}
	for decoder.PeekKind() != '}' {
		if len(*labels) == coordinator.MaxLabels {
			return coordinator.ErrLimitExceeded("labels", coordinator.MaxLabels, fmt.Sprintf("The body has more than %d labels", coordinator.MaxLabels))
		}
		var name, value string
		if err := json.UnmarshalDecode(decoder, &name); err != nil {
			return err //nolint:wrapcheck // As above.
		}
		if err := json.UnmarshalDecode(decoder, &value); err != nil {
			return err //nolint:wrapcheck // As above.
		}
		if err := coordinator.RefusedAt(shortPointer(decoder.StackPointer()), coordinator.CheckLabel(name, value)); err != nil {
			return err
		}
		(*labels)[name] = value
	}
	_, err := decoder.ReadToken()
	return err //nolint:wrapcheck // As above.
}

// structureBytes is about what a decoder takes in memory for each name of a JSON object, beside the
// text itself: to know names that come twice, and for what is made of them.
const structureBytes = 128

// structure is what decoding a JSON text takes beside the text: by the colons in it, one a name, of
// which strings have few. Elements of arrays take nothing that lasts: those of lists are bounded while they
// are decoded, and values are kept as text. No text is taken for more than most, or one that is
// large and right would never find room.
func structure(raw []byte, most int64) int64 {
	return min(structureBytes*int64(bytes.Count(raw, []byte{':'})), most)
}
