package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// codec turns the payload of one kind of source into entries and back.
type codec interface {
	encode(payload any) iter.Seq2[Entry, error]
	decoder() decoder
	// keyed tells whether there is an entry a key, or a single one.
	keyed() bool
}

// decoder makes a payload of entries, one after the other.
type decoder interface {
	add(e Entry) error
	payload() (any, error)
}

func decode(c codec, entries stored) (any, error) {
	d := c.decoder()
	for _, e := range entries {
		if err := d.add(e); err != nil {
			return nil, err
		}
	}
	return d.payload()
}

// stored is the payload of a checkpoint that came from elsewhere: nobody knows its type
// before a source of its name is registered.
type stored []Entry

func (s stored) all(yield func(Entry, error) bool) {
	for _, e := range s {
		if !yield(e, nil) {
			return
		}
	}
}

// into reads a payload without its source: a single value, or the entries as a map.
func (s stored) into(target any) error {
	if len(s) == 1 && s[0].Key == "" {
		return unmarshal(s[0].Value, target)
	}
	object := make(map[string]json.RawMessage, len(s))
	for _, e := range s {
		object[e.Key] = e.Value
	}
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("join the entries: %w", err)
	}
	return unmarshal(text, target)
}

func unmarshal(text []byte, target any) error {
	if err := json.Unmarshal(text, target); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// storedCodec hands entries on as they are.
type storedCodec struct{}

func (storedCodec) encode(payload any) iter.Seq2[Entry, error] {
	s, _ := payload.(stored)
	return s.all
}

func (storedCodec) decoder() decoder { return new(storedDecoder) }

type storedDecoder struct{ entries stored }

func (d *storedDecoder) add(e Entry) error {
	d.entries = append(d.entries, e)
	return nil
}

func (d *storedDecoder) payload() (any, error) { return d.entries, nil }

func (storedCodec) keyed() bool { return true } // unless it looks otherwise

// valueCodec keeps a payload in one entry.
type valueCodec[P any] struct{}

func (valueCodec[P]) encode(payload any) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		text, err := json.Marshal(payload)
		if err != nil {
			yield(Entry{}, fmt.Errorf("encode: %w", err))
			return
		}
		yield(Entry{Value: text}, nil)
	}
}

func (valueCodec[P]) decoder() decoder { return new(valueDecoder[P]) }

type valueDecoder[P any] struct {
	value P
	seen  bool
}

var errNoSingle = errors.New("decode: want a single entry with an empty key")

func (d *valueDecoder[P]) add(e Entry) error {
	if d.seen || e.Key != "" {
		return errNoSingle
	}
	d.seen = true
	return unmarshal(e.Value, &d.value)
}

func (d *valueDecoder[P]) payload() (any, error) {
	if !d.seen {
		return nil, errNoSingle
	}
	return d.value, nil
}

func (valueCodec[P]) keyed() bool { return false }

// keyedCodec keeps an entry a key.
type keyedCodec[K comparable, V any] struct{ clone func(V) V }

func (keyedCodec[K, V]) keyed() bool { return true }

func (keyedCodec[K, V]) encode(payload any) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		frozen, _ := payload.(frozen[K, V])
		type pair struct {
			text  string
			value V
		}
		pairs := make([]pair, 0, frozen.entries.len())
		for key, value := range frozen.entries.all {
			text, err := keyText(key)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			pairs = append(pairs, pair{text, value})
		}
		slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.text, b.text) })
		for i, p := range pairs {
			if i > 0 && pairs[i-1].text == p.text {
				yield(Entry{}, fmt.Errorf("encode: two keys are spelled %q", p.text))
				return
			}
			value, err := json.Marshal(p.value)
			if err != nil {
				yield(Entry{}, fmt.Errorf("encode the value of %q: %w", p.text, err))
				return
			}
			if !yield(Entry{Key: p.text, Value: value}, nil) {
				return
			}
		}
	}
}

func (c keyedCodec[K, V]) decoder() decoder {
	return &keyedDecoder[K, V]{entries: newTrie[K, V](), clone: c.clone}
}

type keyedDecoder[K comparable, V any] struct {
	entries trie[K, V]
	clone   func(V) V
}

func (d *keyedDecoder[K, V]) add(e Entry) error {
	key, err := parseKey[K](e.Key)
	if err != nil {
		return err
	}
	if _, there := d.entries.get(key); there {
		return fmt.Errorf("decode: the key %q is there twice", e.Key)
	}
	var value V
	if err := unmarshal(e.Value, &value); err != nil {
		return fmt.Errorf("the value of %q: %w", e.Key, err)
	}
	d.entries.set(key, value)
	return nil
}

func (d *keyedDecoder[K, V]) payload() (any, error) {
	return frozen[K, V]{entries: d.entries.freeze(), clone: d.clone}, nil
}
