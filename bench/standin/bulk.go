package standin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// scanRestore answers a hash as NDJSON, read with HSCAN: the way to keep entries that a plain
// service would take. Keys need no escaping here.
func scanRestore(client *redis.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		out := bufio.NewWriterSize(w, 64<<10)
		for cursor := uint64(0); ; {
			pairs, next, err := client.HScan(r.Context(), r.FormValue("key"), cursor, "", 1000).Result()
			if err != nil {
				panic(http.ErrAbortHandler) // a short answer must not look like a whole one
			}
			for i := 0; i+1 < len(pairs); i += 2 {
				_, _ = out.WriteString(`{"key":"`)
				_, _ = out.WriteString(pairs[i])
				_, _ = out.WriteString(`","value":`)
				_, _ = out.WriteString(pairs[i+1])
				_, _ = out.WriteString("}\n")
			}
			if cursor = next; cursor == 0 {
				_ = out.Flush()
				return
			}
		}
	}
}

// pageSize is that of the server's chunks.
const pageSize = 256 << 10

// plainUpload cuts NDJSON into lines, looks at nothing in them, and stores them in pages. The
// next page is filled while one is on its way to Redis. It answers the number of pages.
func plainUpload(client *redis.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		full, empty, failed := make(chan []byte), make(chan []byte, 2), make(chan error, 1)
		for range cap(empty) {
			empty <- make([]byte, 0, pageSize)
		}
		stored := make(chan int, 1)
		go func() {
			n := 0
			for page := range full {
				if err := client.Set(r.Context(), Page(n), page, 0).Err(); err != nil && len(failed) == 0 {
					failed <- err
				}
				n++
				empty <- page[:0]
			}
			stored <- n
		}()
		err := cutLines(r.Body, empty, full)
		close(full)
		n := <-stored
		select {
		case err = <-failed:
		default:
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, strconv.Itoa(n))
	}
}

// Page is the key of page n of an upload.
func Page(n int) string { return "page:" + strconv.Itoa(n) }

// cutLines fills pages from empty with whole lines and hands them to full.
func cutLines(body io.Reader, empty <-chan []byte, full chan<- []byte) error {
	lines := bufio.NewReaderSize(body, 64<<10)
	page := <-empty
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading a line: %w", err)
		}
		if len(page)+len(line) > pageSize {
			full <- page
			page = <-empty
		}
		page = append(page, line...)
		if err != nil {
			break
		}
	}
	if len(page) > 0 {
		full <- page
	}
	return nil
}
