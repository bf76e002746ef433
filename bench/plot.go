package main

import (
	"errors"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plotFile is a plot that was drawn.
type plotFile struct{ group, title, file string }

// lines says what a plot shows: a figure of each system over the scenes of a group, on logarithmic
// axes.
type lines struct {
	plotFile
	key    string
	x      []float64 // of each scene
	scenes []string
	xName  string
	yName  string
}

// plots draws all plots for which there are results.
func (r *report) plots(dir string) (drawn []plotFile, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	waiters := []string{"2 waiters over 2 clients", "16 waiters over 8 clients", "128 waiters over 8 clients", "1024 waiters over 8 clients"}
	for _, l := range []lines{
		{
			plotFile{"Uncontended", "Uncontended: cycles per second", "uncontended.svg"},
			"cycles",
			[]float64{1, 16, 256},
			[]string{"1 goroutine", "16 goroutines", "256 goroutines"},
			"goroutines", "cycles/s",
		},
		{
			plotFile{"Contended, critical section 0s", "Contended: handoffs per second", "contended.svg"},
			"handoffs",
			[]float64{2, 16, 128, 1024},
			waiters, "waiters over 8 clients", "handoffs/s",
		},
		{
			plotFile{"Contended, critical section 1ms", "Contended, 1 ms each: commands for a cycle", "commands.svg"},
			"wire",
			[]float64{2, 16, 128, 1024},
			waiters, "waiters over 8 clients", "commands",
		},
		{
			plotFile{"Contended in one process", "One process: cycles per second", "process.svg"},
			"cycles",
			[]float64{16, 128, 1024},
			[]string{"16 waiters", "128 waiters", "1024 waiters"},
			"waiters", "cycles/s",
		},
		{
			plotFile{"Holding past the TTL", "Holding: CPU of the client", "holding.svg"},
			"client",
			[]float64{1000, 10_000, 100_000},
			[]string{"1000 leases", "10000 leases", "100000 leases"},
			"leases", "% of a core",
		},
		{
			plotFile{"Slots, one of n is free", "Slots: time to acquire the last", "slots.svg"},
			"p50",
			[]float64{3, 100, 10_000, 65_536},
			[]string{"n = 3", "n = 100", "n = 10000", "n = 65536"},
			"slots", "p50, µs",
		},
	} {
		ok, err := r.draw(l, filepath.Join(dir, l.file))
		if err != nil {
			return nil, err
		}
		if ok {
			drawn = append(drawn, l.plotFile)
		}
	}
	return drawn, nil
}

// draw reports whether there was anything to draw.
func (r *report) draw(l lines, file string) (bool, error) {
	var systems []string
	series := make(map[string]plotter.XYs)
	for i, scene := range l.scenes {
		for _, one := range r.of(l.group, scene) {
			if f, ok := one.Figures[l.key]; ok && f.Median > 0 {
				if !slices.Contains(systems, one.System) {
					systems = append(systems, one.System)
				}
				series[one.System] = append(series[one.System], plotter.XY{X: l.x[i], Y: f.Median})
			}
		}
	}
	if len(systems) == 0 {
		return false, nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.title, l.xName, l.yName
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	legend := plot.NewLegend() // beside the plot, not over its lines
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(3)
	p.Add(plotter.NewGrid())
	for i, system := range systems {
		line, points, err := plotter.NewLinePoints(series[system])
		if err != nil {
			return false, err
		}
		line.Color, points.Color, points.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
		line.Width = vg.Points(1)
		if system == "redlatch" {
			line.Width = vg.Points(2.5)
		}
		p.Add(line, points)
		legend.Add(system, line, points)
	}
	const width, height, beside = 9.5 * vg.Inch, 4.5 * vg.Inch, 2.5 * vg.Inch
	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Path()) // below the legend, too: the page around it may be dark
	p.Draw(draw.Crop(all, 0, -beside-vg.Inch/4, 0, 0))
	legend.Draw(draw.Crop(all, width-beside, 0, 0, -vg.Inch/4))
	f, err := os.Create(file)
	if err != nil {
		return false, err
	}
	_, err = canvas.WriteTo(f)
	return true, errors.Join(err, f.Close())
}
