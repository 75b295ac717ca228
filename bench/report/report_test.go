package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/bench/report"
)

func TestAMedianIsShownWithItsSpreadAndJudgedByItsGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row         report.Row
		value, met  string
		wantedWords string
	}{
		{report.Row{Samples: report.Samples{3, 1, 2}, AtLeast: 2}, "2 (1..3)", "yes", "≥ 2"},
		{report.Row{Samples: report.Samples{3, 1, 1.95}, AtLeast: 2}, "1.95 (1..3)", "no", "≥ 2"},
		{report.Row{Samples: report.Samples{4, 1, 2, 3}, AtMost: 2.5, Unit: "MiB"}, "2.50 MiB (1..4)", "yes", "≤ 2.50 MiB"},
		{report.Row{Samples: report.Samples{2.6}, AtMost: 2.5}, "2.60", "no", "≤ 2.50"},
		{report.Row{Samples: report.Samples{1234567, 12.345}}, "617 290 (12.3..1 234 567)", "–", "–"},
		{report.Row{}, "–", "–", "–"},
	} {
		if c.row.Value() != c.value || c.row.Met() != c.met || c.row.Wanted() != c.wantedWords {
			t.Errorf("%+v is shown as %q, %q, %q; want %q, %q, %q", c.row, c.row.Value(), c.row.Met(), c.row.Wanted(), c.value, c.met, c.wantedWords)
		}
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	t.Parallel()
	got := report.Ratios(report.Samples{10, 20, 30}, report.Samples{5, 40, 0})
	if len(got) != 2 || got[0] != 2 || got[1] != 0.5 {
		t.Errorf("got %v", got)
	}
}

func TestResultsReplaceWhatIsBetweenTheMarksOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "performance.md")
	const head, tail = "# Performance\n\n<!-- results: written by make bench -->\n", "<!-- end of results -->\n\nProfiles.\n"
	if err := os.WriteFile(path, []byte(head+"old\n"+tail), 0o600); err != nil {
		t.Fatal(err)
	}
	r := report.Report{Date: "today", Machine: "a machine"}
	r.Add(report.Row{Goal: "A1", Metric: "speed", AtLeast: 1, Samples: report.Samples{2}})
	r.Plot("jobs", "ack", 1000, report.Samples{2, 3})
	r.Plot("jobs", "ack", 1, report.Samples{1, 2})
	if err := r.WriteFiles(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) || strings.Contains(got, "old") {
		t.Errorf("the document is now\n%s", got)
	}
	if !strings.Contains(got, "| A1 | speed | ≥ 1 | 2 | yes |") || !strings.Contains(got, "growth.svg") {
		t.Errorf("the results are\n%s", got)
	}
	var again report.Report
	encoded, err := os.ReadFile(filepath.Join(folder, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, &again); err != nil || len(again.Rows) != 1 || again.Rows[0].Samples.Median() != 2 {
		t.Errorf("the results are read back as %+v, %v", again, err)
	}
	if plot, err := os.ReadFile(filepath.Join(folder, "growth.svg")); err != nil || !strings.Contains(string(plot), "<svg") {
		t.Errorf("the plot: %v", err)
	}
}

func TestADocumentWithoutMarksIsLeftAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "performance.md")
	if err := os.WriteFile(path, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(report.Report).WriteFiles(folder); err == nil {
		t.Error("it was written")
	}
	if text, _ := os.ReadFile(path); string(text) != "no marks" {
		t.Errorf("it is now %s", text)
	}
}
