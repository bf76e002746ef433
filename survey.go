package redlatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// survey looks at what Redis knows of names: at one server, or as a majority of a quorum sees them.
//
//	names -- sniff --> kinds -- inspect --> holders and waiters -- recall --> their processes
type survey struct {
	asker   *ask.Asker
	conn    conn.Conn
	quorum  *quorum.Conn // conn, if it is one; else nil
	prefix  string
	timeout time.Duration
	liveFor time.Duration // for which a client is believed alive after each sign of life
}

func newSurvey(e *engine.Engine) *survey {
	return &survey{
		asker: e.Asker, conn: e.Conn, quorum: e.Quorum, prefix: e.Prefix, timeout: e.RequestTimeout, liveFor: e.LiveFor(),
	}
}

// view is what Redis, or one node of a quorum, knows of a name; err if that could not be found out.
type view struct {
	info  LockInfo
	about ask.Subject // what the name is used for; of no kind in particular if that is no lock
	free  bool        // there is no such key
	err   error
}

// look returns what is known of a name, and the lock that it is used for.
func (s *survey) look(ctx context.Context, name string) (LockInfo, ask.Subject, error) {
	v := s.lookAll(ctx, []string{name}, nil)[0]
	if v.err != nil {
		return LockInfo{}, ask.Subject{}, v.err
	}
	return v.info, v.about, nil
}

// lookAll is look for several names, with a view for each. Its requests go in few batches. What it
// learns of clients stays in met, if that is not nil, and is not asked for again.
func (s *survey) lookAll(ctx context.Context, names []string, met acquaintances) []view {
	if s.quorum != nil {
		return s.lookAtMost(ctx, names, met)
	}
	return s.lookAt(ctx, s.conn, names, met.at(0))
}

// acquaintances is what each node told of the clients that were met there, by id, for looks at many
// names.
type acquaintances []map[string]presence.Sign

// acquaintances returns that of no client yet.
func (s *survey) acquaintances() acquaintances {
	met := make(acquaintances, len(s.asker.Nodes()))
	for i := range met {
		met[i] = make(map[string]presence.Sign)
	}
	return met
}

// at returns what a node told, or nil if that is not to be kept.
func (met acquaintances) at(node int) map[string]presence.Sign {
	if met == nil {
		return nil
	}
	return met[node]
}

// lookAt is lookAll at one node.
func (s *survey) lookAt(ctx context.Context, node conn.Conn, names []string, met map[string]presence.Sign) []view {
	views := make([]view, len(names))
	for i, name := range names {
		set, err := keysOf(s.prefix, name)
		views[i] = view{
			info: LockInfo{Name: name, Key: set.State()}, err: err,
			about: ask.Subject{Kind: script.Mutex, Name: name, Keys: set}, // until it is known
		}
		s.adapt(&views[i].about)
	}
	s.askAll(ctx, node, views, func(v *view) conn.Call { return script.Sniff(v.about.Keys) }, s.sniffed)
	s.askAll(ctx, node, views, func(v *view) conn.Call { return v.about.Kind.Inspect(v.about.Keys) }, (*view).inspected)
	s.recall(ctx, node, views, met)
	return views
}

// adapt makes the kind of a lock that of the nodes of a quorum, over one.
func (s *survey) adapt(a *ask.Subject) {
	if q := a.Kind.Quorum(); s.quorum != nil && q != nil {
		a.Kind, a.Keys.Epoch = q, keys.Epoch(s.prefix, q.Name)
	}
}

// askAll sends a call for each view that has no error yet, all in one batch, and has the view heed
// the reply. A call to which the batch gets no answer is asked again by itself. If that gets none
// either, the others that are left fail with it.
func (s *survey) askAll(
	ctx context.Context, node conn.Conn, views []view, call func(*view) conn.Call, heed func(*view, conn.Reply) error,
) {
	var asked []*view
	var calls []conn.Call
	for i := range views {
		if v := &views[i]; v.err == nil {
			asked, calls = append(asked, v), append(calls, call(v))
		}
	}
	results := make([]conn.Result, len(calls))
	if len(calls) > 1 {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		results = node.Eval(limited, calls...)
	}
	var down error
	for i, v := range asked {
		reply := results[i].Reply
		if len(calls) == 1 || results[i].Err != nil {
			if v.err = down; down != nil {
				continue
			}
			var again ask.Answer
			if again, v.err = s.asker.AskNode(ctx, v.about, node, "inspect", calls[i]); v.err != nil {
				if ctx.Err() != nil || errors.Is(v.err, ErrUnreachable) {
					down = v.err
				}
				continue
			}
			reply = again.Reply
		}
		v.err = heed(v, reply)
	}
}

// sniffed notes what a name is used for.
func (s *survey) sniffed(v *view, r conn.Reply) error {
	use, err := script.ParseSniff(r)
	if err != nil {
		return err
	}
	a := &v.about
	v.free = use.RedisType == "none"
	if use.Kind != nil {
		a.Kind, v.info.Kind = use.Kind, use.Kind.Name
		s.adapt(a)
	} else if !v.free {
		v.info.RedisType = use.RedisType
	}
	if a.Kind == script.Countdown {
		v.info.Count, v.info.Size = script.CountOf(use.Parameter)
	}
	if a.Kind.Sized() {
		v.info.Size, _ = strconv.ParseInt(use.Parameter, 10, 64)
	}
	return nil
}

// inspected notes the holders and the line.
func (v *view) inspected(r conn.Reply) error {
	state, err := script.ParseInspect(r)
	if err != nil {
		return err
	}
	info := &v.info
	info.Token, info.Remaining, info.At = state.Token, state.Remaining, time.UnixMicro(state.Now)
	if v.free {
		info.Remaining = 0
	}
	info.Forced = parseForce(state.Forced, state.Note)
	for i, h := range state.Holders {
		info.Holders = append(info.Holders, newHolder(v.about.Kind, h))
		if i == 0 || h.Remaining > info.Remaining {
			info.Remaining = h.Remaining
		}
	}
	for _, w := range state.Waiters {
		if ticket, err := script.ParseTicket(w.Ticket); err == nil && ticket.Kind != script.Yielding {
			info.Waiters = append(info.Waiters, newWaiter(v.about.Kind, ticket, w))
		}
	}
	return nil
}

// recall fills in what is known of the clients of all holders and waiters, in one batch, and from met
// of those that were met before.
func (s *survey) recall(ctx context.Context, node conn.Conn, views []view, met map[string]presence.Sign) {
	var asked []presence.Key
	var clients []string
	place := make(map[string]int) // of a client in asked
	add := func(client, owner string) {
		if _, known := met[client]; known || client == "" {
			return
		}
		i, ok := place[client]
		if !ok {
			i = len(asked)
			place[client] = i
			asked, clients = append(asked, presenceKey(s.prefix, client)), append(clients, client)
		}
		switch {
		case met != nil:
			asked[i].Owners = []string{presence.All}
		case len(asked[i].Owners) < notes.Most:
			asked[i].Owners = append(asked[i].Owners, owner)
		}
	}
	for _, v := range views {
		for _, h := range v.info.Holders {
			add(h.Client, h.Owner)
		}
		for _, w := range v.info.Waiters {
			add(w.Client, w.Owner)
		}
	}
	signs, err := presence.Read(ctx, node, asked)
	if err != nil {
		err = fmt.Errorf("redlatch: read the records of clients on %s: %w", s.conn.Target().Addr, fault.Unreached(err))
		signs = make([]presence.Sign, len(asked))
	}
	known := met
	if known == nil {
		known = make(map[string]presence.Sign)
	}
	if err == nil {
		for i, client := range clients {
			known[client] = signs[i]
		}
	}
	for i := range views {
		v := &views[i]
		if v.err == nil {
			v.err = err
		}
		for j := range v.info.Holders {
			if h := &v.info.Holders[j]; h.Client != "" {
				h.meet(known[h.Client], v.info.At)
			}
		}
		for j := range v.info.Waiters {
			if w := &v.info.Waiters[j]; w.Client != "" {
				w.meet(known[w.Client], s.liveFor)
			}
		}
	}
}

// presenceKey is where to read about a client.
func presenceKey(prefix, client string) presence.Key {
	return presence.Key{
		Record: keys.Record(prefix, client), Channel: keys.Grants(prefix, client), Notes: keys.Notes(prefix, client),
	}
}
