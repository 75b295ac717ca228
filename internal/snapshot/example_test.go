package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// An upload passes through a LineReader, a KeySet and a PartWriter, line by
// line. The KeySet reads from the stored part only where keys look repeated.
func Example_upload() {
	receive := func(body string) (coordinator.PartInfo, error) {
		var stored bytes.Buffer
		lines := snapshot.NewLineReader(strings.NewReader(body), "task-1", snapshot.MaxValue)
		keys := snapshot.NewKeySet(os.TempDir())
		defer keys.Close()
		part := snapshot.NewPartWriter("task-1", 4<<30, func(_ int, chunk []byte) error {
			_, err := stored.Write(chunk)
			return err
		})
		for {
			entry, err := lines.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return coordinator.PartInfo{}, err
			}
			if err := keys.Add(entry.Key, part.Bytes(), entry.Line); err != nil {
				return coordinator.PartInfo{}, err
			}
			if err := part.Add(entry.Key, entry.Value); err != nil {
				return coordinator.PartInfo{}, err
			}
		}
		done, err := part.Finish()
		if err != nil {
			return coordinator.PartInfo{}, err
		}
		fmt.Print(stored.String())
		return done, keys.Finish(bytes.NewReader(stored.Bytes()))
	}

	part, err := receive(`{"key": "offsets", "value": {"p0": 11, "p1": 22.0}}` + "\n")
	fmt.Println(part.Entries, part.Bytes, part.Digest, err)

	_, err = receive(`{"key":"a","value":1}` + "\n\n" + `{"value":2,"key":"\u0061"}`)
	if duplicate, ok := errors.AsType[*snapshot.DuplicateKeyError](err); ok {
		fmt.Println(duplicate.Line, duplicate.Detail())
	}

	_, err = receive(`{"key":"a","value":{"n":01}}`)
	if syntax, ok := errors.AsType[*snapshot.SyntaxError](err); ok {
		fmt.Println(syntax.Line, syntax.Pointer, syntax.Detail)
	}

	// Output:
	// {"taskId":"task-1","key":"offsets","value":{"p0":11,"p1":22.0}}
	// 1 64 sha256:178f85071b5e84d159da545d5ea320ac66ff43528bafc2a1a68ab4f61372d3b0 <nil>
	// {"taskId":"task-1","key":"a","value":1}
	// {"taskId":"task-1","key":"a","value":2}
	// 3 key "a" was already on line 1
	// 1 /value/n a number must not begin with 0 and go on with digits
}
