package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/worker"
)

// place is how far a partition has been read.
type place struct {
	// Line is the number of lines that were read, Byte where the next one begins.
	Line int64 `json:"line"`
	Byte int64 `json:"byte"`
	// Words is the number of words in them.
	Words int64 `json:"words"`
}

// tally is the state of a partition: the place, and how often each word came before it.
type tally struct {
	place

	counts map[string]int64
}

func newTally() *tally { return &tally{counts: make(map[string]int64)} }

// add counts a line, which has its end, and gives the record that goes to the sink: a line that
// was lost or counted twice shows in the number of every record after it.
func (t *tally) add(partition, line string) (record string) {
	before := t.Words
	for word := range words(line) {
		t.counts[word]++
		t.Words++
	}
	t.Line++
	t.Byte += int64(len(line))
	return fmt.Sprintf("%s line %d has %d words of %d\n", partition, t.Line, t.Words-before, t.Words)
}

// clone is a tally that does not change any more.
func (t *tally) clone() *tally { return &tally{place: t.place, counts: maps.Clone(t.counts)} }

// A key is the partition's name, a slash, and placeKey or wordPrefix and a word.
const (
	placeKey   = "place"
	wordPrefix = "word/"
)

// partitionOf is what keeps the entries of a partition together, whatever the fleet's size.
func partitionOf(key string) string {
	partition, _, _ := strings.Cut(key, "/")
	return partition
}

// entries hands the tallies in, partition by partition.
func entries(tallies map[string]*tally) worker.Entries {
	return func(yield func(worker.Entry, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(tallies)) {
			t := tallies[name]
			if !yield(worker.Encode(name+"/"+placeKey, t.place)) {
				return
			}
			for entry, err := range worker.FromMap(t.counts) {
				entry.Key = name + "/" + wordPrefix + entry.Key
				if !yield(entry, err) {
					return
				}
			}
		}
	}
}

// put takes an entry back that was handed in.
func (t *tally) put(entry worker.Entry) error {
	_, key, _ := strings.Cut(entry.Key, "/")
	if key == placeKey {
		if err := json.Unmarshal(entry.Value, &t.place); err != nil {
			return fmt.Errorf("decoding the value of %q: %w", entry.Key, err)
		}
		return nil
	}
	word, is := strings.CutPrefix(key, wordPrefix)
	if _, twice := t.counts[word]; !is || twice {
		return fmt.Errorf("the key %q is unknown, or came twice", entry.Key)
	}
	var count int64
	if err := json.Unmarshal(entry.Value, &count); err != nil {
		return fmt.Errorf("decoding the value of %q: %w", entry.Key, err)
	}
	t.counts[word] = count
	return nil
}
