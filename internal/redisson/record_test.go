package redisson_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/redisson"
)

const (
	checkpointClass = "io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint"
	snapshotClass   = checkpointClass + "$StateSnapshotImpl"
)

// written is a record as the codec writes it. state are the members of the map.
func written(id int64, completed bool, version, state string) string {
	if version != "" {
		version = `"snapshotVersion":` + version + `,`
	}
	if state != "" {
		state = "," + state
	}
	return fmt.Sprintf(`{"@class":%q,"checkpointId":%d,"completed":%t,%s"stateSnapshot":{"@class":%q,"stateMap":{"@class":"java.util.HashMap"%s}},"timestamp":1700000000123}`,
		checkpointClass, id, completed, version, snapshotClass, state)
}

func TestARecordIsReadWithItsState(t *testing.T) {
	t.Parallel()
	state := `"offsets":{"@class":"java.util.HashMap","p0":["java.lang.Long",11]},"count":1000,"blob":["[B","AQID"]`
	entries := []coordinator.SharedEntry{
		{Key: "blob", Value: []byte(`"AQID"`)},
		{Key: "count", Value: []byte(`1000`)},
		{Key: "offsets", Value: []byte(`{"p0":11}`)},
	}
	for name, c := range map[string]struct {
		id   int64
		raw  string
		want redisson.Record
	}{
		"of version 1":      {7, written(7, true, "1", state), redisson.Record{ID: 7, Version: 1, Completed: true, Timestamp: 1700000000123, State: entries}},
		"of version 0":      {7, written(7, true, "", state), redisson.Record{ID: 7, Completed: true, Timestamp: 1700000000123, State: entries}},
		"0 written":         {7, written(7, true, "0", state), redisson.Record{ID: 7, Completed: true, Timestamp: 1700000000123, State: entries}},
		"of a newer one":    {7, written(7, true, "9", ""), redisson.Record{ID: 7, Version: 9, Completed: true, Timestamp: 1700000000123, State: []coordinator.SharedEntry{}}},
		"incomplete":        {0, written(0, false, "1", ""), redisson.Record{Version: 1, Timestamp: 1700000000123, State: []coordinator.SharedEntry{}}},
		"with a class only": {0, `{"@class":"` + checkpointClass + `"}`, redisson.Record{}},
		"of a moved class":  {0, `{"@class":"shaded.DefaultCheckpoint"}`, redisson.Record{}},
		"with nulls":        {0, `{"@class":"` + checkpointClass + `","stateSnapshot":null}`, redisson.Record{}},
		"without a map":     {0, `{"@class":"` + checkpointClass + `","stateSnapshot":{"@class":"` + snapshotClass + `"}}`, redisson.Record{}},
		"with more fields":  {3, `{"@class":"` + checkpointClass + `","checkpointId":3,"later":{"@class":"x.Y","z":[1]}}`, redisson.Record{ID: 3}},
		"with a named long": {3, `{"@class":"` + checkpointClass + `","checkpointId":["java.lang.Long",3]}`, redisson.Record{ID: 3}},
	} {
		got, err := redisson.Parse(c.id, []byte(c.raw))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// kryo is how Kryo begins a value of a class that is not registered.
func kryo(class string) string {
	last := len(class) - 1
	return "\x01\x00" + class[:last] + string([]byte{class[last] | 0x80}) + "\x01\x07\x00\x02rest"
}

func TestWhatCannotBeReadIsNamedAndNotGuessedAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw        string
		code       redisson.Code
		checkpoint bool
	}{
		"Kryo":                         {kryo(checkpointClass), redisson.KryoEncoded, true},
		"Kryo of another class":        {kryo("com.acme.Order"), redisson.KryoEncoded, false},
		"Kryo without an end":          {"\x01\x00" + strings.Repeat("a", 300), redisson.UnknownEncoding, false},
		"bytes like Kryo's":            {"\x01\x00\x05\xf4", redisson.UnknownEncoding, false},
		"the stream of Java itself":    {"\xac\xed\x00\x05sr", redisson.UnknownEncoding, false},
		"nothing":                      {"", redisson.UnknownEncoding, false},
		"a number":                     {"7", redisson.UnknownEncoding, false},
		"an array":                     {`["java.lang.Long",7]`, redisson.UnknownEncoding, false},
		"an object without a class":    {`{"checkpointId":7}`, redisson.OtherClass, false},
		"an object of another class":   {`{"@class":"com.acme.Order","checkpointId":7}`, redisson.OtherClass, false},
		"a class that is no name":      {`{"@class":7}`, redisson.OtherClass, false},
		"a record that is cut off":     {written(7, true, "1", "")[:120], redisson.InvalidJSON, true},
		"another's text that is":       {`{"a":`, redisson.InvalidJSON, false},
		"a key named @class":           {written(7, true, "1", `"@class":"mine"`), redisson.InvalidJSON, true},
		"another id":                   {written(8, true, "1", ""), redisson.OtherID, true},
		"an id that is no number":      {`{"@class":"x.DefaultCheckpoint","checkpointId":"seven"}`, redisson.UnexpectedShape, true},
		"an id with a fraction":        {`{"@class":"x.DefaultCheckpoint","checkpointId":7.5}`, redisson.UnexpectedShape, true},
		"a version below 0":            {written(7, true, "-1", ""), redisson.UnexpectedShape, true},
		"a time before 1970":           {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"timestamp":-1}`, redisson.UnexpectedShape, true},
		"a state that is no object":    {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"stateSnapshot":[1]}`, redisson.UnexpectedShape, true},
		"a map that is none":           {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"stateSnapshot":{"stateMap":5}}`, redisson.UnexpectedShape, true},
		"completed without a state":    {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"completed":true}`, redisson.UnexpectedShape, true},
		"completed with a null state":  {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"completed":true,"stateSnapshot":null}`, redisson.UnexpectedShape, true},
		"completed without a map":      {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"completed":true,"stateSnapshot":{"@class":"y"}}`, redisson.UnexpectedShape, true},
		"completed with a null map":    {`{"@class":"x.DefaultCheckpoint","checkpointId":7,"completed":true,"stateSnapshot":{"stateMap":null}}`, redisson.UnexpectedShape, true},
		"a value of no known shape":    {written(7, true, "1", `"a":["x.Y",[1],2]`), redisson.UnexpectedShape, true},
		"an empty key":                 {written(7, true, "1", `"":1`), redisson.UnusableKey, true},
		"a key that is too long":       {written(7, true, "1", `"`+strings.Repeat("k", 1025)+`":1`), redisson.UnusableKey, true},
		"too many keys":                {written(7, true, "1", keys(coordinator.MaxSharedKeys+1)), redisson.TooLarge, true},
		"too much":                     {written(7, true, "1", `"a":"`+strings.Repeat("x", coordinator.MaxSharedBytes)+`"`), redisson.TooLarge, true},
		"more than anybody looks into": {strings.Repeat(" ", redisson.MaxBytes+1), redisson.TooLarge, false},
	} {
		got, err := redisson.Parse(7, []byte(c.raw))
		refused, is := errors.AsType[*redisson.UnreadableError](err)
		if !is || refused.Code != c.code || refused.Checkpoint != c.checkpoint {
			t.Errorf("%s: %v, %v; want %s (a checkpoint: %t)", name, got, err, c.code, c.checkpoint)
		}
	}
	if got, err := redisson.Parse(7, []byte(written(7, true, "1", keys(coordinator.MaxSharedKeys)))); err != nil || len(got.State) != coordinator.MaxSharedKeys {
		t.Errorf("as many keys as there may be: %d, %v", len(got.State), err)
	}
}

func keys(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}
