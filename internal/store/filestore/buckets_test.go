package filestore

import (
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func TestDescend(t *testing.T) {
	t.Parallel()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	const n = 2000 // many pages
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		if err != nil {
			return err
		}
		for i := range int64(n) {
			if err := b.Put(idKey(i), present); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	collect := func(b *bolt.Bucket, limit []byte) []int64 {
		var got []int64
		for k := range descend(b, limit) {
			got = append(got, idOf(k))
		}
		return got
	}
	// Within one transaction, so that pages are emptied and not yet merged.
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("b"))
		for i := int64(100); i < 1900; i++ {
			if err := b.Delete(idKey(i)); err != nil {
				return err
			}
		}
		var want []int64
		for i := int64(n - 1); i >= 0; i-- {
			if i < 100 || i >= 1900 {
				want = append(want, i)
			}
		}
		if got := collect(b, nil); !slices.Equal(got, want) {
			t.Errorf("from the end: %d ids, want %d", len(got), len(want))
		}
		if got := collect(b, idKey(1500)); !slices.Equal(got, want[100:]) {
			t.Errorf("from a hole: %v, want %v", got, want[100:])
		}
		if got := collect(b, idKey(1950)); !slices.Equal(got, want[50:]) {
			t.Errorf("from the middle: %d ids, want %d", len(got), len(want)-50)
		}
		if got := collect(b, idKey(5000)); !slices.Equal(got, want) {
			t.Errorf("from beyond: %d ids, want %d", len(got), len(want))
		}
		if got := collect(b, idKey(0)); got != nil {
			t.Errorf("below the lowest: %v", got)
		}
		if got := collect(nil, nil); got != nil {
			t.Errorf("of nothing: %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
