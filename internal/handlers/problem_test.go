package handlers_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// row is a row of the table in docs/errors.md: the anchor, the code, status and title.
var row = regexp.MustCompile("(?m)^\\| <a id=\"([a-z_]+)\"></a>`([a-z_]+)` \\| ([0-9]+) \\| ([^|]+) \\|")

func TestEveryCodeIsPresentedAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[coordinator.Code]handlers.Presentation{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		if match[1] != match[2] {
			t.Errorf("the anchor of %s is %s", match[2], match[1])
		}
		status, err := strconv.Atoi(match[3])
		if err != nil {
			t.Fatal(err)
		}
		documented[coordinator.Code(match[2])] = handlers.Presentation{Status: status, Title: match[4]}
	}
	presented := map[coordinator.Code]handlers.Presentation{}
	for _, code := range coordinator.Codes() {
		p, known := handlers.Present(code)
		if !known {
			t.Errorf("%s has no presentation", code)
		}
		p.Retryable = false // the page says so in words
		presented[code] = p
	}
	if diff := cmp.Diff(documented, presented); diff != "" {
		t.Errorf("docs/errors.md (-) and the handlers (+) differ:\n%s", diff)
	}
}
