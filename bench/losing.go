package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// noise is a difference between medians that says nothing.
const noise = 0.03

// loss is a figure of which another library has a better one than redlatch.
type loss struct {
	scene, by string
	ratio     float64 // redlatch's, relative to that of the library with the best
}

// losses is those of a figure in the scenes of a group.
type losses struct {
	group, title string
	all          []loss
}

// losing writes where redlatch is not the fastest, or not the cheapest: by its default settings over
// rueidis.
func (r *report) losing(w io.Writer, f form) {
	fmt.Fprint(w, "\n## Where redlatch is not the fastest\n\n"+
		"Every scene in which redlatch, as it comes, is more than 3 % behind the best other library. Relative\n"+
		"to that library's, a figure is below 1 where more is better, and above 1 where less is. Where a lock\n"+
		"is contended, libraries that give it to the same goroutine again and again look fast: see\n"+
		"fewest/most there. The floor is no library.\n\n"+
		"| where | figure | redlatch relative to the best | at | best |\n|---|---|---|---|---|\n")
	for _, p := range parts {
		var found []losses
		for _, s := range p.scenes(nil, f) {
			for _, c := range s.columns {
				l, ok := r.loses(s, c)
				if !ok {
					continue
				}
				i := slices.IndexFunc(found, func(a losses) bool { return a.group == s.group && a.title == c.title })
				if i < 0 {
					i, found = len(found), append(found, losses{group: s.group, title: c.title})
				}
				found[i].all = append(found[i].all, l)
			}
		}
		for _, a := range found {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", a.group, a.title, a.ratios(), a.scenes(), a.best())
		}
	}
}

// ratios returns the lowest and the highest.
func (a losses) ratios() string {
	least, most := a.all[0].ratio, a.all[0].ratio
	for _, l := range a.all {
		least, most = min(least, l.ratio), max(most, l.ratio)
	}
	if len(a.all) == 1 {
		return fmt.Sprintf("%.2f", least)
	}
	return fmt.Sprintf("%.2f to %.2f", least, most)
}

// scenes returns the names of the scenes: of numbers of the same thing, the thing at the end.
func (a losses) scenes() string {
	var names []string
	for i, l := range a.all {
		name, _, _ := strings.Cut(l.scene, ":")
		if number, _, ok := strings.Cut(name, " "); ok && i < len(a.all)-1 && isNumber(number) {
			name = number
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// best returns the libraries that are ahead.
func (a losses) best() string {
	var names []string
	for _, l := range a.all {
		if !slices.Contains(names, l.by) {
			names = append(names, l.by)
		}
	}
	return strings.Join(names, ", ")
}

// loses reports whether another library has a better figure than redlatch in a scene.
func (r *report) loses(s scene, c column) (l loss, yes bool) {
	own, ok := r.median(s.group, s.name, "redlatch", c.key)
	if !ok || c.better == 0 {
		return loss{}, false
	}
	best, by := 0.0, ""
	for _, one := range r.of(s.group, s.name) {
		f, ok := one.Figures[c.key]
		if !ok || own == 0 && f.Median == 0 || !other(one.System) {
			continue
		}
		if by == "" || float64(c.better)*(f.Median-best) > 0 {
			best, by = f.Median, one.System
		}
	}
	if by == "" || best == 0 || float64(c.better)*(own/best-1) >= -noise {
		return loss{}, false
	}
	return loss{s.name, by, own / best}, true
}

// other reports whether a system is another library.
func other(system string) bool {
	return !strings.HasPrefix(system, "redlatch") && !strings.HasPrefix(system, "floor")
}
