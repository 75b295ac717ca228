package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/engine"
)

// wireKey is the key of an entry of an engine's state, taken apart. Written down it is
//
//	counts/tea   what the keyed store "counts" has for "tea"
//	offsets      the state of the source "offsets", which has no keys
//	/counts      the keyed store "counts" is there and empty; the value is null
//
// where the name of a source has its slashes as %2F and its percent signs as %25. The key
// within the source stays as it is.
type wireKey struct {
	source, key string
	keyed       bool
	empty       bool
}

// keyMax is the longest key that a server takes, in bytes.
const keyMax = 1024

var (
	escapeSource   = strings.NewReplacer("/", "%2F", "%", "%25")
	unescapeSource = strings.NewReplacer("%2F", "/", "%25", "%")
)

func (k wireKey) String() string {
	source := escapeSource.Replace(k.source)
	switch {
	case k.empty:
		return "/" + source
	case k.keyed:
		return source + "/" + k.key
	}
	return source
}

func parseWireKey(text string) (wireKey, error) {
	var k wireKey
	source, empty := strings.CutPrefix(text, "/")
	if k.empty = empty; !empty {
		source, k.key, k.keyed = strings.Cut(text, "/")
	}
	k.source = unescapeSource.Replace(source)
	if k.source == "" || escapeSource.Replace(k.source) != source {
		return k, fmt.Errorf("the key %q is not one of an engine's state", clip(text, 100))
	}
	return k, nil
}

// callbacks sees that there are Snapshot and Restore, those of the engine if there is one.
func (w *Worker) callbacks() error {
	switch {
	case w.Engine == nil && (w.Restore == nil || w.Snapshot == nil):
		return errors.New("worker: Restore and Snapshot, or an Engine, are needed")
	case w.Engine == nil:
		return nil
	case w.Restore != nil || w.Snapshot != nil:
		return errors.New("worker: Restore and Snapshot must be nil where there is an Engine")
	case w.Shared:
		return errors.New("worker: an Engine has no place for shared state: leave Shared out, or restore yourself")
	}
	bridge := bridge{w.Engine}
	w.Snapshot, w.Restore = bridge.snapshot, bridge.restore
	return nil
}

// owns tells whether an entry of a task's part is in this worker's share. With an Engine it
// goes by the key within the source. State without keys cannot be split, so each task comes
// back to its own; that a store was empty is for all to know.
func (w *Worker) owns(entry Entry) bool {
	if w.Share.Of == 0 {
		return true // nothing but its own part is read
	}
	group := entry.Key
	if w.Engine != nil {
		key, err := parseWireKey(entry.Key)
		switch {
		case err != nil || key.empty:
			return true // restore says what is wrong
		case !key.keyed:
			return entry.TaskID == w.TaskID
		}
		group = key.key
	}
	if w.Share.Group != nil {
		group = w.Share.Group(group)
	}
	return w.Share.Owns(group)
}

// bridge is the way between an engine and the entries of a checkpoint.
type bridge struct{ engine *engine.Coordinator }

// snapshot takes the cut. Nothing is encoded before it is sent.
func (b bridge) snapshot(ctx context.Context, _ Checkpoint) (Entries, error) {
	cp, err := b.engine.Trigger(ctx)
	if err != nil {
		return nil, err
	}
	return func(yield func(Entry, error) bool) {
		for _, source := range cp.Sources() {
			if !handOver(cp, source, yield) {
				return
			}
		}
	}, nil
}

// handOver yields what one source has in a checkpoint.
func handOver(cp *engine.Checkpoint, source string, yield func(Entry, error) bool) (more bool) {
	keyed, empty := cp.Keyed(source), true
	for entry, err := range cp.Entries(source) {
		empty = false
		key := wireKey{source: source, key: entry.Key, keyed: keyed}.String()
		switch {
		case err != nil:
			err = fmt.Errorf("the state of %q: %w", source, err)
		case len(key) > keyMax:
			err = fmt.Errorf("the key %q (its first 40 bytes) of %q is too long: with the name of its source it has %d bytes, and %d are possible",
				clip(entry.Key, 40), clip(source, keyMax), len(key), keyMax)
		}
		if !yield(Entry{Key: key, Value: entry.Value}, err) || err != nil {
			return false
		}
	}
	if keyed && empty {
		return yield(Entry{Key: wireKey{source: source, empty: true}.String(), Value: []byte("null")}, nil)
	}
	return true
}

// restore brings the engine back. A fresh start is an empty checkpoint: it leaves everything
// as it is, and a second life of the same coordinator is known by it.
func (b bridge) restore(ctx context.Context, from Checkpoint, entries Entries) error {
	loader, there := b.engine.NewLoader(from.ID, time.Time{}), make(map[string]bool)
	for entry, err := range entries {
		if err != nil {
			return err
		}
		key, err := parseWireKey(entry.Key)
		if err != nil {
			return err
		}
		there[key.source] = true
		part := []engine.Entry{{Key: key.key, Value: entry.Value}}
		if key.empty {
			part = nil
		}
		if err := loader.Add(key.source, part...); err != nil {
			return err
		}
	}
	if b.engine.Restored() != nil {
		// What has no state in the checkpoint would keep that of the former life.
		missing := slices.DeleteFunc(b.engine.Sources(), func(source string) bool { return there[source] })
		if len(missing) > 0 {
			return fmt.Errorf("the engine has had a life before, and the checkpoint has nothing to take its sources %q back to: begin with a new coordinator", missing)
		}
	}
	cp, err := loader.Checkpoint()
	if err != nil {
		return err
	}
	return b.engine.Adopt(ctx, cp)
}
