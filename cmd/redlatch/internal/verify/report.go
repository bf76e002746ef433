package verify

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/worker"
)

// The report as a page and as text.
var (
	//go:embed report.html.tmpl
	page string
	//go:embed report.txt.tmpl
	plain string

	functions = map[string]any{
		"seconds": func(d time.Duration) string { return d.Round(time.Second).String() },
		"span":    fleet.Span, "n": fleet.Count, "allowed": allowed,
		"passed": func() string { return passed },
		"colour": func(worker string) template.CSS { return template.CSS(colour(worker)) },
	}
	pageTemplate = template.Must(template.New("page").Funcs(functions).Parse(page))
	textTemplate = texttemplate.Must(texttemplate.New("text").Funcs(functions).Parse(plain))
)

// passed says what PASS means.
const passed = "No violation was found, and enough faults hit to have shown one."

// Text returns a report for people.
func Text(r Report) string {
	var b strings.Builder
	if err := textTemplate.Execute(&b, r); err != nil {
		return err.Error()
	}
	return b.String()
}

// allowed says which overlaps a check found at a time without its promise, and why.
func allowed(f history.Finding) string {
	var by []string
	for _, fault := range slices.Sorted(maps.Keys(f.ExcusedBy)) {
		by = append(by, fmt.Sprintf("%s after %s", fleet.Count(f.ExcusedBy[fault]), fault))
	}
	overlaps := fleet.Count(f.Excused) + " overlaps are"
	if f.Excused == 1 {
		overlaps = "1 overlap is"
	}
	return fmt.Sprintf("%s allowed: within one TTL after verify itself did harm (%s); %s others",
		overlaps, strings.Join(by, ", "), fleet.Count(f.Bad))
}

// pageData is what the page shows.
type pageData struct {
	Report
	Glance     template.HTML
	Close      template.HTML
	CloseTitle string
	Legend     []string // the numbers of the workers

	begin int64
}

// Second writes a time as seconds since the run began.
func (d pageData) Second(t int64) string { return fmt.Sprintf("%.3fs", float64(t-d.begin)/1e9) }

// writeFiles writes the report into the directory of a run.
func writeFiles(dir string, r Report, h *history.History) error {
	if err := writeJSON(filepath.Join(dir, "report.json"), r); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	defer file.Close()
	return writePage(file, r, h)
}

func writePage(out io.Writer, r Report, h *history.History) error {
	d := pageData{Report: r, Glance: glance(r, h), begin: h.Begin}
	var from int64
	from, d.CloseTitle = closeUp(r, h)
	d.Close = holdsBetween(h, from, from+int64(closeSpan))
	for i := range r.Plan.Workers {
		d.Legend = append(d.Legend, strconv.Itoa(i+1))
	}
	return pageTemplate.Execute(out, d)
}

// The measures of the picture, in pixels.
const (
	left    = 130
	width   = 860
	rowHigh = 18
)

// colour is that of a worker's bars.
func colour(worker string) string {
	n, _ := strconv.Atoi(number(worker))
	return fmt.Sprintf("var(--w%d)", (max(n, 1)-1)%8+1)
}

// number returns the number of a worker without that of its life.
func number(worker string) string {
	n, _, _ := strings.Cut(worker, ".")
	return n
}

// svg is a picture under way.
type svg struct {
	strings.Builder
	from, to int64
}

func (s *svg) x(t int64) float64 {
	t = min(max(t, s.from), s.to)
	return left + float64(t-s.from)/float64(max(s.to-s.from, 1))*width
}

func (s *svg) text(x, y float64, anchor, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

func (s *svg) bar(from, to int64, y, high float64, fill, title string) {
	x := s.x(from)
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`,
		x, y, max(s.x(to)-x, 1), high, fill, html.EscapeString(title))
}

// axis draws the time under a picture, from the begin of the history on.
func (s *svg) axis(h *history.History, high float64) {
	for i := range 11 {
		t := s.from + (s.to-s.from)*int64(i)/10
		fmt.Fprintf(s, `<line x1="%.1f" y1="0" x2="%.1f" y2="%.1f"/>`, s.x(t), s.x(t), high)
		s.text(s.x(t), high+14, "middle", fmt.Sprintf("%.1fs", float64(t-h.Begin)/1e9))
	}
}

// done returns the picture.
func (s *svg) done(high float64) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg width="%d" height="%.0f" role="img">%s</svg>`, left+width+30, high, s.String()))
}

// The measures of the whole run, in pixels.
const (
	faultHigh = 12 // of a row for a fault
	lockHigh  = 16 // of a row for a lock
	cells     = 430
)

// glance draws the whole run: the faults, and below them which worker held which lock.
func glance(r Report, h *history.History) template.HTML {
	s := &svg{from: h.Begin, to: max(h.End, h.Begin+1)}
	y := 0.0
	for _, e := range r.Faults {
		if e.Times == 0 {
			continue
		}
		s.text(left-8, y+faultHigh-2, "end", e.Name)
		for _, f := range h.Faults {
			if f.Name == e.Name {
				s.bar(f.Asked, f.At, y+2, faultHigh-4, "var(--dim)", strings.TrimSpace(fmt.Sprintf("%s %s at %s", f.Name, f.Target, h.At(f.Asked))))
			}
		}
		y += faultHigh
	}
	y += 8
	groups := h.ByName(worker.Kinds(false)...)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		s.text(left-8, y+lockHigh-4, "end", name)
		s.cells(groups[name], y+3)
		for _, f := range r.Findings {
			for _, e := range f.Excuses {
				if e.Name == name {
					s.bar(e.At, e.At, y, 4, "var(--mark)", fmt.Sprintf("allowed for a TTL after %s", e.Fault))
				}
			}
			if f.Bad > 0 && f.Name == name {
				s.bar(f.At, f.At+(s.to-s.from)/300, y, lockHigh, "var(--bad)", f.Check)
			}
		}
		y += lockHigh
	}
	s.axis(h, y+4)
	return s.done(y + 26)
}

// cells draws which worker was the first to hold a lock in each cell of the run, a path for each
// worker.
func (s *svg) cells(holds []*history.Hold, y float64) {
	slices.SortFunc(holds, func(a, b *history.Hold) int { return cmp.Compare(a.First, b.First) })
	wide, next := max((s.to-s.from)/cells, 1), int64(0)
	paths := make(map[string]*strings.Builder)
	for _, k := range holds {
		if !k.Believed() {
			continue
		}
		path := paths[number(k.Worker)]
		if path == nil {
			path = new(strings.Builder)
			paths[number(k.Worker)] = path
		}
		next = max(next, (k.First-s.from)/wide)
		for ; next <= (k.Last-s.from)/wide && next < cells; next++ {
			x := left + next*width/cells
			fmt.Fprintf(path, "M%d %.0fh%dv%dh-%dz", x, y, width/cells, lockHigh-5, width/cells)
		}
	}
	for _, worker := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintf(s, `<path d="%s" fill="%s"><title>worker %s</title></path>`,
			paths[worker], colour(worker), html.EscapeString(worker))
	}
}

// closeSpan is how much of a run the picture shows.
const closeSpan = 2 * time.Second

// closeUp chooses what that is: the first violation, or a time in which a fault struck a holder.
func closeUp(r Report, h *history.History) (from int64, title string) {
	var first *history.Finding
	for i, f := range r.Findings {
		if f.Bad > 0 && f.At != 0 && (first == nil || f.At < first.At) {
			first = &r.Findings[i]
		}
	}
	if first != nil {
		return first.At - int64(closeSpan)/2, "Around the first violation: " + first.Check
	}
	for _, name := range []string{"stop", "stall", "kill", "delay"} {
		for _, e := range h.Faults {
			if e.Name == name && e.Count > 0 && e.Asked > h.Begin+int64(time.Second) {
				return e.Asked - int64(closeSpan)/4, "Two seconds of it, with the fault " + name
			}
		}
	}
	return h.Begin, "The first two seconds"
}

// holdsBetween draws which workers believed that they held which locks in a part of a run.
func holdsBetween(h *history.History, from, to int64) template.HTML {
	rows := make(map[string][]*history.Hold)
	for _, k := range h.Holds {
		if !k.Believed() || k.Last < from || k.First > to {
			continue
		}
		name := k.Name
		if k.Kind == history.SlotPool {
			name = fmt.Sprintf("%s/%d", name, k.Slot)
		}
		rows[name] = append(rows[name], k)
	}
	row, bars := 0, &svg{from: from, to: to}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		bars.text(left-8, float64(row*rowHigh)+32, "end", name)
		var ends []int64 // of the sub-rows: those that are inside together are below each other
		slices.SortFunc(rows[name], func(a, b *history.Hold) int { return cmp.Compare(a.First, b.First) })
		for _, k := range rows[name] {
			i := slices.IndexFunc(ends, func(end int64) bool { return end < k.First })
			if i < 0 {
				i = len(ends)
				ends = append(ends, 0)
			}
			ends[i] = k.Last
			bars.bar(k.First, k.Last, float64((row+i)*rowHigh)+22, rowHigh-5, colour(k.Worker),
				fmt.Sprintf("worker %s, call %d, token %d %s: %s to %s",
					k.Worker, k.Op, k.Token, k.Mode, h.At(k.First), h.At(k.Last)))
		}
		row += len(ends)
	}
	high := float64(row*rowHigh + 28)
	s := &svg{from: from, to: to}
	free := [2]float64{} // from where on there is room for the names of faults, in two lines
	for _, e := range h.Faults {
		if e.Name == lateClock || e.At < from || e.Asked > to {
			continue
		}
		text := strings.TrimSpace(e.Name + " " + e.Target)
		s.bar(e.Asked, e.At, 0, high, "var(--fault)", text)
		for i := range free {
			if x := s.x(e.Asked) + 2; x >= free[i] {
				s.text(x, 10+float64(i)*9, "start", text)
				free[i] = x + float64(len(text))*6
				break
			}
		}
	}
	s.axis(h, high)
	s.WriteString(bars.String())
	return s.done(high + 22)
}
