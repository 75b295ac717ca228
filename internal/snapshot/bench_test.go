package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// bodies are uploads of about 8 MiB each.
func bodies() map[string][]byte {
	lines := func(format string, args ...any) []byte {
		var b bytes.Buffer
		for i := 0; b.Len() < 8<<20; i++ {
			fmt.Fprintf(&b, format, append([]any{i}, args...)...)
		}
		return b.Bytes()
	}
	return map[string][]byte{
		"small":  lines(`{"key":"user-%d","value":{"count":12,"sum":3.25,"last":"2026-11-29T19:02:11Z","tags":["a","b"],"open":true}}` + "\n"),
		"spaced": lines(`{"key": "user-%d", "value": {"count": 12, "sum": 3.25, "last": "2026-11-29T19:02:11Z", "tags": ["a", "b"], "open": true}}` + "\n"),
		"base64": lines(`{"key":"blob-%d","value":"%s"}`+"\n", strings.Repeat("QUJDRA09", 12_500)),
		"cjk":    lines(`{"key":"text-%d","value":"%s"}`+"\n", strings.Repeat("検査点", 100)),
	}
}

// BenchmarkUpload is the whole way of an upload: lines, keys, part.
func BenchmarkUpload(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				upload(b, body)
			}
		})
	}
}

func upload(b *testing.B, body []byte) {
	b.Helper()
	lines := snapshot.NewLineReader(bytes.NewReader(body), "task-1", snapshot.MaxValue)
	keys := snapshot.NewKeySet(b.TempDir())
	defer keys.Close()
	part := snapshot.NewPartWriter("task-1", 1<<40, func(int, []byte) error { return nil })
	for {
		entry, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := keys.Add(entry.Key, part.Bytes(), entry.Line); err != nil {
			b.Fatal(err)
		}
		if err := part.Add(entry.Key, entry.Value); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := part.Finish(); err != nil {
		b.Fatal(err)
	}
	if err := keys.Finish(nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLineReader is the strict reading alone.
func BenchmarkLineReader(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				lines := snapshot.NewLineReader(bytes.NewReader(body), "task-1", snapshot.MaxValue)
				for {
					if _, err := lines.Next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkKeySet adds two million keys, which spill into twelve runs.
func BenchmarkKeySet(b *testing.B) {
	const keys = 2_000_000
	b.ReportAllocs()
	for b.Loop() {
		set := snapshot.NewKeySet(b.TempDir())
		var key [16]byte
		for i := range keys {
			binary.LittleEndian.PutUint64(key[:], uint64(i))
			if err := set.Add(key[:], int64(i)*40, i+1); err != nil {
				b.Fatal(err)
			}
		}
		if err := set.Finish(nil); err != nil {
			b.Fatal(err)
		}
		if err := set.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
