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
)

// The report as a page and as text, and the plan.
var (
	//go:embed report.html.tmpl
	page string
	//go:embed report.txt.tmpl
	plain string
	//go:embed plan.txt.tmpl
	plan string

	functions = map[string]any{
		"seconds": func(d time.Duration) string { return d.Round(time.Second).String() },
		"span":    fleet.Span, "n": fleet.Count, "allowed": allowed,
		"join": strings.Join, "line": fleet.OneLine,
		"passed": func() string { return passed },
		"colour": func(worker string) template.CSS { return template.CSS(colour(worker)) },
	}
)

// passed says what PASS means.
const passed = "No violation was found, and enough faults hit to have shown one."

// Text returns a report for people.
func Text(r Report) string { return filled(plain, r) }

// PlanText returns a plan for people.
func PlanText(p Plan) string { return filled(plan, p) }

// filled fills in a template. It is parsed here, and not at each start of redlatch.
func filled(text string, data any) string {
	var b strings.Builder
	if err := texttemplate.Must(texttemplate.New("").Funcs(functions).Parse(text)).Execute(&b, data); err != nil {
		return err.Error()
	}
	return b.String()
}

// allowed says how many overlaps a check found while exclusion was not promised, and why.
func allowed(f history.Finding) string {
	var by []string
	for _, fault := range slices.Sorted(maps.Keys(f.ExcusedBy)) {
		by = append(by, fmt.Sprintf("%s after %s", fleet.Count(f.ExcusedBy[fault]), fault))
	}
	overlaps := fleet.Count(f.Excused) + " overlaps are"
	if f.Excused == 1 {
		overlaps = "1 overlap is"
	}
	return fmt.Sprintf("%s allowed: within one TTL after a fault by verify itself (%s); %s others",
		overlaps, strings.Join(by, ", "), fleet.Count(f.Bad))
}

// pageData is what the page shows.
type pageData struct {
	Report
	Glance template.HTML
	Legend []string // the numbers of the workers

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
	for i := range r.Plan.Workers {
		d.Legend = append(d.Legend, strconv.Itoa(i+1))
	}
	return template.Must(template.New("page").Funcs(functions).Parse(page)).Execute(out, d)
}

// The measures of the picture, in pixels.
const (
	left      = 130
	width     = 860
	faultHigh = 12 // of a row for a fault
	lockHigh  = 16 // of a row for a lock
	cells     = 430
)

// colour returns the colour of a worker's bars.
func colour(worker string) string {
	n, _ := strconv.Atoi(number(worker))
	return fmt.Sprintf("var(--w%d)", (max(n, 1)-1)%8+1)
}

// number returns the number of a worker without that of its life.
func number(worker string) string {
	n, _, _ := strings.Cut(worker, ".")
	return n
}

// svg is a picture of a run while it is being drawn.
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

// axis draws the time under a picture.
func (s *svg) axis(high float64) {
	for i := range 11 {
		t := (s.to - s.from) * int64(i) / 10
		x := s.x(s.from + t)
		fmt.Fprintf(s, `<line x1="%.1f" y1="0" x2="%.1f" y2="%.1f"/>`, x, x, high)
		s.text(x, high+14, "middle", fmt.Sprintf("%.1fs", float64(t)/1e9))
	}
}

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
	groups := h.ByName(Kinds(false)...)
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
	s.axis(y + 4)
	return template.HTML(fmt.Sprintf(`<svg width="%d" height="%.0f" role="img">%s</svg>`, left+width+30, y+26, s.String()))
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
