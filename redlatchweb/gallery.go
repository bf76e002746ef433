package redlatchweb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// exhibit is one state that the gallery shows.
type exhibit struct {
	Path, Title string
	Pages       []string // worth looking at
	source      canned
	options     Options
}

// Gallery returns the dashboard in each of its states, with made-up locks and without Redis, for
// looking at its design. Its index lists the states. Close ends the streams.
func Gallery() *GalleryHandler {
	g := &GalleryHandler{mux: http.NewServeMux()}
	for _, e := range exhibits() {
		h, err := newHandler(e.source, e.source.ForceRelease, e.options)
		if err != nil {
			panic(err) // the options are those below
		}
		h.patience = 300 * time.Millisecond
		h.poller.Recall("invoice:2026-11:settle", anHour())
		g.all, g.handlers = append(g.all, e), append(g.handlers, h)
		g.mux.Handle("/"+e.Path+"/", http.StripPrefix("/"+e.Path, h))
	}
	g.mux.HandleFunc("/{$}", g.index)
	g.mux.HandleFunc("/assets/", serveAsset)
	return g
}

// GalleryHandler is what [Gallery] returns.
type GalleryHandler struct {
	mux      *http.ServeMux
	all      []exhibit
	handlers []*Handler
}

// ServeHTTP shows the index, or an exhibit.
func (g *GalleryHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.handlers[0].guard(g.mux).ServeHTTP(w, r)
}

// Close ends all streams.
func (g *GalleryHandler) Close() {
	for _, h := range g.handlers {
		h.Close()
	}
}

var index = template.Must(template.New("gallery").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Gallery · redlatch</title>
<link rel="stylesheet" href="./assets/style.css?v={{.Assets}}"><script src="./assets/theme.js?v={{.Assets}}"></script></head>
<body><main class="wide"><h1 class="title">Every state of the dashboard</h1><p class="quiet">The locks are made up.</p>
<table class="list"><thead><tr><th scope="col">State</th><th scope="col">Pages</th></tr></thead><tbody>
{{range $e := .All}}<tr><th scope="row">{{.Title}}</th><td>{{range .Pages}}<a class="name" href="./{{$e.Path}}/{{.}}">{{.}}</a>{{end}}</td></tr>{{end}}
</tbody></table></main></body></html>
`))

func (g *GalleryHandler) index(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := index.Execute(&b, map[string]any{"All": g.all, "Assets": assetVersion}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w)
}

// canned is a source with made-up locks. Their times are a fixed distance before now, so that each
// look finds the same.
type canned struct {
	locks func(at time.Time) []redlatch.LockInfo
	nodes []redlatch.NodeInfo
	notes []redlatch.JournalEntry
	knots []redlatch.Deadlock
	err   error         // of List
	good  *atomic.Int64 // how many looks succeed before that; nil: none
	slow  time.Duration // until List answers
}

func (c canned) List(ctx context.Context, _ redlatch.ListOptions) iter.Seq2[redlatch.LockInfo, error] {
	return func(yield func(redlatch.LockInfo, error) bool) {
		select {
		case <-time.After(c.slow):
		case <-ctx.Done():
			yield(redlatch.LockInfo{}, ctx.Err())
			return
		}
		if c.err != nil && (c.good == nil || c.good.Add(-1) < 0) {
			yield(redlatch.LockInfo{}, c.err)
			return
		}
		for _, info := range c.locks(time.Now()) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// failed reports whether looks fail by now.
func (c canned) failed() bool { return c.err != nil && (c.good == nil || c.good.Load() < 0) }

func (c canned) Inspect(_ context.Context, name string) (redlatch.LockInfo, error) {
	now := time.Now()
	if c.failed() && errors.Is(c.err, redlatch.ErrUnreachable) {
		return redlatch.LockInfo{}, c.err
	}
	for _, info := range c.locks(now) {
		if info.Name == name {
			return info, nil
		}
	}
	return redlatch.LockInfo{Name: name, Key: "redlatch:" + name, At: now}, nil
}

func (c canned) Nodes(context.Context) []redlatch.NodeInfo { return c.nodes }

func (c canned) Journal(_ context.Context, q redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error] {
	return func(yield func(redlatch.JournalEntry, error) bool) {
		if c.failed() {
			yield(redlatch.JournalEntry{}, c.err)
			return
		}
		for _, e := range c.notes {
			if ok, _ := keys.Match(cmp.Or(q.Pattern, "*"), e.Name); ok && !yield(e, nil) {
				return
			}
		}
	}
}

func (c canned) Deadlocks(context.Context) ([]redlatch.Deadlock, error) { return c.knots, nil }

// ForceRelease takes nothing, since there is nothing to take.
func (c canned) ForceRelease(ctx context.Context, name string, _ redlatch.ForceOptions) (redlatch.LockInfo, error) {
	return c.Inspect(ctx, name)
}

// anHour is how a lock was waited for: a little at first, and then more and more. For a while no
// page was open.
func anHour() (past []fleet.Minute) {
	for i := range 59 {
		m := fleet.Minute{Looked: i < 8 || i > 14}
		switch {
		case m.Looked && i > 55:
			m.Waiting, m.Waited = 37, time.Duration(i-55)*time.Minute
		case m.Looked && i%7 != 3:
			m.Waiting, m.Waited = 1+i%5, time.Duration(i*i%17*i)*100*time.Millisecond
		}
		past = append(past, m)
	}
	return past
}

func process(i int) redlatch.Process {
	programs := []string{"billing", "reports", "crawler", "mailer", "indexer"}
	return redlatch.Process{Host: fmt.Sprintf("app-%02d.eu-west", i%12+1), PID: 2100 + 37*i, Program: programs[i%len(programs)]}
}

func client(i int) string { return fmt.Sprintf("rl-%06X", 0x5EA1*(i+3)%0xFFFFFF) }

func held(at time.Time, i int, since, remaining time.Duration) redlatch.Holder {
	began := at.Add(-since)
	return redlatch.Holder{
		Owner: fmt.Sprintf("%s-%d", client(i), i), Client: client(i), Process: process(i), Since: began,
		Token: 1795217225332088 + int64(i), Remaining: remaining, LastSeen: at.Add(-min(since, 12*time.Second)),
	}
}

func waits(at time.Time, i int, since time.Duration) redlatch.Waiter {
	return redlatch.Waiter{
		Owner: fmt.Sprintf("%s-%d", client(i), i), Client: client(i), Process: process(i), Since: at.Add(-since),
		LastSeen: at.Add(-min(since, 3*time.Second)),
	}
}

func lock(at time.Time, name, kind string, holders ...redlatch.Holder) redlatch.LockInfo {
	info := redlatch.LockInfo{Name: name, Key: "redlatch:" + name, Kind: kind, At: at, Holders: holders}
	for _, h := range holders {
		info.Token = max(info.Token, h.Token)
		info.Remaining = max(info.Remaining, h.Remaining)
	}
	return info
}

func line(at time.Time, n int, longest time.Duration) (all []redlatch.Waiter) {
	for i := range n {
		all = append(all, waits(at, 20+i, longest*time.Duration(n-i)/time.Duration(n)))
	}
	return all
}

// notes is a record with an entry of each type.
func notes(at time.Time) []redlatch.JournalEntry {
	entry := func(i int, ago time.Duration, what redlatch.JournalType, name, kind string) redlatch.JournalEntry {
		return redlatch.JournalEntry{ID: fmt.Sprint(i), At: at.Add(-ago), Type: what, Name: name, Kind: kind, Client: client(i), Process: process(i), Token: 1795217225332000 + int64(i)}
	}
	all := []redlatch.JournalEntry{
		entry(1, 53*time.Hour, redlatch.JournalLeader, "scheduler", "election"),
		entry(4, 3*time.Hour, redlatch.JournalHeld, "nightly:report", "job"),
		entry(5, 95*time.Minute, redlatch.JournalDeadlock, "account:7781", "mutex"),
		entry(6, 41*time.Minute, redlatch.JournalWaited, "invoice:2026-11:settle", "mutex"),
		entry(7, 22*time.Minute, redlatch.JournalTimeout, "invoice:2026-11:settle", "mutex"),
		entry(8, 12*time.Minute, redlatch.JournalJeopardy, "mail:digest", "mutex"),
		entry(9, 11*time.Minute, redlatch.JournalLost, "mail:digest", "mutex"),
		entry(10, 5*time.Minute, redlatch.JournalForced, "invoice:2026-11:settle", "mutex"),
	}
	all[0].Value = "https://app-07.eu-west:8443"
	all[1].Held, all[3].Waited, all[4].Waited = 10*time.Minute, 84*time.Second, 5*time.Minute
	all[5].Text, all[5].Remaining = "no answer from Redis", 19*time.Second
	all[6].Text, all[6].Reason, all[6].Held = "no answer from Redis for 30s", "expired", 6*time.Minute
	all[7].From = redlatch.Holder{Client: client(12), Process: process(12)}
	all[6].Labels = map[string]string{"trace": "4bf92f3577b34da6", "tenant": "acme"}
	return all
}

// knot is two processes that wait for each other.
func knot(at time.Time) []redlatch.Deadlock {
	blocked := func(i int, keeps, wants string) redlatch.Blocked {
		w := waits(at, i, 90*time.Second)
		w.Holds = []redlatch.Held{{Name: keeps, Kind: "mutex"}}
		return redlatch.Blocked{Waiter: w, Lock: wants, Kind: "mutex"}
	}
	return []redlatch.Deadlock{{Waiters: []redlatch.Blocked{blocked(3, "account:7781", "account:9120"), blocked(8, "account:9120", "account:7781")}}}
}

// deadlocked is the locks of knot.
func deadlocked(at time.Time) []redlatch.LockInfo {
	a := lock(at, "account:7781", "mutex", held(at, 3, 95*time.Second, 22*time.Second))
	a.Waiters = []redlatch.Waiter{knot(at)[0].Waiters[1].Waiter}
	b := lock(at, "account:9120", "mutex", held(at, 8, 92*time.Second, 24*time.Second))
	b.Waiters = []redlatch.Waiter{knot(at)[0].Waiters[0].Waiter}
	return []redlatch.LockInfo{a, b}
}

// contended is a deployment on a busy day, with each kind of lock.
func contended(at time.Time) []redlatch.LockInfo {
	invoice := lock(at, "invoice:2026-11:settle", "mutex", held(at, 1, 4*time.Minute+12*time.Second, 21*time.Second))
	invoice.Waiters = line(at, 37, 4*time.Minute)
	invoice.Holders[0].Labels = map[string]string{"tenant": "acme", "trace": "4bf92f3577b34da6a3ce929d0e0e4736"}
	invoice.Waiters[1].Callers = 40
	invoice.Waiters[0].Labels = map[string]string{"tenant": "umbrella", "request": "r-8812"}
	stock := lock(at, "stock:warehouse-7", "rwmutex", held(at, 2, 900*time.Millisecond, 29*time.Second), held(at, 3, 400*time.Millisecond, 28*time.Second))
	stock.Holders[0].Mode, stock.Holders[1].Mode = "read", "read"
	stock.Waiters = line(at, 6, 850*time.Millisecond)
	for i := range stock.Waiters {
		stock.Waiters[i].Mode = "read"
	}
	stock.Waiters[0].Mode = "write"
	render := lock(at, "render:gpu", "semaphore", held(at, 4, 31*time.Second, 27*time.Second), held(at, 5, 12*time.Second, 24*time.Second))
	render.Size, render.Holders[0].Permits, render.Holders[1].Permits = 8, 4, 4
	render.Waiters = line(at, 3, 9*time.Second)
	for i := range render.Waiters {
		render.Waiters[i].Permits = 2
	}
	scheduler := lock(at, "scheduler", "election", held(at, 6, 53*time.Hour, 26*time.Second))
	scheduler.Holders[0].Value = "https://app-07.eu-west:8443"
	scheduler.Waiters = line(at, 2, 49*time.Hour)
	shard := lock(at, "shards:primary", "election", held(at, 10, 7*time.Hour, 22*time.Second))
	shard.Holders[0].Value = "app-11.eu-west:9000"
	ids := lock(at, "worker-ids", "slotpool")
	ids.Size = 96
	for i := range 41 {
		h := held(at, 30+i, time.Duration(i+1)*11*time.Minute, 25*time.Second)
		h.Slot, h.Since, h.Dead = i, at.Add(-time.Duration(i+1)*11*time.Minute), i == 17
		if i%9 == 4 {
			h = redlatch.Holder{Slot: i, Resting: true, Remaining: 14 * time.Second, Client: h.Client}
		}
		ids.Holders = append(ids.Holders, h)
	}
	ids.Token, ids.Remaining = 1795217225339000, 25*time.Second
	nightly := lock(at, "nightly:report", "job", held(at, 7, 22*time.Minute, 28*time.Second))
	dead := lock(at, "mail:digest", "mutex", held(at, 8, 6*time.Minute, 9*time.Second))
	dead.Holders[0].Dead, dead.Holders[0].LastSeen = true, at.Add(-5*time.Minute)
	dead.Waiters = line(at, 2, 40*time.Second)
	foreign := lock(at, "cache:warm", "mutex", redlatch.Holder{Owner: "6f1c8a52-2f0f-4a58-9b0e-0d9f3f1f8a11", Foreign: true, Remaining: -1})
	foreign.Remaining = -1
	gone := lock(at, "import:eu", "mutex")
	gone.Waiters = line(at, 1, 70*time.Second)
	gone.Waiters[0].Dead = true
	list := redlatch.LockInfo{Name: "jobs", Key: "redlatch:jobs", RedisType: "list", At: at}
	entered := lock(at, "account:7781", "reentrant", held(at, 9, 2*time.Second, 28*time.Second))
	entered.Holders[0].EntryOf = "transfer-99120"
	return []redlatch.LockInfo{invoice, stock, render, scheduler, shard, ids, nightly, dead, foreign, gone, list, entered}
}

func many(n int) func(time.Time) []redlatch.LockInfo {
	return func(at time.Time) (all []redlatch.LockInfo) {
		for i := range n {
			l := lock(at, fmt.Sprintf("order:%06d", 100000+i*7), "mutex", held(at, i%200, time.Duration(i%900)*time.Second/10+time.Second, 20*time.Second))
			if i%23 == 0 {
				l.Waiters = line(at, i%11+1, time.Duration(i%50+1)*time.Second/5)
			}
			all = append(all, l)
		}
		return all
	}
}

var longName = strings.Repeat("tenant/4f3c2b1a/region/eu-west-1/customer/", 6) + "invoice"

func hostile(at time.Time) []redlatch.LockInfo {
	l := []redlatch.LockInfo{
		lock(at, `<script>alert("1")</script>`, "mutex", held(at, 1, time.Second, 20*time.Second)),
		lock(at, `"><img src=x onerror=alert(1)>`, "mutex", held(at, 2, time.Second, 20*time.Second)),
		lock(at, longName, "mutex", held(at, 3, time.Minute, 20*time.Second)),
		lock(at, "a b&c=d#e?f%2F../..;+", "mutex", held(at, 4, time.Second, 20*time.Second)),
		lock(at, "gesperrt:münchen:日本語:🔒", "mutex", held(at, 5, time.Second, 20*time.Second)),
		lock(at, "right\u202eotfel", "mutex", held(at, 6, time.Second, 20*time.Second)),
		lock(at, "javascript:alert(1)", "election", held(at, 7, time.Second, 20*time.Second)),
	}
	l[0].Waiters = line(at, 2, time.Second)
	l[0].Holders[0].Process = redlatch.Process{Host: "<b>host</b>", Program: "prog\x1b[31m\nname", PID: 1}
	l[0].Waiters[1].Labels = map[string]string{"<i>trace": "4bf9\x1b[2J\u202e", "tenant": strings.Repeat("acme", 60)}
	l[6].Holders[0].Value = "javascript:alert(document.cookie)"
	l[2].Waiters = line(at, 1, time.Second)
	l[2].Waiters[0].Process.Host = strings.Repeat("very-long-host-name-", 8) + "example"
	return l
}

func queue(at time.Time) []redlatch.LockInfo {
	l := lock(at, "the:one", "mutex", held(at, 1, 2*time.Hour, 20*time.Second))
	l.Waiters = line(at, 10000, 2*time.Hour)
	return []redlatch.LockInfo{l}
}

func quorumNodes3(mute bool) []redlatch.NodeInfo {
	var all []redlatch.NodeInfo
	for i, addr := range []string{"10.0.1.5:6379", "10.0.2.5:6379", "10.0.3.5:6379"} {
		n := redlatch.NodeInfo{Addr: addr, Took: time.Duration(310+97*i) * time.Microsecond}
		for _, kind := range []string{"election", "job", "mutex", "slotpool"} {
			n.Votes = append(n.Votes, redlatch.NodeVote{Kind: kind, State: redlatch.NodeVotes})
		}
		n.Votes[3].State = redlatch.NodeNew
		all = append(all, n)
	}
	if mute {
		all[1] = redlatch.NodeInfo{
			Addr: all[1].Addr,
			Err:  fmt.Errorf("redlatch: ask %s for its vote: %w: %w", all[1].Addr, redlatch.ErrUnreachable, context.DeadlineExceeded),
		}
		all[2].Votes[0] = redlatch.NodeVote{Kind: "election", State: redlatch.NodeRests, Rest: 18 * time.Second}
	}
	return all
}

func findings(context.Context) ([]Finding, error) {
	return []Finding{
		{"10.0.0.5:6379", "version", "ok", "Redis 8.6.3", ""},
		{"10.0.0.5:6379", "eviction", "fault", "maxmemory-policy allkeys-lru, maxmemory 2147483648", "a lock that is evicted can be held twice: CONFIG SET maxmemory-policy noeviction, or a server for locks alone"},
		{"10.0.0.5:6379", "replicas", "warning", "one replica, 4 s behind", "a failover now would lose the locks of these 4 s"},
		{"10.0.0.5:6379", "persistence", "note", "appendonly no, no snapshots", "a restart forgets all locks"},
		{"10.0.0.5:6379", "round trip", "ok", "0.4 ms, against a TTL of 30 s", ""},
		{"", "clocks", "ok", "within 12 ms of this machine's", ""},
	}, nil
}

func exhibits() []exhibit {
	none := func(time.Time) []redlatch.LockInfo { return nil }
	one := func(at time.Time) []redlatch.LockInfo {
		return []redlatch.LockInfo{lock(at, "nightly", "mutex", held(at, 1, 90*time.Second, 21*time.Second))}
	}
	all := Options{AllowRelease: true, Doctor: findings}
	down := fmt.Errorf("redlatch: list names on 10.0.0.5:6379: %w: dial tcp 10.0.0.5:6379: connect: connection refused", redlatch.ErrUnreachable)
	denied := fmt.Errorf("redlatch: list names on 10.0.0.5:6379: %w", &conn.ReplyError{Text: "NOPERM User metrics has no permissions to run the 'scan' command"})
	once := new(atomic.Int64)
	once.Store(1)
	return []exhibit{
		{"empty", "Nothing is locked", []string{"locks", "processes", "pools", "leaders", "record", "nodes", "health"}, canned{locks: none}, Options{}},
		{"one", "One lock", []string{"locks", "lock?name=nightly", "lock?name=free"}, canned{locks: one}, Options{}},
		{"contended", "A busy day", []string{
			"locks", "lock?name=invoice:2026-11:settle", "lock?name=worker-ids", "lock?name=mail:digest", "processes", "pools", "leaders", "record", "health", "locks?q=nosuchlock",
		}, canned{locks: contended, notes: notes(time.Now())}, all},
		{"deadlock", "A deadlock of two processes", []string{"locks", "lock?name=account:7781"}, canned{locks: deadlocked, knots: knot(time.Now())}, all},
		{"many", "5,000 locks", []string{"locks", "processes"}, canned{locks: many(5000)}, Options{}},
		{"queue", "10,000 waiters", []string{"locks", "lock?name=the:one"}, canned{locks: queue}, Options{}},
		{"down", "Redis is down", []string{"locks", "lock?name=nightly", "processes"}, canned{err: down, locks: none}, Options{}},
		{"lost", "Redis was there and is down", []string{"locks", "lock?name=mail:digest"}, canned{err: down, good: once, locks: contended}, Options{}},
		{"slow", "Redis is slow", []string{"locks"}, canned{locks: one, slow: 30 * time.Second}, Options{}},
		{"denied", "No right to SCAN", []string{"locks", "lock?name=nightly"}, canned{err: denied, locks: one}, Options{}},
		{"quorum", "A quorum", []string{"nodes"}, canned{locks: contended, nodes: quorumNodes3(false)}, Options{}},
		{"mute", "A quorum with a mute node", []string{"locks", "nodes"}, canned{locks: contended, nodes: quorumNodes3(true)}, Options{}},
		{"hostile", "Long names, and markup in names", []string{"locks", "processes", "leaders", "lock?name=%3Cscript%3Ealert(%221%22)%3C/script%3E", "lock?name=" + longName}, canned{locks: hostile}, all},
	}
}
