package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Loader makes a checkpoint of stored entries that come one after the other, as
// [NewCheckpoint] does of those that are there. What a source makes of its entries it makes at
// once if it is registered when the Loader is made, so that a large state is not there
// twice; the entries of others are kept until they are registered. It is for one goroutine.
type Loader struct {
	at      *Checkpoint
	codecs  map[string]codec
	loading map[string]loading
}

type loading struct {
	decoder decoder
	codec   codec
}

// NewLoader returns a loader of a checkpoint for [Coordinator.Adopt] of this coordinator.
func (c *Coordinator) NewLoader(id int64, at time.Time) *Loader {
	l := &Loader{at: &Checkpoint{id: id, at: at}, codecs: map[string]codec{}, loading: map[string]loading{}}
	if c == nil {
		return l
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range c.sources {
		l.codecs[s.name] = s.codec
	}
	return l
}

// Add adds entries of a source, in any order. Without any it notes that the source has
// state in the checkpoint: that of a keyed store without keys, unless entries follow. It
// fails where an entry does not fit the source; the loader is of no use then.
func (l *Loader) Add(source string, entries ...Entry) error {
	into, ok := l.loading[source]
	if !ok {
		into.codec = storedCodec{}
		if known := l.codecs[source]; known != nil {
			into.codec = known
		}
		into.decoder = into.codec.decoder()
		l.loading[source] = into
	}
	for _, e := range entries {
		if err := into.decoder.add(e); err != nil {
			return fmt.Errorf("load %q: %w", source, err)
		}
	}
	return nil
}

// Checkpoint returns what was added. The loader must not be used after that.
func (l *Loader) Checkpoint() (*Checkpoint, error) {
	for name, from := range l.loading {
		value, err := from.decoder.payload()
		if err != nil {
			return nil, fmt.Errorf("load %q: %w", name, err)
		}
		l.at.parts = append(l.at.parts, part{name: name, value: value, codec: from.codec})
	}
	slices.SortFunc(l.at.parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return l.at, nil
}
