package standin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestPagesEndWithALineAndLoseNothing(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for n := range 30_000 {
		fmt.Fprintf(&text, "%d %s\n", n, strings.Repeat("x", n%50))
	}
	want := bytes.Clone(text.Bytes())
	empty, full := make(chan []byte, 1), make(chan []byte, 100)
	empty <- make([]byte, 0, pageSize)
	done := make(chan error, 1)
	go func() {
		done <- cutLines(&text, empty, full)
		close(full)
	}()
	var got []byte
	pages := 0
	for page := range full {
		if pages++; len(page) == 0 || page[len(page)-1] != '\n' || len(page) > pageSize {
			t.Errorf("page %d has %d bytes and ends with %q", pages, len(page), page[max(0, len(page)-5):])
		}
		got = append(got, page...)
		empty <- page[:0]
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || pages < 3 {
		t.Errorf("%d pages with %d bytes of %d", pages, len(got), len(want))
	}
}
