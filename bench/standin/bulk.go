package standin

import (
	"bufio"
	"bytes"
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

// plainUpload stores NDJSON in pages that end with a line, and looks at nothing in them. The
// next page is read while one is on its way to Redis. It answers the number of pages.
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
		err := cutPages(r.Body, empty, full)
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

// cutPages fills pages from empty and hands them to full.
func cutPages(body io.Reader, empty <-chan []byte, full chan<- []byte) error {
	var rest []byte // the beginning of a line whose end is on the next page
	for {
		page := append(<-empty, rest...)
		n, err := io.ReadFull(body, page[len(page):cap(page)])
		page = page[:len(page)+n]
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if len(page) > 0 {
				full <- page
			}
			return nil
		case err != nil:
			return fmt.Errorf("reading the upload: %w", err)
		}
		end := bytes.LastIndexByte(page, '\n') + 1
		if end == 0 {
			return errors.New("a line is longer than a page")
		}
		rest = append(rest[:0], page[end:]...)
		full <- page[:end]
	}
}
