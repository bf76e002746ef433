package redlatchprom

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
)

// maxGroups is how many groups of names there are beside "other".
const maxGroups = 100

// groups are the groups of names in use.
type groups struct {
	of   func(name string) string // nil if there is one group only
	make func(kind, mode, group string) *series
	all  group // of all names, if of is nil

	mu    sync.RWMutex // guards named
	named map[string]*group
}

// newGroups returns the groups that a function tells, whose series another makes.
func newGroups(of func(string) string, create func(kind, mode, group string) *series) *groups {
	g := &groups{of: of, make: create, named: make(map[string]*group)}
	g.all.in = g
	return g
}

// find returns the group of a name.
func (g *groups) find(name string) *group {
	if g.of == nil {
		return &g.all
	}
	label := strings.ToValidUTF8(g.of(name), "?")
	g.mu.RLock()
	found := g.named[label]
	g.mu.RUnlock()
	if found != nil {
		return found
	}
	return g.add(label)
}

// add returns the group with a label: a new one, or "other" if there are as many as may be.
func (g *groups) add(label string) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.named) >= maxGroups && label != "other" {
		label = "other"
	}
	if g.named[label] == nil {
		g.named[label] = &group{in: g, label: label}
	}
	return g.named[label]
}

// group is the series of a group of names, by kind and mode. There are few of them.
type group struct {
	in    *groups
	label string
	list  atomic.Pointer[[]*series] // is replaced, and never changed

	mu sync.Mutex // is held while list is replaced
}

// series returns those of a kind and mode. It makes them if there are none.
func (g *group) series(kind, mode string) *series {
	if s := g.look(kind, mode); s != nil {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.look(kind, mode); s != nil {
		return s
	}
	s := g.in.make(kind, mode, g.label)
	list := []*series{s}
	if old := g.list.Load(); old != nil {
		list = append(list, *old...)
	}
	g.list.Store(&list)
	return s
}

// look returns the series of a kind and mode, or nil if there are none.
func (g *group) look(kind, mode string) *series {
	list := g.list.Load()
	if list == nil {
		return nil
	}
	for _, s := range *list {
		if s.kind == kind && s.mode == mode {
			return s
		}
	}
	return nil
}

// valid reports whether an exemplar may have these labels.
func valid(labels prometheus.Labels) bool {
	runes := 0
	for name, value := range labels {
		if !model.LegacyValidation.IsValidLabelName(name) || !utf8.ValidString(value) {
			return false
		}
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	return runes <= prometheus.ExemplarMaxRunes
}
