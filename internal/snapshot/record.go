package snapshot

import (
	"cmp"
	"slices"
)

// keyRecord is the fingerprint of a key and the place of its line.
type keyRecord struct {
	fingerprint uint64
	offset      int64
	line        int64
}

// recordSize is the length of a keyRecord, in memory and in the file.
const recordSize = 24

// compareRecords orders by fingerprint and then by place, so that of two equal
// ones the earlier line comes first.
func compareRecords(a, b keyRecord) int {
	if c := cmp.Compare(a.fingerprint, b.fingerprint); c != 0 {
		return c
	}
	return cmp.Compare(a.offset, b.offset)
}

// topByte is the shift of a fingerprint's highest byte.
const topByte = 56

// sortRecords sorts records whose fingerprints agree in the bytes above shift.
// Fingerprints are evenly spread, so dealing records into buckets by a byte at
// a time, in place, takes half the time of comparing them; what is left in a
// small bucket, or has no byte left to tell it apart, is compared.
func sortRecords(records []keyRecord, shift int) {
	const fewRecords = 64
	if len(records) <= fewRecords || shift < 0 {
		slices.SortFunc(records, compareRecords)
		return
	}
	bucket := func(i int) byte { return byte(records[i].fingerprint >> shift) }
	var next, end [256]int
	for i := range records {
		end[bucket(i)]++
	}
	sum := 0
	for b := range end {
		next[b] = sum
		sum += end[b]
		end[b] = sum
	}
	for b := range next {
		for next[b] < end[b] {
			// Swap what is here to where it belongs, until it belongs here.
			at := next[b]
			for to := bucket(at); int(to) != b; to = bucket(at) {
				records[at], records[next[to]] = records[next[to]], records[at]
				next[to]++
			}
			next[b]++
		}
	}
	start := 0
	for _, stop := range end {
		sortRecords(records[start:stop], shift-8)
		start = stop
	}
}
