package api_test

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
)

const errorsPage = "https://github.com/checkpointd/checkpointd/blob/main/docs/errors.md"

// documented is one row of the table in docs/errors.md.
type documented struct {
	Status int
	Title  string
}

// errorTable reads the table of docs/errors.md: the codes in the order of its rows, and
// what it says of each.
func errorTable(t *testing.T) ([]string, map[string]documented) {
	t.Helper()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| <a id=\"([a-z_]+)\"></a>`([a-z_]+)` \\| ([0-9]{3}) \\| ([^|]+) \\| ([^|]+\\.) \\| ([^|]+\\.) \\|$")
	var order []string
	table := map[string]documented{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		anchor, code := match[1], match[2]
		if anchor != code {
			t.Errorf("docs/errors.md: the anchor of %s is %s", code, anchor)
		}
		if _, twice := table[code]; twice {
			t.Errorf("docs/errors.md lists %s twice", code)
		}
		status, err := strconv.Atoi(match[3])
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, code)
		table[code] = documented{Status: status, Title: match[4]}
	}
	if rows := regexp.MustCompile(`(?m)^\| <a `).FindAllIndex(page, -1); len(rows) != len(order) {
		t.Errorf("docs/errors.md has %d rows, of which %d are whole: code, status, title, when, what to do next", len(rows), len(order))
	}
	return order, table
}

func TestCodesAreThoseOfTheErrorsPage(t *testing.T) {
	t.Parallel()
	codes := texts(t, contract(t).Components.Schemas["ProblemCode"].Value.Enum)
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("the codes of the contract are not sorted and distinct: %v", codes)
	}
	order, table := errorTable(t)
	if diff := cmp.Diff(codes, slices.Sorted(maps.Keys(table))); diff != "" {
		t.Errorf("contract and docs/errors.md disagree (-contract +page):\n%s", diff)
	}
	for _, code := range codes {
		if !api.ProblemCode(code).Valid() {
			t.Errorf("the generated enum does not have %s", code)
		}
	}
	byStatus := func(a, b string) int { return table[a].Status - table[b].Status }
	if !slices.IsSortedFunc(order, byStatus) {
		t.Errorf("docs/errors.md is not ordered by status: %v", order)
	}
}

func TestExampleProblemsSayWhatTheErrorsPageSays(t *testing.T) {
	t.Parallel()
	_, table := errorTable(t)
	checked := 0
	for name, example := range contract(t).Components.Examples {
		problem, ok := example.Value.Value.(map[string]any)
		if !ok || problem["type"] == nil {
			continue
		}
		checked++
		code, _ := problem["code"].(string)
		want := map[string]any{"type": errorsPage + "#" + code, "title": table[code].Title, "status": float64(table[code].Status)}
		got := map[string]any{"type": problem["type"], "title": problem["title"], "status": problem["status"]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("example %s (-page +example):\n%s", name, diff)
		}
	}
	if checked == 0 {
		t.Error("the contract has no example of a problem")
	}
}

func TestEveryOperationListsTheCodesOfItsRefusals(t *testing.T) {
	t.Parallel()
	_, table := errorTable(t)
	// These come before an operation is found.
	unused := map[string]bool{"not_found": true, "method_not_allowed": true}
	used := map[string]bool{}
	for o := range operations(contract(t)) {
		listed, _ := o.Extensions["x-codes"].([]any)
		statuses := map[int]bool{}
		for _, code := range texts(t, listed) {
			if unused[code] || table[code].Status == 0 {
				t.Errorf("%s: x-codes has %s, which no operation answers", o.name, code)
			}
			used[code] = true
			statuses[table[code].Status] = true
		}
		refusals := map[int]bool{}
		for status := range o.responses(t) {
			if status >= http.StatusBadRequest {
				refusals[status] = true
			}
		}
		if diff := cmp.Diff(refusals, statuses); diff != "" {
			t.Errorf("%s: the statuses of x-codes are not those of the responses (-responses +codes):\n%s", o.name, diff)
		}
	}
	for code := range table {
		if !used[code] && !unused[code] {
			t.Errorf("no operation answers %s", code)
		}
	}
}
