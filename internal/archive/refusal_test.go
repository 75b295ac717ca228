package archive_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/archive"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestCountersThatLeaveNoRoomAreRefusedByTheirName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nextCheckpointId", "epoch"} {
		for number, refused := range map[string]bool{
			"-1": true, "9007199254740991": true, fmt.Sprint(coordinator.MaxTakenCounter + 1): true, "1e30": true, "9223372036854775808": true,
			fmt.Sprint(coordinator.MaxTakenCounter): false,
		} {
			counters := map[string]string{"nextCheckpointId": "8", "epoch": "2"}
			counters[name] = number
			_, err := read(t, ended(0, fmt.Sprintf(`{"type":"job","format":1,"job":"orders","nextCheckpointId":%s,"epoch":%s}`, counters["nextCheckpointId"], counters["epoch"])))
			said, is := errors.AsType[*coordinator.Error](err)
			if is != refused {
				t.Errorf("%s of %s: %v", name, number, err)
				continue
			}
			if is && (said.Code != coordinator.CodeInvalidRequest || len(said.Fields) != 1 || said.Fields[0].Line != 1 || !strings.Contains(said.Fields[0].Detail, name)) {
				t.Errorf("%s of %s: %v %+v", name, number, said, said.Fields)
			}
		}
	}
}

func TestAMissingFolderForTemporaryFilesIsNamedByItsVariable(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "gone")
	_, err := archive.Read(strings.NewReader(head), 1<<20, folder, nil)
	said, is := errors.AsType[*coordinator.Error](err)
	if !is || said.Code != coordinator.CodeStoreFull || !strings.Contains(said.Detail, "TMPDIR") || strings.Contains(said.Detail, folder) {
		t.Errorf("got %v", err)
	}
}
