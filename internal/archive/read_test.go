package archive_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/checkpointd/checkpointd/internal/archive"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Lines of an export with one checkpoint: the head, the record, two tasks, and the restore.
const (
	head   = `{"type":"job","format":1,"job":"orders","nextCheckpointId":8,"epoch":2}`
	shared = `{"key":"s","value":1}` + "\n"
	part   = `{"taskId":"a","key":"k","value":{"p0":11}}` + "\n"
)

func record(snapshot string) string {
	return `{"type":"checkpoint","checkpointId":7,"epoch":2,"status":"completed","revision":3,"timestamp":1,"start":1,"timeoutMs":60000,"endedAt":2,` +
		`"requiredTaskAcks":2,"namedTasks":true,"acknowledgedTasks":1,"missingTasks":1,"snapshot":` + snapshot + `}`
}

// failed is the record of a checkpoint that has not completed.
func failed(status, failure string) string {
	return `{"type":"checkpoint","checkpointId":7,"epoch":2,"status":` + status + `,"revision":3,"timestamp":1,"start":1,"timeoutMs":60000,"endedAt":2,` +
		`"requiredTaskAcks":2,"acknowledgedTasks":0,"failure":` + failure + `}`
}

func sound() []string {
	manifest := fmt.Sprintf("%s %d 1 -\n%s %d 1 a\n", digest(shared)[7:], len(shared), digest(part)[7:], len(part))
	snapshot := fmt.Sprintf(`{"version":1,"entries":2,"bytes":%d,"digest":"%s","sharedEntries":1,"sharedBytes":%d,"sharedRevision":1}`,
		len(shared)+len(part), digest(manifest), len(shared))
	return []string{
		head, record(snapshot),
		fmt.Sprintf(`{"type":"task","taskId":"a","status":"acknowledged","attempt":3,"acknowledgedAt":2,"entries":1,"bytes":%d,"digest":"%s"}`, len(part), digest(part)),
		`{"type":"task","taskId":"b","status":"missing"}`,
		strings.TrimSuffix(shared, "\n"), strings.TrimSuffix(part, "\n"),
	}
}

// ended puts the last line behind lines, as it should be.
func ended(checkpoints int, lines ...string) string {
	text := strings.Join(lines, "\n") + "\n"
	return text + fmt.Sprintf(`{"type":"end","checkpoints":%d,"lines":%d,"bytes":%d,"digest":"%s"}`, checkpoints, len(lines), len(text), digest(text)) + "\n"
}

func read(t *testing.T, text string) (*archive.Archive, error) {
	t.Helper()
	a, err := archive.Read(strings.NewReader(text), 1<<20, t.TempDir(), nil)
	if err == nil {
		t.Cleanup(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return a, err
}

func TestAnExportIsReadBack(t *testing.T) {
	t.Parallel()
	a, err := read(t, ended(1, sound()...))
	if err != nil {
		t.Fatal(err)
	}
	if a.Len() != 1 || a.Job().NextID != 8 || a.Attempts()["a"] != 3 {
		t.Errorf("%d checkpoints, %+v, %v", a.Len(), a.Job(), a.Attempts())
	}
	cp, err := a.Checkpoint(0)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(cp.Part(0))
	if err != nil || string(content) != part {
		t.Errorf("the part is %q, %v", content, err)
	}
	if len(cp.Shared) != 1 || string(cp.Shared[0].Value) != "1" || len(cp.Tasks) != 2 || cp.Tasks[1].Ack != nil {
		t.Errorf("%+v", cp)
	}
}

func TestWhatIsNotAWholeExportIsRefusedAtItsLine(t *testing.T) {
	t.Parallel()
	altered := func(line int, old, changed string) string {
		lines := sound()
		if !strings.Contains(lines[line], old) {
			t.Fatalf("line %d has no %s", line, old)
		}
		lines[line] = strings.Replace(lines[line], old, changed, 1)
		return ended(1, lines...)
	}
	whole := ended(1, sound()...)
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"nothing":                             {"", 1},
		"no last line":                        {strings.Join(sound(), "\n") + "\n", 7},
		"cut off in a line":                   {whole[:len(whole)-1], 7},
		"cut off in a part":                   {strings.Join(sound()[:5], "\n") + "\n", 6},
		"more behind the end":                 {whole + "\n", 8},
		"two of the same":                     {ended(2, append(sound(), sound()[1:]...)...), 9},
		"one at the next id":                  {altered(0, `"nextCheckpointId":8`, `"nextCheckpointId":7`), 4},
		"no head":                             {ended(1, sound()[1:]...), 1},
		"a member that is not known":          {altered(0, `"epoch":2`, `"epoch":2,"more":1`), 1},
		"a member twice":                      {altered(0, `"epoch":2`, `"epoch":2,"epoch":2`), 1},
		"a negative epoch":                    {altered(0, `"epoch":2`, `"epoch":-2`), 1},
		"a pending checkpoint":                {altered(1, `"completed"`, `"pending"`), 2},
		"one that failed with a snapshot":     {altered(1, `"completed"`, `"aborted"`), 2},
		"an epoch above the job's":            {altered(1, `"epoch":2`, `"epoch":3`), 2},
		"a revision that leaves no room":      {altered(1, `"revision":3`, `"revision":9007199254740991`), 2},
		"a shared revision without room":      {altered(1, `"sharedRevision":1`, `"sharedRevision":9007199254740991`), 2},
		"a label without a name":              {altered(1, `"namedTasks":true,`, `"namedTasks":true,"labels":{"":"x"},`), 2},
		"a label with a long name":            {altered(1, `"namedTasks":true,`, `"namedTasks":true,"labels":{"`+strings.Repeat("x", 4000)+`":"x"},`), 2},
		"other tasks than were required":      {altered(1, `"requiredTaskAcks":2`, `"requiredTaskAcks":3`), 2},
		"a reason that nobody gives":          {ended(1, head, failed(`"aborted"`, `{"reason":"sunspots"}`)), 2},
		"a reason of another status":          {ended(1, head, failed(`"aborted"`, `{"reason":"expired"}`)), 2},
		"a NUL in the task that declined":     {ended(1, head, failed(`"aborted"`, `{"reason":"declined","taskId":"a\u0000"}`)), 2},
		"a task that nobody declined for":     {ended(1, head, failed(`"aborted"`, `{"reason":"aborted","taskId":"a"}`)), 2},
		"a message of 900 kB":                 {ended(1, head, failed(`"aborted"`, `{"reason":"aborted","message":"`+strings.Repeat("x", 900_000)+`"}`)), 2},
		"a job that no job is called":         {altered(0, `"orders"`, `"../orders"`), 1},
		"settings that no PUT takes":          {altered(0, `"epoch":2`, `"epoch":2,"settings":{"maxConcurrentCheckpoints":0}`), 1},
		"a NUL in a task of the settings":     {altered(0, `"epoch":2`, `"epoch":2,"settings":{"tasks":["a\u0000"]}`), 1},
		"an id out of range":                  {altered(1, `"checkpointId":7`, `"checkpointId":9007199254740992`), 2},
		"nobody required":                     {altered(1, `"requiredTaskAcks":2`, `"requiredTaskAcks":0`), 2},
		"missing tasks that nobody named":     {altered(1, `"namedTasks":true,`, ``), 2},
		"a task too many":                     {altered(1, `"missingTasks":1`, `"missingTasks":2`), 2},
		"a missing one that has acknowledged": {altered(3, `"missing"`, `"acknowledged"`), 4},
		"tasks that are not in order":         {altered(3, `"b"`, `"A"`), 4},
		"a name that no task has":             {altered(3, `"b"`, `"."`), 4},
		"another digest of a part":            {altered(2, digest(part), digest("x")), 6},
		"another value in a part":             {altered(5, "11", "12"), 6},
		"white space in a part":               {altered(5, `{"p0":11}`, `{"p0":11`), 6},
		"another task's part":                 {altered(5, `"taskId":"a"`, `"taskId":"b"`), 6},
		"another shared value":                {altered(4, `"value":1`, `"value":2`), 6},
		"another digest of the snapshot":      {altered(1, `"sharedRevision":1`, `"sharedRevision":-1`), 2},
		"other counts at the end":             {strings.Replace(whole, `"checkpoints":1`, `"checkpoints":2`, 1), 7},
		"another digest at the end":           {strings.Replace(whole, `"lines":6`, `"lines":7`, 1), 7},
		"a changed head under the same end":   {strings.Replace(whole, `"epoch":2}`, `"epoch":3}`, 1), 7},
	} {
		_, err := read(t, c.text)
		refused, is := errors.AsType[*coordinator.Error](err)
		if !is || refused.Code != coordinator.CodeInvalidRequest || len(refused.Fields) != 1 || refused.Fields[0].Line != c.line {
			t.Errorf("%s: %v, want a refusal of line %d", name, fields(err), c.line)
		}
	}
}

// fields shows what a refusal says.
func fields(err error) string {
	if refused, is := errors.AsType[*coordinator.Error](err); is {
		return fmt.Sprintf("%s %+v", refused.Code, refused.Fields)
	}
	return fmt.Sprint(err)
}

func TestOtherVersionsAreRefusedAsSuch(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Replace(ended(1, sound()...), `"format":1`, `"format":2`, 1),
		strings.Replace(ended(1, sound()...), `"version":1`, `"version":2`, 1),
	} {
		if _, err := read(t, text); coordinator.CodeOf(err) != coordinator.CodeUnsupportedVersion {
			t.Errorf("%v", err)
		}
	}
}

// Whatever comes in is refused, or is read back whole.
func FuzzAnExportIsReadStrictlyOrRefused(f *testing.F) {
	f.Add(ended(1, sound()...))
	f.Add(ended(0, head))
	f.Add(strings.Join(slices.Concat(sound(), sound()), "\n"))
	f.Fuzz(func(t *testing.T, text string) {
		a, err := archive.Read(strings.NewReader(text), 1<<20, t.TempDir(), nil)
		if err != nil {
			if _, is := errors.AsType[*coordinator.Error](err); !is {
				t.Fatalf("refused with %T: %v", err, err)
			}
			return
		}
		defer a.Close()
		for number := range a.Len() {
			cp, err := a.Checkpoint(number)
			if err != nil {
				t.Fatalf("checkpoint %d of what was read: %v", number, err)
			}
			for i, task := range cp.Tasks {
				if task.Ack == nil || cp.Part == nil {
					continue
				}
				if n, err := io.Copy(io.Discard, cp.Part(i)); err != nil || n != task.Ack.Part.Bytes {
					t.Fatalf("part %d of checkpoint %d has %d bytes, %v", i, number, n, err)
				}
			}
		}
	})
}

// endless gives the text and then brackets without end, and counts.
type endless struct {
	begin string
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.begin)
	e.begin = e.begin[n:]
	for i := n; i < len(p); i++ {
		p[i] = '['
	}
	e.read += len(p)
	return len(p), nil
}

func TestWhatIsNoExportIsRefusedWhereThatShows(t *testing.T) {
	t.Parallel()
	body := new(endless)
	if _, err := archive.Read(body, 1<<20, t.TempDir(), nil); err == nil || body.read > 1<<20 {
		t.Errorf("%v, after %d bytes", err, body.read)
	}
	broken := errors.New("broken")
	whole := strings.Join(sound(), "\n")
	for cut := range len(whole) { // in a line, between two, in a part
		body := io.MultiReader(strings.NewReader(whole[:cut]), iotest.ErrReader(broken))
		if _, err := archive.Read(body, 1<<20, t.TempDir(), nil); !errors.Is(err, broken) {
			t.Fatalf("a body that breaks off after %d bytes is told as %v", cut, err)
		}
	}
}

func TestMemoryForALongLineIsAskedForBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	body, asked := &endless{begin: `{"type":"job","x":`}, 0
	enough := errors.New("enough")
	_, err := archive.Read(body, 1<<20, t.TempDir(), func(bytes int) error {
		if asked += bytes; asked > 8<<20 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || body.read > asked || asked > 16<<20 {
		t.Errorf("%v, after %d bytes for %d that were asked for", err, body.read, asked)
	}
}
