package redisson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// MaxBytes is the longest value that [Parse] looks at. Class names make a record longer than
// the state in it, which may have coordinator.MaxSharedBytes.
const MaxBytes = 4 * coordinator.MaxSharedBytes

// Record is a checkpoint of the library.
type Record struct {
	ID int64
	// Version is 0 where the library did not write one yet, 1 later; a newer one is kept as it is.
	Version   int
	Completed bool
	// Timestamp is when it was triggered, Unix ms.
	Timestamp int64
	// State is the map that it carries, as plain JSON and in byte order of the keys.
	State []coordinator.SharedEntry
}

// checkpointClass is the simple name of the class; shading changes the package before it.
const checkpointClass = "DefaultCheckpoint"

// Parse reads the value of a key that ends with id. The error is an [UnreadableError].
func Parse(id int64, raw []byte) (Record, error) {
	if len(raw) > MaxBytes {
		return Record{}, foreign(TooLarge, "the value has more than %d bytes, and is not looked at", MaxBytes)
	}
	if class, is := kryoClass(raw); is {
		e := foreign(KryoEncoded, "Kryo, Redisson's default codec, wrote this %s; have the library write it again with JsonJacksonCodec", class)
		e.Checkpoint = simpleName(class) == checkpointClass
		return Record{}, e
	}
	if !strings.HasPrefix(strings.TrimLeft(string(raw[:min(len(raw), 64)]), " \t\r\n"), "{") {
		return Record{}, foreign(UnknownEncoding, "the value is no JSON object and not of Kryo")
	}
	members, err := snapshot.Object(raw)
	if err != nil {
		e := foreign(InvalidJSON, "%v", err)
		e.Checkpoint = bytes.Contains(raw[:min(len(raw), 256)], []byte(checkpointClass+`"`)) // the class comes first
		return Record{}, e
	}
	fields := make(map[string][]byte, len(members))
	for _, member := range members {
		fields[member.Name] = member.Value
	}
	var class string
	if json.Unmarshal(fields["@class"], &class) != nil || simpleName(class) != checkpointClass {
		return Record{}, foreign(OtherClass, "the object is of class %.100q, not of a %s", class, checkpointClass)
	}
	return parseFields(id, fields)
}

func parseFields(id int64, fields map[string][]byte) (Record, error) {
	var r Record
	version := int64(0)
	for name, into := range map[string]*int64{"checkpointId": &r.ID, "timestamp": &r.Timestamp, "snapshotVersion": &version} {
		if err := scalar(name, fields[name], into); err != nil {
			return Record{}, err
		}
	}
	if err := scalar("completed", fields["completed"], &r.Completed); err != nil {
		return Record{}, err
	}
	if r.ID != id {
		return Record{}, unreadable(OtherID, "the record is that of checkpoint %d", r.ID)
	}
	if version < 0 || version > math.MaxInt32 {
		return Record{}, unreadable(UnexpectedShape, "snapshotVersion is %d", version)
	}
	if r.Timestamp < 0 || r.Timestamp > coordinator.MaxID {
		return Record{}, unreadable(UnexpectedShape, "timestamp is %d", r.Timestamp)
	}
	r.Version = int(version)
	var err error
	r.State, err = parseState(fields["stateSnapshot"])
	if err == nil && r.State == nil && r.Completed {
		// Of an empty state the library writes an empty map: both fields are never null in Java, and what is null
		// it leaves out. So this completed one has lost its state, and must not be restored as empty.
		return Record{}, unreadable(UnexpectedShape, "it is completed and has no stateSnapshot.stateMap")
	}
	return r, err
}

// scalar reads a field that Java has as a number or a boolean. The library leaves nulls out,
// and what is left out reads as zero there.
func scalar[T int64 | bool](name string, raw []byte, into *T) error {
	if raw == nil {
		return nil
	}
	plain, err := Plain(raw)
	if err != nil {
		return err
	}
	if json.Unmarshal(plain, into) != nil {
		return unreadable(UnexpectedShape, "%s is %.100q", name, raw)
	}
	return nil
}

// parseState reads stateSnapshot.stateMap, the map that the library's putState fills. It is nil where there is none.
func parseState(raw []byte) ([]coordinator.SharedEntry, error) {
	for _, name := range []string{"stateSnapshot", "stateMap"} {
		if raw == nil || string(raw) == "null" {
			return nil, nil
		}
		if snapshot.Type(raw) != "object" {
			return nil, unreadable(UnexpectedShape, "%s is %.100q", name, raw)
		}
		if name == "stateMap" {
			break
		}
		members, err := snapshot.Object(raw)
		if err != nil {
			return nil, unreadable(UnexpectedShape, "%s: %v", name, err)
		}
		raw = nil
		for _, member := range members {
			if member.Name == "stateMap" {
				raw = member.Value
			}
		}
	}
	members, err := snapshot.Object(raw)
	if err != nil {
		if wrong, is := errors.AsType[*snapshot.EntryError](err); is {
			return nil, unreadable(UnusableKey, "%s", wrong.Detail)
		}
		return nil, unreadable(InvalidJSON, "stateMap: %v", err)
	}
	if len(members) > 0 && members[0].Name == classMember {
		members = members[1:]
	}
	return plainState(members)
}

func plainState(members []snapshot.Member) ([]coordinator.SharedEntry, error) {
	if len(members) > coordinator.MaxSharedKeys {
		return nil, unreadable(TooLarge, "the state has %d keys; a shared state has at most %d", len(members), coordinator.MaxSharedKeys)
	}
	state := make([]coordinator.SharedEntry, 0, len(members))
	size := 0
	for _, member := range members {
		value, err := Plain(member.Value)
		if err != nil {
			return nil, err
		}
		state = append(state, coordinator.SharedEntry{Key: member.Name, Value: value})
		size += snapshot.EntrySize(snapshot.Shared, member.Name, value)
	}
	if size > coordinator.MaxSharedBytes {
		return nil, unreadable(TooLarge, "the state has %d restore bytes; a shared state has at most %d", size, coordinator.MaxSharedBytes)
	}
	slices.SortFunc(state, func(a, b coordinator.SharedEntry) int { return cmp.Compare(a.Key, b.Key) })
	return state, nil
}

func simpleName(class string) string {
	return class[strings.LastIndexAny(class, ".$")+1:]
}

// kryoClass reads what Kryo begins with where a class is not registered, which is how Redisson
// sets it up: that a name follows (1), which is the first (0), and the name in ASCII, whose last
// byte has the high bit set. Nothing behind it is looked at.
func kryoClass(raw []byte) (class string, is bool) {
	if len(raw) < 3 || raw[0] != 1 || raw[1] != 0 {
		return "", false
	}
	const longest = 256
	for i, b := range raw[2:min(len(raw), longest)] {
		letter := b & 0x7f
		if letter <= ' ' || letter == 0x7f {
			return "", false
		}
		if b != letter {
			return string(raw[2:2+i]) + string(rune(letter)), i > 0
		}
	}
	return "", false
}
