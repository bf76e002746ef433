package main

import (
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot/plotter"
)

// plotFile is a plot that was drawn: file.svg for light pages, file-dark.svg for dark ones.
type plotFile struct{ group, title, file string }

// picture returns the HTML of a plot, which chooses the file that goes with the reader's page.
func (p plotFile) picture(dir string) string {
	return fmt.Sprintf("<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"%[1]s/%[2]s-dark.svg\">\n"+
		"  <img alt=\"%[3]s\" src=\"%[1]s/%[2]s.svg\">\n</picture>", dir, p.file, p.title)
}

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

// shown is the systems of the plots, as many as can be told apart, and what the plots call them.
// The tables have all of them.
var shown = []struct{ system, name string }{
	{"redlatch", "redlatch"},
	{"redlatch, strict order", "redlatch, strict order"},
	{"redsync rueidis", "redsync"},
	{"bsm/redislock", "bsm/redislock"},
	{"rueidislock", "rueidislock"},
	{"scan of SET NX", "scan of SET NX"},
	{"floor rueidis", "two bare commands"},
}

// series is a system's points in a plot.
type series struct {
	system, name string
	points       plotter.XYs
}

// plots draws all plots for which there are results.
func (r *report) plots(dir string) (drawn []plotFile, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	goroutines := []string{"1 goroutine", "2 goroutines", "4 goroutines", "8 goroutines", "16 goroutines", "64 goroutines", "256 goroutines"}
	numbers := []float64{1, 2, 4, 8, 16, 64, 256}
	waiters := []string{"2 waiters over 2 clients", "16 waiters over 8 clients", "128 waiters over 8 clients", "1024 waiters over 8 clients"}
	for _, l := range []lines{
		{
			plotFile{"Uncontended", "Uncontended: cycles per second", "uncontended"},
			"cycles",
			numbers, goroutines,
			"goroutines", "cycles/s",
		},
		{
			plotFile{"Uncontended, GOMAXPROCS 1", "Uncontended, with GOMAXPROCS 1: cycles per second", "uncontended-one"},
			"cycles",
			numbers, goroutines,
			"goroutines", "cycles/s",
		},
		{
			plotFile{"Cluster of 3, uncontended", "Cluster: cycles per second", "cluster"},
			"cycles",
			[]float64{1, 16, 64, 256},
			[]string{"1 goroutine", "16 goroutines", "64 goroutines", "256 goroutines"},
			"goroutines", "cycles/s",
		},
		{
			plotFile{"Contended", "Contended: handoffs per second", "contended"},
			"handoffs",
			[]float64{2, 16, 128, 1024},
			waiters, "waiters over 8 clients", "handoffs/s",
		},
		{
			plotFile{"Contended, GOMAXPROCS 1", "Contended, with GOMAXPROCS 1: handoffs per second", "contended-one"},
			"handoffs",
			[]float64{2, 16, 128, 1024},
			waiters, "waiters over 8 clients", "handoffs/s",
		},
		{
			plotFile{"Contended, critical section 1ms", "Contended, 1 ms each: commands for a cycle", "commands"},
			"wire",
			[]float64{2, 16, 128, 1024},
			waiters, "waiters over 8 clients", "commands",
		},
		{
			plotFile{"Contended in one process", "One process: cycles per second", "process"},
			"cycles",
			[]float64{16, 128, 1024},
			[]string{"16 waiters", "128 waiters", "1024 waiters"},
			"waiters", "cycles/s",
		},
		{
			plotFile{"Holding past the TTL", "Holding: CPU of the client", "holding"},
			"client",
			[]float64{1000, 10_000, 100_000},
			[]string{"1000 leases", "10000 leases", "100000 leases"},
			"leases", "% of a core",
		},
		{
			plotFile{"Slots, one of n is free", "Slots: time to acquire the last", "slots"},
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

// draw reports whether there was anything to draw. It draws a plot for light pages and for dark ones.
func (r *report) draw(l lines, file string) (bool, error) {
	var all []series
	for _, s := range shown {
		if points := r.points(l, s.system); len(points) > 0 {
			all = append(all, series{s.system, s.name, points})
		}
	}
	if len(all) == 0 {
		return false, nil
	}
	if err := render(l, all, light, file+".svg"); err != nil {
		return false, err
	}
	return true, render(l, all, dark, file+"-dark.svg")
}

// points returns a system's figure in each scene in which it has one.
func (r *report) points(l lines, system string) (points plotter.XYs) {
	for i, scene := range l.scenes {
		for _, one := range r.of(l.group, scene) {
			if f, ok := one.Figures[l.key]; ok && one.System == system && f.Median > 0 {
				points = append(points, plotter.XY{X: l.x[i], Y: f.Median})
			}
		}
	}
	return points
}
