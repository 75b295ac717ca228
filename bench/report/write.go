package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Files that a run writes into the folder of the documentation.
const (
	document = "performance.md"
	results  = "bench.json"
	growth   = "growth.svg"
)

// What is between these lines of the document belongs to the benchmark.
const (
	begin = "<!-- results: written by make bench -->\n"
	end   = "<!-- end of results -->\n"
)

// WriteFiles writes the results into a folder: as JSON, as a plot, and as Markdown between
// the marks of its performance.md.
func (r *Report) WriteFiles(folder string) error {
	path := filepath.Join(folder, document)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the results: the lines %q and %q", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(head+begin+r.Markdown()+end+tail), 0o644); err != nil { //nolint:gosec // documentation is for all to read
		return fmt.Errorf("writing the document: %w", err)
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, results), append(encoded, '\n'), 0o644); err != nil { //nolint:gosec // as above
		return fmt.Errorf("writing the results: %w", err)
	}
	if len(r.Curves) == 0 {
		return nil
	}
	plot, err := os.Create(filepath.Join(folder, growth))
	if err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	if err := r.WritePlot(plot); err != nil {
		_ = plot.Close()
		return err
	}
	if err := plot.Close(); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// Markdown is the tables, with the machine and the versions.
func (r *Report) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s.\n%s.\n%s.\n\n", r.headline(), r.Machine, strings.Join(r.Versions, ", "))
	text.WriteString(markdownTable(r.goalTable()))
	if len(r.Loads) > 0 {
		text.WriteString("\n### Under load\n\n" + markdownTable(r.loadTable()))
	}
	if len(r.Transfers) > 0 {
		text.WriteString("\n### Transfers\n\n" + markdownTable(r.transferTable()))
	}
	if len(r.Curves) > 0 {
		text.WriteString("\n### Growth\n\n![How long calls take beside more checkpoints, tasks and jobs](" + growth + ")\n")
	}
	text.WriteString("\n")
	return text.String()
}

func markdownTable(rows [][]string) string {
	var text strings.Builder
	for i, row := range rows {
		text.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return text.String()
}
