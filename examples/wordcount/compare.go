package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// count is what a plain loop over the text comes to: what every trial must come to.
func count(words text) (*outcome, error) {
	result, tallies := &outcome{output: map[string][]byte{}}, map[string]*tally{}
	for name, lines := range words {
		t := newTally()
		for _, line := range lines {
			result.output[name] = append(result.output[name], t.add(name, line+"\n")...)
		}
		tallies[name] = t
	}
	var lines [][]byte
	for entry, err := range entries(tallies) {
		if err != nil {
			return nil, err
		}
		lines = append(lines, stateLine(entry.Key, entry.Value))
	}
	result.state = canonical(lines)
	return result, nil
}

// differ tells where an outcome is another one than it must be, nil when it is the same byte by
// byte.
func differ(got, want *outcome) error {
	if err := differText("the state", got.state, want.state); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want.output)) {
		if err := differText("the output of "+name, got.output[name], want.output[name]); err != nil {
			return err
		}
	}
	if len(got.output) != len(want.output) {
		return fmt.Errorf("there is output of %d partitions instead of %d", len(got.output), len(want.output))
	}
	return nil
}

// differText names the first line at which two texts part.
func differText(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	gotLines, wantLines := slices.Collect(bytes.Lines(got)), slices.Collect(bytes.Lines(want))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			return fmt.Errorf("line %d of %s is %q instead of %q", i+1, what, gotLines[i], wantLines[i])
		}
	}
	return fmt.Errorf("%s has %d lines instead of %d", what, len(gotLines), len(wantLines))
}
