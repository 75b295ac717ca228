package processtest

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"strconv"
)

// largePart is a part that is made while it is read, so that a test of a server's memory
// needs none itself.
type largePart struct {
	entries int
	noise   string
}

const (
	largeValueBytes = 1000
	noiseBytes      = 64 << 10
)

// newLargePart gives a part of about so many bytes.
func newLargePart(bytes int64) largePart {
	random := rand.New(rand.NewPCG(1, 2)) // any bytes will do, the same in each run
	noise := make([]byte, noiseBytes)
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"[random.IntN(64)]
	}
	return largePart{entries: max(1, int(bytes/(largeValueBytes+40))), noise: string(noise)}
}

// append adds an entry as a line. task is "" in uploads.
func (l largePart) append(to []byte, task string, entry int) []byte {
	to = append(to, '{')
	if task != "" {
		to = append(append(append(to, `"taskId":"`...), task...), `",`...)
	}
	to = append(to, `"key":"key-`...)
	to = strconv.AppendInt(to, int64(entry), 10)
	to = append(to, `","value":"`...)
	from := entry * 37 % (noiseBytes - largeValueBytes)
	to = append(to, l.noise[from:from+largeValueBytes]...)
	return append(to, "\"}\n"...)
}

// lines reads the part as NDJSON.
func (l largePart) lines(task string) io.Reader { return &largePartReader{largePart: l, task: task} }

// digest is the SHA-256 of the part's bytes in a restore, as a manifest has it.
func (l largePart) digest(task string) (sum string, bytes int64) {
	hashed := sha256.New()
	bytes, _ = io.Copy(hashed, l.lines(task)) // neither can fail
	return hexOf(hashed), bytes
}

func hexOf(sum hash.Hash) string { return fmt.Sprintf("%x", sum.Sum(nil)) }

type largePartReader struct {
	largePart

	task string
	next int
	rest []byte
	line []byte
}

// Read gives some lines.
func (r *largePartReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.next == r.entries {
				break
			}
			r.line = r.append(r.line[:0], r.task, r.next)
			r.rest = r.line
			r.next++
		}
		copied := copy(p[n:], r.rest)
		r.rest, n = r.rest[copied:], n+copied
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
