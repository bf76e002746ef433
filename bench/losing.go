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
		"Every figure in which redlatch, with its default settings, is more than 3 % behind the best other\n"+
		"library. The numbers are relative to that library: below 1 where more is better, above 1 where less\n"+
		"is. Libraries that give a contended lock to the same goroutine again and again look fast: compare\n"+
		"fewest/most.\n\n"+
		"| workload | redlatch relative to the best | best |\n|---|---|---|\n")
	for _, p := range parts {
		for _, group := range r.lossesOf(p, f) {
			var figures, best []string
			for i, a := range group {
				figure := a.title + " " + a.ratios()
				if at := a.at(p.scenes(nil, f)); i+1 == len(group) || group[i+1].at(p.scenes(nil, f)) != at {
					figure += at // once for figures that share it
				}
				figures = append(figures, figure)
				for _, name := range a.best() {
					if !slices.Contains(best, name) {
						best = append(best, name)
					}
				}
			}
			fmt.Fprintf(w, "| %s | %s | %s |\n", group[0].group, strings.Join(figures, "; "), strings.Join(best, ", "))
		}
	}
}

// lossesOf returns what redlatch loses in a part, by group and figure.
func (r *report) lossesOf(p part, f form) (groups [][]losses) {
	for _, s := range p.scenes(nil, f) {
		for _, c := range s.columns {
			l, ok := r.loses(s, c)
			if !ok {
				continue
			}
			if n := len(groups); n == 0 || groups[n-1][0].group != s.group {
				groups = append(groups, nil)
			}
			last := &groups[len(groups)-1]
			i := slices.IndexFunc(*last, func(a losses) bool { return a.title == c.title })
			if i < 0 {
				i, *last = len(*last), append(*last, losses{group: s.group, title: c.title})
			}
			(*last)[i].all = append((*last)[i].all, l)
		}
	}
	return groups
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

// at returns in which of all the scenes of a part it is, in parentheses; nothing if it is in the only
// one of its group.
func (a losses) at(all []scene) string {
	n := 0
	for _, s := range all {
		if s.group == a.group {
			n++
		}
	}
	switch {
	case n == 1:
		return ""
	case n == len(a.all):
		return " (all)"
	}
	return " (" + a.scenes() + ")"
}

// scenes returns the names of the scenes.
func (a losses) scenes() string {
	var names []string
	for _, l := range a.all {
		names = append(names, l.scene)
	}
	return list(names)
}

// list joins names of scenes: of numbers of the same thing, the thing at the end.
func list(scenes []string) string {
	var names []string
	for i, name := range scenes {
		name, _, _ = strings.Cut(name, ":")
		if number, _, ok := strings.Cut(name, " "); ok && i < len(scenes)-1 && isNumber(number) {
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
func (a losses) best() (names []string) {
	for _, l := range a.all {
		if !slices.Contains(names, l.by) {
			names = append(names, l.by)
		}
	}
	return names
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
