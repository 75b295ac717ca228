package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteText writes the tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	text := fmt.Sprintf("\n%s\n%s\n%s\n\n%s", r.headline(), r.Machine, strings.Join(r.Versions, ", "), aligned(r.goalTable()))
	if len(r.Loads) > 0 {
		text += "\n" + aligned(r.loadTable())
	}
	if len(r.Transfers) > 0 {
		text += "\n" + aligned(r.transferTable())
	}
	_, err := io.WriteString(w, text)
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func (r *Report) headline() string {
	text := fmt.Sprintf("%s, %s, %d rounds in %s", r.Date, r.Commit, r.Rounds, r.Took)
	if r.Quick {
		text += ", quick"
	}
	if len(r.Idle) > 0 {
		text += fmt.Sprintf("; while loads ran, %.0f %% of the machine's time was idle, %.1f %% stolen and %.0f %% taken by other processes",
			100*r.Idle.Median(), 100*r.Steal.Median(), 100*r.Foreign.Median())
	}
	return text
}

func (r *Report) goalTable() [][]string {
	rows := append(make([][]string, 0, 1+len(r.Rows)+len(r.Missed)),
		[]string{"goal", "metric", "wanted", "median (min..max)", "met"})
	for _, row := range r.Rows {
		rows = append(rows, []string{row.Goal, row.Metric, row.Wanted(), row.Value(), row.Met()})
	}
	for _, missed := range r.Missed {
		rows = append(rows, []string{"", missed, "", "not measured", ""})
	}
	return rows
}

func (r *Report) loadTable() [][]string {
	rows := append(make([][]string, 0, 1+len(r.Loads)),
		[]string{"target", "connections", "req/s", "p50 ms", "p99 ms", "CPU µs a request", "load generator µs"})
	for _, l := range r.Loads {
		rows = append(rows, []string{
			l.Target, strconv.Itoa(l.Connections), l.PerSecond.Text(""), l.P50.Text(""), l.P99.Text(""), l.cpu(1), figure(l.Loader.Median()),
		})
	}
	return rows
}

func (r *Report) transferTable() [][]string {
	rows := append(make([][]string, 0, 1+len(r.Transfers)),
		[]string{"transfer", "MB/s", "CPU ms a MB", "reader's or writer's ms a MB"})
	for _, l := range r.Transfers {
		rows = append(rows, []string{l.Target, l.PerSecond.Text(""), l.cpu(1000), figure(l.Loader.Median() / 1000)})
	}
	return rows
}

// cpu names what each process used, where it did anything.
func (l *Load) cpu(divisor float64) string {
	cpu := make([]string, 0, len(l.CPU))
	for _, name := range slices.Sorted(maps.Keys(l.CPU)) {
		if median := l.CPU[name].Median() / divisor; median >= 0.005 {
			cpu = append(cpu, name+" "+figure(median))
		}
	}
	return strings.Join(cpu, ", ")
}

// aligned pads the columns of a table.
func aligned(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}
