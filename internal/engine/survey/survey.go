// Package survey reads what Redis knows about names: at one server, or as a majority of a quorum
// sees them. It changes nothing.
//
//	keys --- List ---> names -- sniff --> kinds -- inspect --> holders and waiters -- recall --> their processes
//	notes -- Deadlocks -'          of a quorum at each node, and then what most of them agree on
//
// The root package makes its own types of these pictures.
package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Survey looks with the connection of one client.
type Survey struct {
	Asker   *ask.Asker
	Conn    conn.Conn
	Quorum  *quorum.Conn // Conn, if it is one; else nil
	Prefix  string
	Timeout time.Duration
	LiveFor time.Duration // how long a client is believed alive after each sign of life
	Now     clock.Clock
	Closing context.Context // nothing is sent again once it is done

	few  bool   // see LookInside
	down error  // of a request without an answer, after which no other is sent again; else nil
	of   string // the kind of lock that a name is looked at for; "" for any
}

// unanswered is [fault.Unanswered]. Once the client is closing, the error also matches
// [fault.ErrClosed].
func (s *Survey) unanswered(ctx context.Context, err error) error {
	err = fault.Unanswered(ctx, err)
	if s.Closing.Err() != nil {
		return fmt.Errorf("%w: %w", fault.ErrClosed, err)
	}
	return err
}

// batchSize is how many names are looked at in one batch.
const batchSize = 100

// Look returns what is known of a name.
func (s *Survey) Look(ctx context.Context, name string) (Picture, error) {
	p := s.lookAll(ctx, []string{name}, nil)[0]
	return p, p.err
}

// LookInside is Look for a lock of that kind, without waiters, and without the processes of more
// than a few holders: its cost does not depend on how many clients wait. Programs may look often,
// and when a leader changes all candidates look.
func (s *Survey) LookInside(ctx context.Context, kind, name string) (Picture, error) {
	inside := *s
	inside.few, inside.of = true, kind
	return inside.Look(ctx, name)
}

// fewHolders is how many holders LookInside returns the process of.
const fewHolders = 16

// lookAll is Look for several names, with a picture for each. Its requests go in few batches. What it
// learns of clients stays in met, if that is not nil, and is not asked for again.
func (s *Survey) lookAll(ctx context.Context, names []string, met acquaintances) []Picture {
	if s.Quorum != nil {
		return s.lookAtMost(ctx, names, met)
	}
	return s.lookAt(ctx, s.Conn, names, met.at(0))
}

// acquaintances is what each node told of the clients that were met there, by id, for looks at many
// names.
type acquaintances []map[string]presence.Sign

// acquaintances returns a value with no client yet.
func (s *Survey) acquaintances() acquaintances {
	met := make(acquaintances, len(s.Asker.Nodes()))
	for i := range met {
		met[i] = make(map[string]presence.Sign)
	}
	return met
}

// at returns what a node told, or nil if that is not kept.
func (met acquaintances) at(node int) map[string]presence.Sign {
	if met == nil {
		return nil
	}
	return met[node]
}

// lookAt is lookAll at one node.
func (s *Survey) lookAt(ctx context.Context, node conn.Conn, names []string, met map[string]presence.Sign) []Picture {
	all := make([]Picture, len(names))
	for i, name := range names {
		p := &all[i]
		p.Kind, p.Name = cmp.Or(script.Named(s.of), script.Mutex), name // until it is known
		if p.Keys, p.err = keys.Of(s.Prefix, name); p.err != nil {
			p.err = fault.Invalid("name %.80q: %w", name, p.err)
		}
		s.adapt(p)
	}
	s.askAll(ctx, node, all, func(p *Picture) conn.Call { return script.Sniff(p.Keys) }, s.sniffed)
	inspect := (*script.Kind).Inspect
	if s.few {
		inspect = (*script.Kind).InspectInside
	}
	s.askAll(ctx, node, all, func(p *Picture) conn.Call { return inspect(p.Kind, p.Keys) }, (*Picture).inspected)
	s.recall(ctx, node, all, met)
	return all
}

// unknown has the word in errors for the kind of a name that was not sniffed yet.
var unknown = script.Kind{Name: "lock"}

// adapt replaces the kind of a lock with that of the nodes of a quorum, over one.
func (s *Survey) adapt(p *Picture) {
	if q := p.Kind.Quorum(); s.Quorum != nil && q != nil {
		p.Kind, p.Keys.Epoch = q, keys.Epoch(s.Prefix, q.Name)
	}
}

// askAll sends a call for each picture that has no error yet, all in one batch, and calls heed with
// each reply. A call without an answer in the batch is sent again by itself. If that gets none
// either, the rest fail with its error. With s.down, none is sent again.
func (s *Survey) askAll(
	ctx context.Context, node conn.Conn, all []Picture, call func(*Picture) conn.Call, heed func(*Picture, conn.Reply) error,
) {
	var asked []*Picture
	var calls []conn.Call
	for i := range all {
		if p := &all[i]; p.err == nil {
			asked, calls = append(asked, p), append(calls, call(p))
		}
	}
	results := make([]conn.Result, len(calls))
	alone := len(calls) == 1 && s.down == nil
	if len(calls) > 0 && !alone {
		limited, cancel := context.WithTimeout(ctx, s.Timeout)
		defer cancel()
		results = node.Eval(limited, calls...)
	}
	down := s.down
	for i, p := range asked {
		reply := results[i].Reply
		if alone || results[i].Err != nil {
			if p.err = down; down != nil {
				continue
			}
			subject := p.Subject
			if s.of == "" && !p.Lock && !p.free && p.RedisType == "" {
				subject.Kind = &unknown
			}
			var again ask.Answer
			if again, p.err = s.Asker.AskNode(ctx, subject, node, "inspect", calls[i]); p.err != nil {
				if ctx.Err() != nil || errors.Is(p.err, fault.ErrUnreachable) {
					down = p.err
				}
				continue
			}
			reply = again.Reply
		}
		p.err = heed(p, reply)
	}
}

// sniffed notes what a name is used for.
func (s *Survey) sniffed(p *Picture, r conn.Reply) error {
	use, err := script.ParseSniff(r)
	if err != nil {
		return err
	}
	p.free, p.Lock = use.RedisType == "none", use.Kind != nil
	switch {
	case p.Lock:
		p.Kind = use.Kind
		s.adapt(p)
	case !p.free:
		p.RedisType = use.RedisType
	}
	if p.Kind == script.Countdown {
		p.Count, p.Size = script.CountOf(use.Parameter)
	}
	if p.Kind.Sized() {
		p.Size, _ = strconv.ParseInt(use.Parameter, 10, 64)
	}
	return nil
}

// recall fills in what is known of the clients of all holders and waiters: from met if they were
// met before, and in one batch for the others.
func (s *Survey) recall(ctx context.Context, node conn.Conn, all []Picture, met map[string]presence.Sign) {
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
			asked, clients = append(asked, s.presence(client)), append(clients, client)
		}
		switch {
		case met != nil:
			asked[i].Owners = []string{presence.All}
		case len(asked[i].Owners) < notes.Most:
			asked[i].Owners = append(asked[i].Owners, owner)
		}
	}
	for _, p := range all {
		for i, h := range p.Holders {
			if s.few && i == fewHolders {
				break
			}
			add(h.Client, h.Owner)
		}
		for _, w := range p.Waiters {
			add(w.Client, w.Owner)
		}
	}
	signs, err := s.signs(ctx, node, asked)
	if s.Conn.Target().Cluster && len(signs) > 0 {
		err = nil // the node of a record may be down, and that of the lock is not
	}
	if err != nil {
		err = fmt.Errorf("redlatch: read the records of clients on %s: %w", s.Conn.Target().Addr, fault.Unanswered(ctx, err))
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
	for i := range all {
		p := &all[i]
		if p.err == nil {
			p.err = err
		}
		for j := range p.Holders {
			if h := &p.Holders[j]; h.Client != "" {
				sign, told := known[h.Client]
				sign.Unknown = sign.Unknown || s.few && !told
				h.meet(sign, p.At)
			}
		}
		for j := range p.Waiters {
			if w := &p.Waiters[j]; w.Client != "" {
				w.meet(known[w.Client], s.LiveFor)
			}
		}
	}
}

// signs reads about clients. Like any request it is sent again, within the time for one. In a
// cluster, where a node that is down has some of them, that is so only if there was no answer.
func (s *Survey) signs(ctx context.Context, node conn.Conn, asked []presence.Key) (signs []presence.Sign, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		limited, cancel := context.WithTimeout(ctx, s.Timeout/3)
		signs, err = presence.Read(limited, node, asked)
		cancel()
		again := errors.Is(err, context.DeadlineExceeded) || !s.Conn.Target().Cluster && retry.Transient(err)
		if err == nil || !again || s.Closing.Err() != nil {
			return signs, err
		}
		if retry.Sleep(ctx, retry.Pause(n)); ctx.Err() != nil {
			return signs, err
		}
	}
}

// presence returns where to read about a client.
func (s *Survey) presence(client string) presence.Key {
	return presence.Key{
		Record: keys.Record(s.Prefix, client), Channel: keys.Grants(s.Prefix, client), Notes: keys.Notes(s.Prefix, client),
	}
}
