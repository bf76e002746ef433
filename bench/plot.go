package main

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// lines says what a plot shows: a figure of each system over the scenes of a group, on logarithmic
// axes. file.svg is for light pages, file-dark.svg for dark ones.
type lines struct {
	group, title, file, key string
	scene                   func(n int) string // its name
	x                       []int              // of each scene
	xName, yName            string
}

// look is how the plots show a system. redlatch has the same strong colour everywhere, the others have
// quiet ones, and each line is named at its end.
type look struct {
	system, name string
	light, dark  color.Color
	dashes       []vg.Length // of a line that is not a plain one: a floor, or a mode of redlatch
}

// shown is the systems of the plots, as many as can be told apart. The tables have all of them.
var shown = []look{
	{"redlatch", "redlatch", hex(0xc4314b), hex(0xff6b81), nil},
	{"redlatch, strict order", "redlatch, strict order", hex(0xc4314b), hex(0xff6b81), []vg.Length{vg.Points(6), vg.Points(3)}},
	{"redsync rueidis", "redsync", hex(0x8a6d3b), hex(0xc9a86a), nil},
	{"bsm/redislock", "bsm/redislock", hex(0x4f7f5b), hex(0x7fb38b), nil},
	{"rueidislock", "rueidislock", hex(0x6b6fa8), hex(0x9aa0dc), nil},
	{"scan of SET NX", "scan of SET NX", hex(0x59636e), hex(0x9198a1), nil},
	{"floor rueidis", "two bare commands", hex(0x8c959f), hex(0x7d8590), []vg.Length{vg.Points(2), vg.Points(3)}},
}

// series is a system's points in a plot.
type series struct {
	look
	points plotter.XYs
}

// plots draws all plots for which there are results, for light pages and for dark ones.
func (r *report) plots(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	counted := func(what string) func(int) string { return func(n int) string { return plural(n, what) } }
	waiters := func(n int) string { return fmt.Sprintf("%d waiters over %d clients", n, min(8, n)) }
	slots := func(n int) string { return fmt.Sprintf("n = %d", n) }
	crowds := []int{2, 16, 128, 1024}
	for _, l := range []lines{
		{"Uncontended", "Uncontended: cycles per second", "uncontended", "cycles", counted("goroutine"), []int{1, 2, 4, 8, 16, 64, 256}, "goroutines", "cycles/s"},
		{"Uncontended, GOMAXPROCS 1", "Uncontended, with GOMAXPROCS 1: cycles per second", "uncontended-one", "cycles", counted("goroutine"), []int{1, 2, 4, 8, 16, 64, 256}, "goroutines", "cycles/s"},
		{"Cluster of 3, uncontended", "Cluster: cycles per second", "cluster", "cycles", counted("goroutine"), []int{1, 16, 64, 256}, "goroutines", "cycles/s"},
		{"Contended", "Contended: handoffs per second", "contended", "handoffs", waiters, crowds, "waiters over 8 clients", "handoffs/s"},
		{"Contended, GOMAXPROCS 1", "Contended, with GOMAXPROCS 1: handoffs per second", "contended-one", "handoffs", waiters, crowds, "waiters over 8 clients", "handoffs/s"},
		{"Contended, critical section 1ms", "Contended, 1 ms each: commands for a cycle", "commands", "wire", waiters, crowds, "waiters over 8 clients", "commands"},
		{"Contended in one process", "One process: cycles per second", "process", "cycles", counted("waiter"), crowds[1:], "waiters", "cycles/s"},
		{"Holding past the TTL", "Holding: CPU of the client", "holding", "client", counted("lease"), []int{1000, 10_000, 100_000}, "leases", "% of a core"},
		{"Slots, one of n is free", "Slots: time to acquire the last", "slots", "p50", slots, []int{3, 100, 10_000, 65_536}, "slots", "p50, µs"},
	} {
		var all []series
		for _, s := range shown {
			if points := r.points(l, s.system); len(points) > 0 {
				all = append(all, series{s, points})
			}
		}
		if len(all) == 0 {
			continue
		}
		file := filepath.Join(dir, l.file)
		if err := errors.Join(render(l, all, light, file+".svg"), render(l, all, dark, file+"-dark.svg")); err != nil {
			return err
		}
	}
	return nil
}

// points returns a system's figure in each scene in which it has one.
func (r *report) points(l lines, system string) (points plotter.XYs) {
	for _, n := range l.x {
		if f := r.figure(l.group, l.scene(n), system, l.key); f > 0 {
			points = append(points, plotter.XY{X: float64(n), Y: f})
		}
	}
	return points
}

// theme is the colours of a page.
type theme struct {
	ground, ink, quiet, grid color.Color
	line                     func(look) color.Color
}

var (
	light = theme{hex(0xffffff), hex(0x1f2328), hex(0x59636e), hex(0xe3e7eb), func(l look) color.Color { return l.light }}
	dark  = theme{hex(0x0d1117), hex(0xe6edf3), hex(0x9198a1), hex(0x262c34), func(l look) color.Color { return l.dark }}
)

func hex(rgb uint32) color.Color {
	return color.RGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 0xff}
}

const (
	width, height = 8.5 * vg.Inch, 4.2 * vg.Inch
	margin        = 0.2 * vg.Inch
	nameWidth     = 1.7 * vg.Inch // beside the plot, for the names of the lines
	nameHeight    = 13 * vg.Length(1)
)

// render draws a plot with its ground over the whole picture: the page around it may be another.
func render(l lines, all []series, t theme, file string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.title, l.xName, l.yName
	p.Title.Padding = vg.Points(10)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = at(l.x), decades{}
	t.paint(p)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, t.grid
	p.Add(grid)
	for _, s := range slices.Backward(all) { // redlatch is drawn last, over the others
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return err
		}
		line.Color, points.Color, points.Shape = t.line(s.look), t.line(s.look), draw.CircleGlyph{}
		line.Width, points.Radius = vg.Points(1.3), vg.Points(2)
		if s.system == "redlatch" {
			line.Width, points.Radius = vg.Points(2.6), vg.Points(3)
		}
		line.Dashes = s.dashes
		p.Add(line, points)
	}
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.SetColor(t.ground)
	whole.Fill(whole.Path())
	area := draw.Crop(whole, margin, -nameWidth-margin, margin, -margin)
	p.Draw(area)
	t.names(p, p.DataCanvas(area), all)
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(f)
	return errors.Join(err, f.Close())
}

// paint gives the words and axes of a plot the colours of the page.
func (t theme) paint(p *plot.Plot) {
	p.BackgroundColor = t.ground
	p.Title.TextStyle.Color = t.ink
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = t.grid, t.grid
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = t.quiet, t.quiet
	}
}

// names writes the name of each line beside its end. Names that would overlap are moved apart.
func (t theme) names(p *plot.Plot, area draw.Canvas, all []series) {
	type name struct {
		series
		from, y vg.Length
	}
	var names []name
	_, toY := p.Transforms(&area)
	for _, s := range all {
		end := toY(s.points[len(s.points)-1].Y)
		names = append(names, name{s, end, end})
	}
	slices.SortFunc(names, func(a, b name) int { return int(math.Copysign(1, float64(a.y-b.y))) })
	for i := 1; i < len(names); i++ {
		names[i].y = max(names[i].y, names[i-1].y+nameHeight)
	}
	// What was pushed out at the top goes back, and pushes the others down.
	top := area.Max.Y + nameHeight/2
	for i := len(names) - 1; i >= 0; i-- {
		names[i].y = min(names[i].y, top)
		top = names[i].y - nameHeight
	}
	style := p.X.Label.TextStyle
	style.XAlign, style.YAlign = text.XLeft, text.YCenter
	for _, n := range names {
		style.Color = t.line(n.look)
		x := area.Max.X + vg.Points(6)
		if n.y != n.from {
			area.StrokeLine2(draw.LineStyle{Color: t.grid, Width: vg.Points(1)}, x, n.from, x+vg.Points(9), n.y)
		}
		area.FillText(style, vg.Point{X: x + vg.Points(12), Y: n.y}, n.name)
	}
}

// at is the ticks of an axis at the values that were measured.
type at []int

// Ticks implements [plot.Ticker].
func (a at) Ticks(float64, float64) (ticks []plot.Tick) {
	for _, x := range a {
		label := short(float64(x))
		if x%1000 != 0 { // 1024 is not 1.02k
			label = strconv.Itoa(x)
		}
		ticks = append(ticks, plot.Tick{Value: float64(x), Label: label})
	}
	return ticks
}

// decades is a tick at each power of ten, and at 2 and 5 times that where there are few of them.
type decades struct{}

// Ticks implements [plot.Ticker].
func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	steps := []float64{1}
	if most/least < 100 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for _, step := range steps {
			if v := step * math.Pow(10, e); v >= least*0.99 && v <= most*1.01 {
				ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
			}
		}
	}
	return ticks
}

// short returns a number with k for thousands and M for millions.
func short(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of {
			return strconv.FormatFloat(v/unit.of, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
