package handlers_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// A body that is small on its way and large in memory is none here: nothing is ever unpacked.
func TestNoOperationReadsACompressedBody(t *testing.T) {
	t.Parallel()
	examples, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t)
	f.trigger("")
	before := f.standing()
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	if _, err := packed.Write([]byte(`{"key":"k","value":"` + strings.Repeat("x", 10<<20) + `"}`)); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, example := range examples {
		body := string(example.Request.Body)
		if example.Request.Text != nil {
			body = *example.Request.Text
		}
		if body == "" || body == "null" {
			continue
		}
		path := strings.ReplaceAll(example.Request.Path, "example-"+example.OperationID, coordinator.DefaultJob)
		mediaType := "application/json"
		if example.Request.Text != nil {
			mediaType = ndjson
		}
		tried++
		for _, encoding := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "x"} {
			f.do(example.Request.Method, path, bomb.String(), "Content-Type", mediaType, "Content-Encoding", encoding).refused(coordinator.CodeUnsupportedMediaType)
		}
		// By a second header, too.
		request, err := http.NewRequestWithContext(t.Context(), example.Request.Method, f.server.URL+path, bytes.NewReader(bomb.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {mediaType}, "Content-Encoding": {"identity", "gzip"}}
		response, err := f.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%s %s with two encodings answered %d", request.Method, path, response.StatusCode)
		}
	}
	if after := f.standing(); after != before || tried < 8 {
		t.Errorf("%d calls have changed\n%s\nto\n%s", tried, before, after)
	}
	f.do("PUT", "/checkpoints/0/state/k", "1", "Content-Encoding", "identity").want(http.StatusCreated)
}
