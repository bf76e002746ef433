package redlatchweb

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/groups"
	"github.com/redlatch/redlatch/internal/fleet"
)

const (
	perPage = 100 // rows of a list
	perPool = 10  // pools on their page, as each has a map
)

// rows is a part of a list.
type rows[T any] struct {
	Rows       []T
	From, To   int // of Total, from 1 on; 0 if there are none
	Total      int
	Prev, Next string // the value of from; "" if there is none
	TotalOfAll int    // without search and filters
	Narrowed   bool   // there is a search or a filter
	Kinds      []string
	Query      fleet.Query
	Forbidden  bool // the user may not list names
	Known      bool // there is a picture
	Sparks     []spark
	Figures    fleet.Totals
}

// paged returns the rows that a page shows.
func paged[T any](all []T, q url.Values, perPage int) rows[T] {
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil || from < 0 || from >= len(all) {
		from = 0
	}
	to := min(from+perPage, len(all))
	r := rows[T]{Rows: all[from:to], From: from + 1, To: to, Total: len(all)}
	if len(all) == 0 {
		r.From = 0
	}
	if from > 0 {
		r.Prev = strconv.Itoa(max(0, from-perPage))
	}
	if to < len(all) {
		r.Next = strconv.Itoa(to)
	}
	return r
}

func query(q url.Values) fleet.Query {
	one := func(key string, allowed []string) string {
		if v := q.Get(key); slices.Contains(allowed, v) {
			return v
		}
		return ""
	}
	return fleet.Query{Search: q.Get("q"), Kind: one("kind", kinds), State: one("state", fleet.States), Sort: one("sort", fleet.Sorts)}
}

// kinds are the kinds of locks.
var kinds = append(slices.Clone(groups.Kinds), "countdown")

func showLocks(_ *Handler, p *fleet.Picture, values url.Values) any {
	q := query(values)
	r := paged(q.Select(p.Locks), values, perPage)
	r.TotalOfAll, r.Query, r.Kinds, r.Figures = len(p.Locks), q, kinds, p.Totals
	r.Narrowed = q.Search != "" || q.Kind != "" || q.State != ""
	r.Forbidden, r.Known = forbidden(p.Err), !p.Taken.IsZero() || p.Found > 0
	r.Sparks = []spark{
		newSpark(p.History, func(t fleet.Totals) float64 { return float64(t.Holders) }),
		newSpark(p.History, func(t fleet.Totals) float64 { return float64(t.Waiters) }),
		newSpark(p.History, func(t fleet.Totals) float64 { return t.LongestWaited.Seconds() }),
		newSpark(p.History, func(t fleet.Totals) float64 { return t.LongestHeld.Seconds() }),
	}
	return r
}

func showProcesses(_ *Handler, p *fleet.Picture, values url.Values) any {
	all := p.Processes()
	search := strings.ToLower(values.Get("q"))
	var found []*fleet.Process
	for _, q := range all {
		if strings.Contains(strings.ToLower(fmt.Sprint(q.Host, " ", q.Program, " ", q.PID, " ", q.Client)), search) {
			found = append(found, q)
		}
	}
	r := paged(found, values, perPage)
	r.TotalOfAll, r.Narrowed, r.Query.Search = len(all), search != "", values.Get("q")
	return r
}

// pool is a pool of slots, and the map of it.
type pool struct {
	*fleet.Lock
	Held, Resting, Free int
	Dead                int // of the holders
	Cells               []cell
	Cut                 int // slots that the map leaves out
}

// cell is a slot in the map.
type cell struct {
	Slot        int
	State, Text string
}

// mapped is how many slots a map shows at most.
const mapped = 1024

func newPool(l *fleet.Lock) pool {
	size := int(l.Size)
	p := pool{Lock: l, Cut: max(0, size-mapped)}
	holders := make(map[int]redlatch.Holder, len(l.Holders))
	for _, h := range l.Holders {
		holders[h.Slot] = h
		switch {
		case h.Resting:
			p.Resting++
		case h.Dead:
			p.Dead++
			fallthrough
		default:
			p.Held++
		}
	}
	p.Free = max(0, size-p.Held-p.Resting)
	for slot := range min(size, mapped) {
		c := cell{Slot: slot, State: "free", Text: "free"}
		if h, ok := holders[slot]; ok {
			c.State, c.Text = "held", "held by "+fleet.HolderText(l.Kind, h)
			switch {
			case h.Resting:
				c.State, c.Text = "resting", fleet.HolderText(l.Kind, h)
			case h.Dead:
				c.State, c.Text = "dead", "held by "+fleet.HolderText(l.Kind, h)+", believed dead"
			}
		}
		p.Cells = append(p.Cells, c)
	}
	return p
}

func showPools(_ *Handler, p *fleet.Picture, values url.Values) any {
	locks := fleet.Query{Kind: "slotpool", Sort: "name"}.Select(p.Locks)
	r := paged(locks, values, perPool)
	pools := rows[pool]{From: r.From, To: r.To, Total: r.Total, Prev: r.Prev, Next: r.Next, TotalOfAll: len(locks)}
	for _, l := range r.Rows {
		pools.Rows = append(pools.Rows, newPool(l))
	}
	return pools
}

func showLeaders(_ *Handler, p *fleet.Picture, values url.Values) any {
	locks := fleet.Query{Kind: "election", Sort: "name"}.Select(p.Locks)
	r := paged(locks, values, perPage)
	r.TotalOfAll = len(locks)
	return r
}

// quorumNodes are the nodes and whether they are enough.
type quorumNodes struct {
	Nodes    []redlatch.NodeInfo
	Kinds    []string
	Majority int
	Up       int
}

func showNodes(_ *Handler, p *fleet.Picture, _ url.Values) any {
	n := quorumNodes{Nodes: p.Nodes, Majority: len(p.Nodes)/2 + 1}
	for _, node := range p.Nodes {
		if node.Err == nil {
			n.Up++
		}
		for _, v := range node.Votes {
			if !slices.Contains(n.Kinds, v.Kind) {
				n.Kinds = append(n.Kinds, v.Kind)
			}
		}
	}
	return n
}

// recordPage is what happened.
type recordPage struct {
	*fleet.Record
	Narrowed bool
	Types    []redlatch.JournalType
	Type     string
	All      int
}

// types are what the record can be narrowed to.
var types = []redlatch.JournalType{
	redlatch.JournalLost, redlatch.JournalJeopardy, redlatch.JournalForced, redlatch.JournalAdopted, redlatch.JournalTimeout, redlatch.JournalDeadlock,
	redlatch.JournalWaited, redlatch.JournalHeld, redlatch.JournalLeader,
}

func showRecord(_ *Handler, p *fleet.Picture, values url.Values) any {
	page := recordPage{Types: types, Type: values.Get("type")}
	all := p.Record("")
	if all == nil {
		return page
	}
	search := strings.ToLower(values.Get("q"))
	page.All, page.Narrowed = len(all.Entries), search != "" || page.Type != ""
	page.Record = &fleet.Record{Err: all.Err, Read: all.Read}
	for _, e := range all.Entries {
		text := strings.ToLower(fmt.Sprint(e.Name, " ", e.Process.Host, " ", e.Process.Program, " ", fleet.LabelText(e.Labels)))
		if strings.Contains(text, search) && (page.Type == "" || page.Type == string(e.Type)) {
			page.Entries = append(page.Entries, e)
		}
	}
	return page
}

func showHealth(h *Handler, _ *fleet.Picture, _ url.Values) any { return h.health.report(h.closing) }

// lockPage is all about one lock.
type lockPage struct {
	*fleet.Lock
	Err        error // of the last look at it
	Pool       *pool
	Shown      []redlatch.Holder // the first of the holders
	Hidden     int               // the others
	Rests      int               // places that are kept free
	Kept       int               // holders that only keep the lock
	Hour       *hour             // how the lock was waited for
	More       int               // waiters that are not shown
	MayRelease bool
	Record     *fleet.Record
	Deadlocks  []redlatch.Deadlock // that the lock is part of
	Released   bool
}

func showLock(h *Handler, p *fleet.Picture, values url.Values) any {
	l, err := p.Detail(values.Get("name"))
	page := lockPage{Lock: l, Err: err, MayRelease: h.release != nil}
	page.Record = p.Record(values.Get("name"))
	for _, d := range p.Deadlocks {
		if slices.ContainsFunc(d.Waiters, func(w redlatch.Blocked) bool { return w.Lock == values.Get("name") }) {
			page.Deadlocks = append(page.Deadlocks, d)
		}
	}
	if l != nil {
		// The address alone proves nothing: it may be old, or made up.
		page.Released = values.Get("released") != "" && l.Forced != nil && l.At.Sub(l.Forced.At) < time.Minute
		page.More = l.Waiting + l.Deaf - len(l.Waiters)
		for _, h := range l.Holders {
			switch {
			case h.Resting:
				page.Rests++
			case !h.Kept.IsZero():
				page.Kept++
			}
		}
		if !l.Standby() {
			page.Hour = newHour(p.Hour(l.Name))
		}
		l := *l
		l.Holders = slices.Clone(l.Holders)
		slices.SortFunc(l.Holders, func(a, b redlatch.Holder) int {
			return cmp.Or(fleet.LiveFirst(a, b), cmp.Compare(a.Slot, b.Slot), a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner))
		})
		page.Lock, page.Hidden = &l, max(0, len(l.Holders)-fleet.Line)
		page.Shown = l.Holders[:len(l.Holders)-page.Hidden]
		if l.Kind == "slotpool" {
			page.Pool = new(newPool(&l))
		}
	}
	return page
}

// hour is the chart of how a lock was waited for, and a summary of it in words.
type hour struct {
	Bars []minute // none without a waiter
	Text string
}

// minute is a bar of it, in a box of 600 by 64.
type minute struct {
	X, Y         string
	Wide, High   string
	Class, Title string
}

func newHour(past []fleet.Minute) *hour {
	if past == nil {
		return nil
	}
	var looked, most int
	var longest time.Duration
	for _, m := range past {
		if m.Looked {
			looked++
		}
		most, longest = max(most, m.Waiting), max(longest, m.Waited)
	}
	seen := fmt.Sprintf("The dashboard looked in %d of the %d minutes.", looked, len(past))
	if most == 0 {
		return &hour{Text: "No waiters were seen. " + seen}
	}
	h := &hour{Text: fmt.Sprintf("The longest wait was %s, and at most %s were waiting at once. %s", fleet.Span(longest), fleet.Count(most), seen)}
	for i, m := range past {
		ago := len(past) - 1 - i
		bar := minute{Class: "none", Wide: "8.5", Title: fmt.Sprintf("%d min ago: no waiters", ago)}
		high := 1.0
		switch {
		case !m.Looked:
			bar.Class, bar.Title = "unseen", fmt.Sprintf("%d min ago: not looked", ago)
			bar.Wide, high = "10", 64
		case m.Waiting > 0:
			bar.Class, high = "some", max(2, 62*m.Waited.Seconds()/max(longest, 1).Seconds())
			if m.Waited >= longWait {
				bar.Class = "hot"
			}
			bar.Title = fmt.Sprintf("%d min ago: %s waiting, the longest for %s", ago, fleet.Count(m.Waiting), fleet.Span(m.Waited))
		}
		bar.X, bar.Y, bar.High = fmt.Sprint(i*10), fmt.Sprintf("%.1f", 64-high), fmt.Sprintf("%.1f", high)
		h.Bars = append(h.Bars, bar)
	}
	return h
}

// spark is a small curve of past values.
type spark struct {
	Points string // of a polyline in a box of 100 by 24
}

func newSpark(history []fleet.Totals, value func(fleet.Totals) float64) spark {
	if len(history) < 3 {
		return spark{}
	}
	least, most := value(history[0]), 0.0
	for _, t := range history {
		least, most = min(least, value(t)), max(most, value(t))
	}
	if most == least {
		return spark{} // it tells nothing
	}
	first, last := history[0].At, history[len(history)-1].At
	whole := max(last.Sub(first), time.Second)
	var points []string
	for _, t := range history {
		x := float64(t.At.Sub(first)) / float64(whole) * 100
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, 22-value(t)/most*20))
	}
	return spark{strings.Join(points, " ")}
}
