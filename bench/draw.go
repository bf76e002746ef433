package main

import (
	"errors"
	"image/color"
	"math"
	"os"
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

// How a plot looks. redlatch has the same strong colour everywhere, the others have quiet ones, and
// each line is named at its end.

// theme is the colours of a page.
type theme struct {
	ground, ink, quiet, grid color.Color
	lines                    map[string]color.Color // by system
}

var (
	light = theme{
		ground: hex(0xffffff), ink: hex(0x1f2328), quiet: hex(0x59636e), grid: hex(0xe3e7eb),
		lines: map[string]color.Color{
			"redlatch": hex(0xc4314b), "redlatch, strict order": hex(0xc4314b),
			"redsync rueidis": hex(0x8a6d3b), "bsm/redislock": hex(0x4f7f5b), "rueidislock": hex(0x6b6fa8),
			"scan of SET NX": hex(0x59636e), "floor rueidis": hex(0x8c959f),
		},
	}
	dark = theme{
		ground: hex(0x0d1117), ink: hex(0xe6edf3), quiet: hex(0x9198a1), grid: hex(0x262c34),
		lines: map[string]color.Color{
			"redlatch": hex(0xff6b81), "redlatch, strict order": hex(0xff6b81),
			"redsync rueidis": hex(0xc9a86a), "bsm/redislock": hex(0x7fb38b), "rueidislock": hex(0x9aa0dc),
			"scan of SET NX": hex(0x9198a1), "floor rueidis": hex(0x7d8590),
		},
	}
)

func hex(rgb uint32) color.Color {
	return color.RGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 0xff}
}

// dashes returns the pattern of a line that is not a plain one: a floor, or a mode of redlatch.
func dashes(system string) []vg.Length {
	switch system {
	case "floor rueidis":
		return []vg.Length{vg.Points(2), vg.Points(3)}
	case "redlatch, strict order":
		return []vg.Length{vg.Points(6), vg.Points(3)}
	}
	return nil
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
		line.Color, points.Color, points.Shape = t.lines[s.system], t.lines[s.system], draw.CircleGlyph{}
		line.Width, points.Radius = vg.Points(1.3), vg.Points(2)
		if s.system == "redlatch" {
			line.Width, points.Radius = vg.Points(2.6), vg.Points(3)
		}
		line.Dashes = dashes(s.system)
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
		style.Color = t.lines[n.system]
		x := area.Max.X + vg.Points(6)
		if n.y != n.from {
			area.StrokeLine2(draw.LineStyle{Color: t.grid, Width: vg.Points(1)}, x, n.from, x+vg.Points(9), n.y)
		}
		area.FillText(style, vg.Point{X: x + vg.Points(12), Y: n.y}, n.name)
	}
}

// at is the ticks of an axis at the values that were measured.
type at []float64

// Ticks implements [plot.Ticker].
func (a at) Ticks(float64, float64) (ticks []plot.Tick) {
	for _, x := range a {
		label := short(x)
		if math.Mod(x, 1000) != 0 { // 1024 is not 1.02k
			label = strconv.FormatFloat(x, 'f', -1, 64)
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: label})
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
