package redlatchweb

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
)

// page is one kind of page: what it is called, its template, and what it shows.
type page struct {
	Path  string // relative to the dashboard; also the name of its template
	Title string
	show  func(h *Handler, p *fleet.Picture, q url.Values) any
	menu  bool
}

var pages = []page{
	{"locks", "Locks", showLocks, true},
	{"processes", "Processes", showProcesses, true},
	{"pools", "Pools", showPools, true},
	{"leaders", "Leaders", showLeaders, true},
	{"record", "Record", showRecord, true},
	{"nodes", "Nodes", showNodes, true},
	{"health", "Health", showHealth, true},
	{"lock", "Lock", showLock, false},
}

func pageAt(path string) (page, bool) {
	for _, p := range pages {
		if p.Path == path {
			return p, true
		}
	}
	return page{}, false
}

//go:embed templates/*.html
var templateFiles embed.FS

// layout returns the templates. They are parsed when the first page is asked for: a program that
// imports this package, such as the command, may never serve a page.
var layout = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/*.html"))
})

// frame is what every template gets.
type frame struct {
	Page    page
	Menu    []page
	Title   string
	Name    string     // of the lock that the page is about
	Query   url.Values // of the page, without pause
	Paused  bool
	Picture *fleet.Picture
	Now     time.Time
	Data    any
	Assets  string // changes when an asset does

	Problem, Advice string // of a page that refuses
}

func (h *Handler) frame(pg page, p *fleet.Picture, q url.Values) *frame {
	f := &frame{Page: pg, Title: pg.Title, Query: url.Values{}, Paused: q.Get("pause") != "", Picture: p, Now: time.Now(), Assets: assetVersion}
	for key, values := range q {
		if key != "pause" && key != "page_of" {
			f.Query[key] = values
		}
	}
	for _, other := range pages {
		if other.menu {
			f.Menu = append(f.Menu, other)
		}
	}
	if pg.Path == "lock" {
		f.Name = q.Get("name")
		f.Title = fleet.Visible(f.Name)
	}
	f.Data = pg.show(h, p, f.Query)
	return f
}

// Lists reports whether the page shows what looks at all names find.
func (f *frame) Lists() bool {
	return slices.Contains([]string{"locks", "processes", "pools", "leaders"}, f.Page.Path)
}

// status is how fresh a page is.
type status struct{ Text, Dot string }

// Status returns how fresh what the page shows is.
func (f *frame) Status() status {
	text, failing := fleet.Live, false
	switch r := f.Picture.Record(""); {
	case f.Lists():
		text, failing = f.Picture.Status("", f.Now)
	case f.Page.Path == "lock":
		text, failing = f.Picture.Status(f.Name, f.Now)
	case f.Page.Path == "record" && r == nil, f.Page.Path == "nodes" && f.Picture.Number == 0:
		text = "looking"
	case f.Page.Path == "record" && r.Err != nil:
		text, failing = "cannot be read", true
	case f.Page.Path == "record":
		text = fleet.Age(f.Now.Sub(r.Read))
	case f.Page.Path == "nodes" && len(f.Picture.Nodes) > 0:
		text = fleet.Age(f.Now.Sub(f.Picture.Asked))
	}
	switch {
	case failing:
		return status{text, "old"}
	case text != fleet.Live:
		return status{text, "wait"}
	}
	return status{text, ""}
}

// Unknown is what an empty list says as long as no look has ended, or names may be missing; else "".
func (f *frame) Unknown() string {
	switch {
	case len(fleet.Mute(f.Picture.Nodes)) > 0:
		return "Not known"
	case !f.Picture.Taken.IsZero():
		return ""
	case f.Picture.Err == nil:
		return "Looking…"
	}
	return "Not known"
}

// Link is the address of the page with one parameter changed.
func (f *frame) Link(key, value string) string {
	q := url.Values{}
	for k, v := range f.Query {
		if k != "from" || key == "from" {
			q[k] = v
		}
	}
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	return "./" + f.Page.Path + "?" + q.Encode()
}

// PauseLink is the address of the page as it is when it is paused, or not.
func (f *frame) PauseLink() string {
	if f.Paused {
		return f.Link("pause", "")
	}
	return f.Link("pause", "1")
}

// Events is the address of the stream for the page.
func (f *frame) Events() string { return "./events?page_of=" + f.Page.Path + "&" + f.Query.Encode() }

// watches is what the page shows beside the list of all names.
func watches(pg page, q url.Values) fleet.Interest {
	switch pg.Path {
	case "lock":
		return fleet.Interest{Name: q.Get("name")}
	case "record":
		return fleet.Interest{Record: true}
	}
	return fleet.Interest{}
}

// parameters are those that pages have. Others would come back in each link of a page.
var parameters = []string{"name", "q", "kind", "state", "sort", "type", "from", "pause", "released", "page_of"}

const maxParameter = 2048 // bytes; the name of a lock has 512, and a label fewer

// asked returns the parameters of a request that pages have. It reports false if one is too long.
func asked(r *http.Request) (url.Values, bool) {
	q, given := url.Values{}, r.URL.Query()
	for _, key := range parameters {
		switch v := given.Get(key); {
		case len(v) > maxParameter:
			return nil, false
		case v != "":
			q.Set(key, v)
		}
	}
	return q, true
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, pg page) {
	q, ok := asked(r)
	if !ok {
		h.refuse(w, http.StatusRequestURITooLong, "This address is too long", "No name of a lock and no search is that long.")
		return
	}
	if pg.Path == "lock" && q.Get("name") == "" {
		h.refuse(w, http.StatusNotFound, "Which lock?", "The address of a lock's page ends in ?name= and the name.")
		return
	}
	f := h.frame(pg, h.picture(r.Context(), watches(pg, q)), q)
	h.write(w, http.StatusOK, f)
}

// refuse answers with a page that says why not, and what to do.
func (h *Handler) refuse(w http.ResponseWriter, status int, problem, advice string) {
	p, _ := h.poller.Picture()
	none := page{Path: "problem", Title: problem, show: func(*Handler, *fleet.Picture, url.Values) any { return nil }}
	f := h.frame(none, p, url.Values{"pause": {"1"}})
	f.Problem, f.Advice = problem, advice
	h.write(w, status, f)
}

// write renders a whole page before it sends the first byte, so that an error is one.
func (h *Handler) write(w http.ResponseWriter, status int, f *frame) {
	var b bytes.Buffer
	if err := layout().Execute(&b, f); err != nil {
		h.options.Log.Error("redlatchweb: a page cannot be rendered", "page", f.Page.Path, "err", err)
		http.Error(w, "the page cannot be rendered: the log of the program says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
}

// part renders the live parts of a page.
func (h *Handler) part(pg page, p *fleet.Picture, q url.Values) (*part, error) {
	return h.renders.of(p.Number, pg.Path+"?"+q.Encode(), func() (*part, error) {
		f := h.frame(pg, p, q)
		var status, content bytes.Buffer
		if err := layout().ExecuteTemplate(&status, "status", f); err != nil {
			return nil, err
		}
		if err := layout().ExecuteTemplate(&content, "content", f); err != nil {
			return nil, err
		}
		return &part{newLive(status.Bytes()), newLive(content.Bytes())}, nil
	})
}
