package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Axes are what grows in each panel of the plot, with what it says below it.
var axes = []struct{ name, label string }{
	{"checkpoints", "checkpoints (from the second point on beside foreign keys)"},
	{"tasks", "tasks of the checkpoint"},
	{"jobs", "jobs"},
}

// WritePlot draws the curves of growth as SVG.
func (r *Report) WritePlot(w io.Writer) error {
	canvas := vgsvg.New(15*vg.Inch, 5*vg.Inch)
	if err := r.draw(draw.New(canvas)); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// draw makes a panel an axis, with logarithmic scales and at each point the spread of the rounds.
func (r *Report) draw(canvas draw.Canvas) error {
	panels := make([]*plot.Plot, 0, len(axes))
	lowest, highest := 1.0, 1.0
	for _, axis := range axes {
		curves := r.curvesOf(axis.name)
		if len(curves) == 0 {
			continue
		}
		p := plot.New()
		p.X.Label.Text, p.X.Scale, p.X.Tick.Marker = axis.label, plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Label.Text, p.Y.Scale, p.Y.Tick.Marker = "ms, one caller", plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Legend.Top, p.Legend.Left, p.Legend.YOffs = true, true, -vg.Points(4)
		p.Add(plotter.NewGrid())
		for n, curve := range curves {
			if err := curve.draw(p, n); err != nil {
				return err
			}
			for _, point := range curve.Points {
				lowest, highest = min(lowest, slices.Min(point.Samples)), max(highest, slices.Max(point.Samples))
			}
		}
		panels = append(panels, p)
	}
	for _, p := range panels {
		p.Y.Min, p.Y.Max = lowest/1.5, highest*6 // room for the legend
	}
	const gap = vg.Length(8) // points
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: 2 * gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: 2 * gap}
	aligned := plot.Align([][]*plot.Plot{panels}, tiles, canvas)
	for i, p := range panels {
		p.Draw(aligned[0][i])
	}
	return nil
}

func (r *Report) curvesOf(axis string) []Curve {
	var curves []Curve
	for _, curve := range r.Curves {
		if curve.Axis == axis {
			curve.Points = slices.SortedFunc(slices.Values(curve.Points), func(a, b Point) int { return int(a.Size - b.Size) })
			curves = append(curves, curve)
		}
	}
	return curves
}

// spread is a curve for the library: medians, and how far the rounds were from them.
type spread struct {
	plotter.XYs
	plotter.YErrors
}

// draw adds the curve to a panel, as the nth there.
func (c Curve) draw(p *plot.Plot, n int) error {
	var points spread
	for _, point := range c.Points {
		median := point.Samples.Median()
		points.XYs = append(points.XYs, plotter.XY{X: point.Size, Y: median})
		points.YErrors = append(points.YErrors, struct{ Low, High float64 }{
			Low: median - slices.Min(point.Samples), High: slices.Max(point.Samples) - median,
		})
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("drawing %s: %w", c.Call, err)
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return fmt.Errorf("drawing %s: %w", c.Call, err)
	}
	line.Color, line.Width = plotutil.Color(n), vg.Points(1.2)
	marks.Color, marks.Shape = line.Color, plotutil.Shape(n)
	bars.Color = line.Color
	p.Add(line, marks, bars)
	p.Legend.Add(strings.TrimSpace(c.Call), line, marks)
	return nil
}
