package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/template"
)

// lines says what a plot shows: a figure of each system over the scenes of a group, on logarithmic
// axes. file.svg is for light pages, file-dark.svg for dark ones.
type lines struct{ Title, file, group, key, XName, YName string }

// plotted is all plots. The scenes of a group give the values on the x axis.
var plotted = []lines{
	{"Uncontended: cycles per second", "uncontended", "Uncontended", "cycles", "goroutines", "cycles/s"},
	{"Uncontended, with GOMAXPROCS 1: cycles per second", "uncontended-one", "Uncontended, GOMAXPROCS 1", "cycles", "goroutines", "cycles/s"},
	{"Cluster: cycles per second", "cluster", "Cluster of 3, uncontended", "cycles", "goroutines", "cycles/s"},
	{"Contended: handoffs per second", "contended", "Contended", "handoffs", "waiters over 8 clients", "handoffs/s"},
	{"Contended, with GOMAXPROCS 1: handoffs per second", "contended-one", "Contended, GOMAXPROCS 1", "handoffs", "waiters over 8 clients", "handoffs/s"},
	{"Contended, 1 ms each: commands for a cycle", "commands", "Contended, critical section 1ms", "wire", "waiters over 8 clients", "commands"},
	{"One process: cycles per second", "process", "Contended in one process", "cycles", "waiters", "cycles/s"},
	{"Holding: CPU of the client", "holding", "Holding past the TTL", "client", "leases", "% of a core"},
	{"Slots: time to acquire the last", "slots", "Slots, one of n is free", "p50", "slots", "p50, µs"},
}

// look is how the plots show a system. redlatch has the same strong color everywhere, the others have
// quiet ones, and each line is named at its end.
type look struct {
	system, Name string
	Colors       [2]string // on light pages and on dark ones
	Dashes       string    // of a line that is not a plain one: a floor, or a mode of redlatch
}

// shown is the systems of the plots, as many as can be told apart. The tables have all of them.
var shown = []look{
	{"redlatch", "redlatch", [2]string{"#c4314b", "#ff6b81"}, ""},
	{"redlatch, strict order", "redlatch, strict order", [2]string{"#c4314b", "#ff6b81"}, "6 3"},
	{"redsync rueidis", "redsync", [2]string{"#8a6d3b", "#c9a86a"}, ""},
	{"bsm/redislock", "bsm/redislock", [2]string{"#4f7f5b", "#7fb38b"}, ""},
	{"rueidislock", "rueidislock", [2]string{"#6b6fa8", "#9aa0dc"}, ""},
	{"scan of SET NX", "scan of SET NX", [2]string{"#59636e", "#9198a1"}, ""},
	{"floor rueidis", "two bare commands", [2]string{"#8c959f", "#7d8590"}, "2 3"},
}

// theme is the colors of a page.
type theme struct{ Ground, Ink, Quiet, Grid string }

var themes = [2]theme{
	{"#ffffff", "#1f2328", "#59636e", "#e3e7eb"},
	{"#0d1117", "#e6edf3", "#9198a1", "#262c34"},
}

// picture is what plot.svg is filled with.
type picture struct {
	lines
	theme
	Page           int // of the two kinds
	XTicks, YTicks []tick
	Series         []*series // redlatch last, over the others
}

// tick is a label of an axis, and where it is.
type tick struct {
	At    float64
	Label string
}

// series is a system's line in a plot.
type series struct {
	look
	values, Points []point // the figures, and where they are in the picture
	End            point
	NameY          float64
}

type point struct{ X, Y float64 }

// Where the plot is in its picture. The names of the lines are at its right.
const (
	left, right = 60.0, 475.0
	top, bottom = 40.0, 256.0
	nameHeight  = 13.0
)

//go:embed plot.svg
var plotSVG string

// plots draws all plots for which there are results, for light pages and for dark ones.
func (r *report) plots(dir string) error {
	drawing := template.Must(template.New("plot.svg").Parse(plotSVG))
	for _, l := range plotted {
		p := r.picture(l)
		if len(p.Series) == 0 {
			continue
		}
		for page, suffix := range []string{".svg", "-dark.svg"} {
			p.theme, p.Page = themes[page], page
			var text bytes.Buffer
			if err := drawing.Execute(&text, p); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, l.file+suffix), text.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// picture returns a plot without the colors of a page.
func (r *report) picture(l lines) *picture {
	p := &picture{lines: l}
	var xs, ys []float64
	for _, look := range slices.Backward(shown) {
		one := &series{look: look}
		for _, part := range parts {
			for _, s := range part.scenes(form{}) {
				if y := r.figure(s.group, s.name, look.system, l.key); s.group == l.group && y > 0 {
					one.values = append(one.values, point{float64(s.size), y})
					xs, ys = append(xs, float64(s.size)), append(ys, y)
				}
			}
		}
		if len(one.values) > 0 {
			p.Series = append(p.Series, one)
		}
	}
	if len(p.Series) == 0 {
		return p
	}
	slices.Sort(xs)
	leastX, mostX, leastY, mostY := slices.Min(xs), slices.Max(xs), slices.Min(ys), slices.Max(ys)
	for _, x := range slices.Compact(xs) {
		label := short(x)
		if math.Mod(x, 1000) != 0 { // 1024 is not 1.02k
			label = strconv.Itoa(int(x))
		}
		p.XTicks = append(p.XTicks, tick{along(x, leastX, mostX, left, right), label})
	}
	for _, y := range decades(leastY, mostY) {
		p.YTicks = append(p.YTicks, tick{along(y, leastY, mostY, bottom, top), short(y)})
	}
	for _, one := range p.Series {
		for _, v := range one.values {
			one.End = point{along(v.X, leastX, mostX, left, right), along(v.Y, leastY, mostY, bottom, top)}
			one.Points = append(one.Points, one.End)
		}
		one.NameY = one.End.Y
	}
	moveNamesApart(p.Series)
	return p
}

// moveNamesApart moves the names of lines that would overlap.
func moveNamesApart(all []*series) {
	names := slices.SortedFunc(slices.Values(all), func(a, b *series) int { return cmp.Compare(b.NameY, a.NameY) })
	for i := 1; i < len(names); i++ {
		names[i].NameY = min(names[i].NameY, names[i-1].NameY-nameHeight)
	}
	// What was pushed out at the top goes back, and pushes the others down.
	highest := top - nameHeight/2
	for _, one := range slices.Backward(names) {
		one.NameY = max(one.NameY, highest)
		highest = one.NameY + nameHeight
	}
}

// along returns where a value is on a logarithmic axis.
func along(v, least, most, from, to float64) float64 {
	if least == most {
		return (from + to) / 2
	}
	at := from + (to-from)*math.Log(v/least)/math.Log(most/least)
	return math.Round(at*10) / 10
}

// decades returns each power of ten, and 2 and 5 times that where there are few of them.
func decades(least, most float64) (all []float64) {
	steps := []float64{1}
	if most/least < 100 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for _, step := range steps {
			if v := step * math.Pow(10, e); v >= least*0.99 && v <= most*1.01 {
				all = append(all, v)
			}
		}
	}
	return all
}

// short returns a number with k for thousands and M for millions.
func short(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, "M"
	case v >= 1e3:
		v, unit = v/1e3, "k"
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}
