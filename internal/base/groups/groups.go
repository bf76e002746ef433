// Package groups defines the series that metrics exporters count in: those of each kind and mode,
// in each group of names.
//
// A program says which group a name belongs to. Beyond a hundred groups there is one for all others, so
// that a program that makes each name a group does not fill the memory of the metrics collector.
package groups

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Most is how many groups of names there are beside "other".
const Most = 100

// Groups are the groups of names in use. Safe for concurrent use.
type Groups[S any] struct {
	of   func(name string) string // nil if there is one group only
	make func(kind, mode string, group *string) S
	all  group[S] // of all names, if of is nil

	mu    sync.RWMutex // guards named
	named map[string]*group[S]
}

// New returns groups of names. of returns the group of a name; nil is for a single group. create
// makes the series of a kind and mode, in a group if there are groups.
func New[S any](of func(name string) string, create func(kind, mode string, group *string) S) *Groups[S] {
	return &Groups[S]{of: of, make: create, named: make(map[string]*group[S])}
}

// Series returns the series of a name, a kind and a mode. It makes them if there are none.
func (g *Groups[S]) Series(name, kind, mode string) S {
	if g.of == nil {
		return g.all.series(kind, mode, func() S { return g.make(kind, mode, nil) })
	}
	in := g.find(strings.ToValidUTF8(g.of(name), "?"))
	return in.series(kind, mode, func() S { return g.make(kind, mode, &in.label) })
}

// Begin makes the series of these kinds before the first of their locks is acquired. With groups of
// names it makes none: their names are not known yet.
func (g *Groups[S]) Begin(kinds []string) {
	if g.of != nil {
		return
	}
	for _, kind := range kinds {
		for _, mode := range modes(kind) {
			g.Series("", kind, mode)
		}
	}
}

// modes returns the modes of the events of a kind.
func modes(kind string) []string {
	if kind == "rwmutex" {
		return []string{"read", "write"}
	}
	return []string{""}
}

// find returns the group with a label.
func (g *Groups[S]) find(label string) *group[S] {
	g.mu.RLock()
	found := g.named[label]
	g.mu.RUnlock()
	if found != nil {
		return found
	}
	return g.add(label)
}

// add returns the group with a label: a new one, or "other" if there are Most already.
func (g *Groups[S]) add(label string) *group[S] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.named) >= Most && label != "other" {
		label = "other"
	}
	if g.named[label] == nil {
		g.named[label] = &group[S]{label: label}
	}
	return g.named[label]
}

// Each calls f for all series.
func (g *Groups[S]) Each(f func(S)) {
	g.mu.RLock()
	all := append(slices.Collect(maps.Values(g.named)), &g.all)
	g.mu.RUnlock()
	for _, one := range all {
		if list := one.list.Load(); list != nil {
			for _, s := range *list {
				f(s.series)
			}
		}
	}
}

// group is the series of a group of names. There are few of them.
type group[S any] struct {
	label string
	list  atomic.Pointer[[]member[S]] // is replaced, and never changed

	mu sync.Mutex // is held while list is replaced
}

// member is the series of a kind and mode.
type member[S any] struct {
	kind, mode string
	series     S
}

func (g *group[S]) series(kind, mode string, create func() S) S {
	if s, ok := g.look(kind, mode); ok {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.look(kind, mode); ok {
		return s
	}
	s := create()
	list := []member[S]{{kind, mode, s}}
	if old := g.list.Load(); old != nil {
		list = append(list, *old...)
	}
	g.list.Store(&list)
	return s
}

// look reports whether there are series of a kind and mode.
func (g *group[S]) look(kind, mode string) (s S, ok bool) {
	if list := g.list.Load(); list != nil {
		for _, m := range *list {
			if m.kind == kind && m.mode == mode {
				return m.series, true
			}
		}
	}
	return s, false
}
