package snapshot

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSortRecordsSortsAsComparisonDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Masks make records agree in some bytes, or in all.
		mask := rapid.SampledFrom([]uint64{0, 0xff, 3 << topByte, 0x0100_0000_0000_00ff, 1<<64 - 1}).Draw(t, "mask")
		seed := rapid.Uint64().Draw(t, "seed")
		records := make([]keyRecord, rapid.SampledFrom([]int{0, 1, 2, 64, 65, 500, 5000}).Draw(t, "count"))
		for i := range records {
			seed = seed*6364136223846793005 + 1442695040888963407
			records[i] = keyRecord{fingerprint: (seed ^ seed>>29) & mask, offset: int64(seed >> 50), line: int64(i)}
		}
		// Two records never have the same place.
		for i := range records {
			records[i].offset = records[i].offset<<16 | int64(i)
		}
		want := slices.Clone(records)
		slices.SortFunc(want, compareRecords)
		sortRecords(records, topByte)
		if !slices.Equal(records, want) {
			t.Fatalf("sorted otherwise (-want +got):\n%s", cmp.Diff(want, records, cmp.AllowUnexported(keyRecord{})))
		}
	})
}
