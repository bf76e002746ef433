package memory

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Server is a Redis in memory. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex // guards what is below
	name    string
	starts  int             // of processes: each has its own run_id
	scripts map[string]bool // by SHA1: those that EVALSHA finds
	store   store
	engine  *engine
}

// New returns an empty server whose clock is now. Servers of different names are different
// processes.
func New(name string, now func() time.Time) *Server {
	s := &Server{name: name, scripts: make(map[string]bool), store: store{
		now: now, keys: make(Copy), listeners: listeners{channels: make(channels), shards: make(channels)},
	}}
	s.engine = newEngine(&s.store)
	s.rename()
	return s
}

// rename gives the server the name of another process.
func (s *Server) rename() {
	s.starts++
	sum := fnv.New128a()
	fmt.Fprintf(sum, "%s %d", s.name, s.starts)
	text := hex.EncodeToString(sum.Sum(nil))
	s.store.run = (text + text)[:40]
}

// Eval runs scripts one after the other, with no other command in between, and returns a result for
// each. known says whether the server had all of them in its cache.
func (s *Server) Eval(calls ...conn.Call) (results []conn.Result, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = true
	results = make([]conn.Result, len(calls))
	for i, call := range calls {
		if s.store.refusal == Loading {
			results[i].Err = &conn.ReplyError{Text: refusals[Loading]}
			continue
		}
		known = known && s.scripts[call.Script.SHA1]
		s.scripts[call.Script.SHA1] = true
		s.store.tick()
		results[i] = s.engine.eval(call.Script, call.Keys, call.Args)
	}
	return results, known
}

// Do runs one command as a client would, outside of any script.
func (s *Server) Do(args ...string) conn.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.tick()
	v, err := s.store.command(args, new(bool))
	if err != nil {
		return conn.Result{Err: &conn.ReplyError{Text: err.Error()}}
	}
	return conn.Result{Reply: replyOf(v)}
}

// Keys returns the keys that match a pattern, in no order.
func (s *Server) Keys(pattern string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.tick()
	return s.store.matching(pattern)
}

// Subscribe makes the server call message for each message to a channel, under its lock. message
// must not block, or call the server.
func (s *Server) Subscribe(channel string, message func(payload string)) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.listeners.channels.add(channel, message)
}

// SubscribeSharded is [Server.Subscribe] to a sharded channel, as SSUBSCRIBE is. A server of Redis 6
// has none.
func (s *Server) SubscribeSharded(channel string, message func(payload string)) (*Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.old {
		return nil, &conn.ReplyError{Text: "ERR unknown command 'SSUBSCRIBE'"}
	}
	return s.store.listeners.shards.add(channel, message), nil
}

// Relay sets how the other nodes of a cluster are told what is published here. PUBLISH does not
// count their listeners.
func (s *Server) Relay(message func(channel, payload string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.listeners.relay = message
}

// Unsubscribe ends a subscription. A second call does nothing.
func (s *Server) Unsubscribe(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.end()
}

// Refuse makes the server refuse commands from now on. Serves ends that.
func (s *Server) Refuse(why Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.refusal = why
}

// Forbid takes away the user's right to these commands, given in upper case. It replaces what was
// forbidden before.
func (s *Server) Forbid(commands ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.forbidden = commands
}

// Flush deletes all keys.
func (s *Server) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.store.keys)
}

// ForgetScripts empties the script cache.
func (s *Server) ForgetScripts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.scripts)
}

// Old makes the server behave like Redis 6.0: without REDIS_VERSION_NUM in scripts, without sharded
// channels, and without XTRIM by MINID. The scripts cannot see any other difference.
func (s *Server) Old(old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.old = old
	s.engine.tellVersion(old)
}

// Commands returns how many commands have been run, by scripts and otherwise.
func (s *Server) Commands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.commands
}

// Copy returns a copy of what the server holds.
func (s *Server) Copy() Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.keys.clone()
}

// Restart makes the server another process with these data; nil for none. The new process has no
// scripts and no subscriptions: the caller ends those of the clients.
func (s *Server) Restart(data Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.scripts)
	s.store.keys = data.clone()
	l := &s.store.listeners
	clear(l.channels)
	clear(l.shards)
	l.relay = nil
	s.rename()
}
