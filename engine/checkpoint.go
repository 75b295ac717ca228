package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Checkpoint is the state of everything that was registered, at one moment between two
// records. It never changes, and it is complete: an incomplete one does not exist.
type Checkpoint struct {
	id    int64
	at    time.Time
	parts []part
}

// part is what one source gave.
type part struct {
	name  string
	value any
	codec codec
}

// Entry is a piece of a source's state as JSON. Any source has a single one, whose key is
// empty, except for a keyed store, which has one for each key. Strings, integers and
// what marshals itself to text are spelled as the keys of a JSON object would be, other
// keys as their JSON.
type Entry struct {
	Key   string
	Value json.RawMessage
}

// NewCheckpoint makes a checkpoint of entries that were stored elsewhere, by the names of
// their sources, to be handed to [Coordinator.Adopt].
func NewCheckpoint(id int64, at time.Time, sources map[string][]Entry) *Checkpoint {
	cp := &Checkpoint{id: id, at: at}
	for name, entries := range sources {
		cp.parts = append(cp.parts, part{name: name, value: stored(slices.Clone(entries)), codec: storedCodec{}})
	}
	slices.SortFunc(cp.parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return cp
}

// ID is the checkpoint's number, from 1.
func (cp *Checkpoint) ID() int64 { return cp.id }

// Time is when the checkpoint was taken.
func (cp *Checkpoint) Time() time.Time { return cp.at }

// Sources are the names of those that have state in the checkpoint, in the order in which
// they were registered.
func (cp *Checkpoint) Sources() []string {
	names := make([]string, len(cp.parts))
	for i, p := range cp.parts {
		names[i] = p.name
	}
	return names
}

// Keyed tells whether a source has its state by keys: a [KeyedStore] does, however many keys
// it has. Of stored entries it says what they look like, and of an unknown source no.
func (cp *Checkpoint) Keyed(source string) bool {
	p, ok := cp.part(source)
	if entries, is := p.value.(stored); is {
		return len(entries) != 1 || entries[0].Key != ""
	}
	return ok && p.codec.keyed()
}

// Entries yields the state of a source as JSON, by ascending keys, to be stored elsewhere;
// there are none for a name that the checkpoint does not have. Encoding happens here, not
// at the cut. It ends at the first value that has no JSON, with its error. A key that is not
// UTF-8 is such an error; in a value, JSON silently replaces what is not by U+FFFD: keep
// such bytes in a []byte.
func (cp *Checkpoint) Entries(source string) iter.Seq2[Entry, error] {
	p, ok := cp.part(source)
	if !ok {
		return func(func(Entry, error) bool) {}
	}
	return p.codec.encode(p.value)
}

func (cp *Checkpoint) part(name string) (part, bool) {
	i := slices.IndexFunc(cp.parts, func(p part) bool { return p.name == name })
	if i < 0 {
		return part{}, false
	}
	return cp.parts[i], true
}

// with is the checkpoint with some parts in another form; itself, if none is. So the entries
// that a large state was made of are not kept beside it.
func (cp *Checkpoint) with(parts ...part) *Checkpoint {
	other := cp
	for _, p := range parts {
		i := slices.IndexFunc(cp.parts, func(has part) bool { return has.name == p.name })
		if _, raw := cp.parts[i].value.(stored); !raw {
			continue
		}
		if other == cp {
			other = &Checkpoint{id: cp.id, at: cp.at, parts: slices.Clone(cp.parts)}
		}
		other.parts[i] = p
	}
	return other
}

// Read returns the state of a source: what its snapshot function returned, or for a
// [KeyedStore] a map[K]V. It fails with [ErrNoSource] when the checkpoint has none, and
// when it is of another type. What it returns is shared with the checkpoint, except for
// such a map: read it only.
func Read[P any](cp *Checkpoint, source string) (P, error) {
	var value P
	p, ok := cp.part(source)
	if !ok {
		return value, fmt.Errorf("read %q of checkpoint %d: %w", source, cp.id, ErrNoSource)
	}
	if entries, ok := p.value.(stored); ok {
		if err := entries.into(&value); err != nil {
			return value, fmt.Errorf("read %q of checkpoint %d: %w", source, cp.id, err)
		}
		return value, nil
	}
	found := p.value
	if keyed, ok := found.(interface{ plain() any }); ok {
		found = keyed.plain()
	}
	value, ok = found.(P)
	if !ok {
		return value, fmt.Errorf("read %q of checkpoint %d: it is a %T, not a %T", source, cp.id, found, value)
	}
	return value, nil
}
