// Package report keeps what was measured beside what it is measured against, and writes it
// as a table, as JSON and as Markdown.
package report

import (
	"fmt"
	"slices"
	"strconv"
)

// Report is one run of the benchmark.
type Report struct {
	Date     string   `json:"date"`
	Commit   string   `json:"commit"`
	Machine  string   `json:"machine"`
	Versions []string `json:"versions"`
	Rounds   int      `json:"rounds"`
	Quick    bool     `json:"quick"`
	Took     string   `json:"took"`
	// Idle, Steal and Foreign are the shares of the machine's time, 0 to 1, that nobody used
	// during each load, that other machines on the same hardware used, and other processes here.
	Idle    Samples `json:"idle"`
	Steal   Samples `json:"steal"`
	Foreign Samples `json:"foreign"`
	Rows    []Row   `json:"rows"`
	Loads   []Load  `json:"loads"`
	// Transfers are in MB (1e6 bytes) in place of requests.
	Transfers []Load   `json:"transfers"`
	Curves    []Curve  `json:"growth"`
	Missed    []string `json:"notMeasured,omitempty"`
}

// Add appends a row.
func (r *Report) Add(row Row) { r.Rows = append(r.Rows, row) }

// Curve is how long a call takes at some sizes of what it is done beside.
type Curve struct {
	// Axis is what grows: checkpoints, tasks or jobs.
	Axis   string  `json:"axis"`
	Call   string  `json:"call"`
	Points []Point `json:"points"`
}

// Point is one size, and the medians of each round in ms.
type Point struct {
	Size    float64 `json:"size"`
	Samples Samples `json:"ms"`
}

// Plot appends a point to its curve.
func (r *Report) Plot(axis, call string, size float64, samples Samples) {
	point := Point{Size: size, Samples: samples}
	for i := range r.Curves {
		if c := &r.Curves[i]; c.Axis == axis && c.Call == call {
			c.Points = append(c.Points, point)
			return
		}
	}
	r.Curves = append(r.Curves, Curve{Axis: axis, Call: call, Points: []Point{point}})
}

// Row is one line of the table: a value with its spread over the rounds, and its goal.
type Row struct {
	// Goal is its name in the table of goals (A1), or "" for a figure without one.
	Goal    string  `json:"goal,omitempty"`
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit,omitempty"`
	Samples Samples `json:"samples"`
	// AtLeast or AtMost is what the median has to keep; neither: it is only reported.
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
}

// Wanted is the goal in words.
func (r Row) Wanted() string {
	switch {
	case r.AtLeast > 0:
		return "≥ " + figure(r.AtLeast) + unit(r.Unit)
	case r.AtMost > 0:
		return "≤ " + figure(r.AtMost) + unit(r.Unit)
	default:
		return "–"
	}
}

// Met tells in a word whether the median keeps the goal.
func (r Row) Met() string {
	median := r.Samples.Median()
	switch {
	case r.AtLeast == 0 && r.AtMost == 0:
		return "–"
	case r.AtLeast > 0 && median >= r.AtLeast, r.AtMost > 0 && median <= r.AtMost:
		return "yes"
	default:
		return "no"
	}
}

// Value is the median with its spread.
func (r Row) Value() string { return r.Samples.Text(r.Unit) }

// Samples are the values of one metric, one a round.
type Samples []float64

// MarshalJSON writes the values on one line, with digits that mean something.
func (s Samples) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, value := range s {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = strconv.AppendFloat(text, value, 'g', 4, 64)
	}
	return append(text, ']'), nil
}

// Times multiplies each value.
func (s Samples) Times(factor float64) Samples {
	products := make(Samples, 0, len(s))
	for _, value := range s {
		products = append(products, factor*value)
	}
	return products
}

// Median is the middle value, 0 when there is none.
func (s Samples) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Text is the median, and in parentheses the lowest and the highest value.
func (s Samples) Text(unitName string) string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return figure(s[0]) + unit(unitName)
	default:
		return fmt.Sprintf("%s%s (%s..%s)", figure(s.Median()), unit(unitName), figure(slices.Min(s)), figure(slices.Max(s)))
	}
}

// Ratios divides the values of each round: what disturbs a round disturbs both.
func Ratios(ours, theirs Samples) Samples {
	ratios := make(Samples, 0, len(ours))
	for round := range min(len(ours), len(theirs)) {
		if theirs[round] != 0 {
			ratios = append(ratios, ours[round]/theirs[round])
		}
	}
	return ratios
}

// Sums adds the values of each round.
func Sums(some, others Samples) Samples {
	sums := make(Samples, 0, len(some))
	for round := range min(len(some), len(others)) {
		sums = append(sums, some[round]+others[round])
	}
	return sums
}

// figure writes a number with three significant digits, and whole ones in groups.
func figure(value float64) string {
	magnitude := max(value, -value)
	switch {
	case magnitude >= 1000:
		return Grouped(int64(value + 0.5))
	case magnitude >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case magnitude >= 10:
		return trimmed(value, 1)
	default:
		return trimmed(value, 2)
	}
}

func trimmed(value float64, digits int) string {
	if value == float64(int64(value)) {
		return strconv.FormatInt(int64(value), 10)
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// Grouped writes a whole number with a space between thousands.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + " " + text[at:]
	}
	return text
}

func unit(name string) string {
	if name == "" {
		return ""
	}
	return " " + name
}

// Load is one target under load: what it reached and what that cost, a value a round.
type Load struct {
	Target      string  `json:"target"`
	Connections int     `json:"connections"`
	PerSecond   Samples `json:"requestsPerSecond"`
	P50         Samples `json:"p50Ms,omitempty"`
	P99         Samples `json:"p99Ms,omitempty"`
	// CPU is µs a request of each process that took part.
	CPU map[string]Samples `json:"cpuMicrosPerRequest"`
	// Loader is that of the load generator.
	Loader Samples `json:"loaderMicrosPerRequest"`
}
