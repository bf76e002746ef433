package memory

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Refusal is why a server refuses commands.
type Refusal string

// The refusals, each by the first word of its error.
const (
	Serves   Refusal = ""         // it refuses nothing
	Full     Refusal = "OOM"      // commands that could need memory, unless the script wrote before
	DiskFull Refusal = "MISCONF"  // commands that write, unless the script wrote before
	ReadOnly Refusal = "READONLY" // the same: it is a replica
	Loading  Refusal = "LOADING"  // everything: it reads its data
)

// Server is a Redis in memory. It is safe for concurrent use.
type Server struct {
	mu     sync.Mutex // guards what is below
	name   string
	now    func() time.Time
	at     int64 // ms since 1970 by now, the same throughout a command or script
	run    string
	starts int // of processes: each has another run
	old    bool

	keys      map[string]*entry
	scripts   map[string]bool // by SHA1: those that it would find for EVALSHA
	channels  channels
	shards    channels                      // sharded ones, which are others
	all       []*Subscription               // to all channels
	relay     func(channel, payload string) // to the other nodes of a cluster; nil if there is none
	forbidden []string                      // commands that the user may not run
	refusal   Refusal
	engine    *engine
	commands  int // that were run, also by scripts
}

// entry is a key's value, and when the key expires.
type entry struct {
	value   any   // string, *hash, *sorted, *stream or *list
	expires int64 // ms since 1970; 0 for never
}

// Subscription is one listener to one channel, or to all.
type Subscription struct {
	of      channels // nil if it is to all
	channel string
	message func(channel, payload string)
}

// channels are the listeners to each channel.
type channels map[string][]*Subscription

// New returns an empty server whose clock is now. Servers of different names are different
// processes.
func New(name string, now func() time.Time) *Server {
	s := &Server{
		name: name, now: now, keys: make(map[string]*entry), scripts: make(map[string]bool),
		channels: make(channels), shards: make(channels),
	}
	s.engine = newEngine(s)
	s.rename()
	return s
}

// rename gives the server the name of another process.
func (s *Server) rename() {
	s.starts++
	sum := fnv.New128a()
	fmt.Fprintf(sum, "%s %d", s.name, s.starts)
	text := hex.EncodeToString(sum.Sum(nil))
	s.run = (text + text)[:40]
}

// Eval runs scripts one after the other, with no command of others in between, and returns a result
// for each. known tells whether the server had all of them in its cache.
func (s *Server) Eval(calls ...conn.Call) (results []conn.Result, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = true
	results = make([]conn.Result, len(calls))
	for i, call := range calls {
		if s.refusal == Loading {
			results[i].Err = &conn.ReplyError{Text: refusals[Loading]}
			continue
		}
		known = known && s.scripts[call.Script.SHA1]
		s.scripts[call.Script.SHA1] = true
		s.at = s.now().UnixMilli()
		results[i] = s.engine.eval(call.Script, call.Keys, call.Args)
	}
	return results, known
}

// Do runs one command, as a client would that is no script.
func (s *Server) Do(args ...string) conn.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = s.now().UnixMilli()
	v, err := s.command(args, new(bool))
	if err != nil {
		return conn.Result{Err: &conn.ReplyError{Text: err.Error()}}
	}
	return conn.Result{Reply: replyOf(v)}
}

// replyOf returns a command's result in the form of package conn.
func replyOf(v any) conn.Reply {
	switch v := v.(type) {
	case nil:
		return conn.Reply{Nil: true}
	case int64:
		return conn.Reply{Int: v}
	case string:
		return conn.Reply{Text: v}
	case status:
		return conn.Reply{Text: string(v)}
	case []any:
		list := make([]conn.Reply, len(v))
		for i := range v {
			list[i] = replyOf(v[i])
		}
		return conn.Reply{List: list}
	}
	panic(fmt.Sprintf("memory: a command returned a %T", v))
}

// Keys returns the keys that match a pattern, in no order.
func (s *Server) Keys(pattern string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = s.now().UnixMilli()
	var all []string
	for key := range s.keys {
		if s.lookup(key) != nil && glob(pattern, key) {
			all = append(all, key)
		}
	}
	return all
}

// Subscribe has message called for each message to a channel, under the server's lock: it must not
// block, or call the server.
func (s *Server) Subscribe(channel string, message func(payload string)) *Subscription {
	return s.subscribe(s.channels, channel, message)
}

// SubscribeSharded is [Server.Subscribe] to a sharded channel, as SSUBSCRIBE is. A server of Redis 6
// has none.
func (s *Server) SubscribeSharded(channel string, message func(payload string)) (*Subscription, error) {
	if s.old {
		return nil, &conn.ReplyError{Text: "ERR unknown command 'SSUBSCRIBE'"}
	}
	return s.subscribe(s.shards, channel, message), nil
}

func (s *Server) subscribe(of channels, channel string, message func(payload string)) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &Subscription{of: of, channel: channel, message: func(_, payload string) { message(payload) }}
	of[channel] = append(of[channel], sub)
	return sub
}

// SubscribeAll is [Server.Subscribe] to all channels, as PSUBSCRIBE of * is: PUBLISH counts the
// listener, and PUBSUB NUMSUB does not. Of one message it is told last.
func (s *Server) SubscribeAll(message func(channel, payload string)) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &Subscription{message: message}
	s.all = append(s.all, sub)
	return sub
}

// Relay has the other nodes of a cluster told what is published here. PUBLISH does not count their
// listeners.
func (s *Server) Relay(message func(channel, payload string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relay = message
}

// Unsubscribe ends a subscription. A second call does nothing.
func (s *Server) Unsubscribe(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(other *Subscription) bool { return other == sub }
	if sub.of == nil {
		s.all = slices.DeleteFunc(s.all, is)
		return
	}
	left := slices.DeleteFunc(sub.of[sub.channel], is)
	if len(left) == 0 {
		delete(sub.of, sub.channel)
		return
	}
	sub.of[sub.channel] = left
}

// Subscribers returns how many subscriptions there are.
func (s *Server) Subscribers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []channels{s.channels, s.shards} {
		for _, subs := range of {
			n += len(subs)
		}
	}
	return n + len(s.all)
}

// Refuse has the server refuse from now on. Serves ends that.
func (s *Server) Refuse(why Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = why
}

// Forbid has the user of the commands that follow lack the right to these, which are upper case. It
// replaces what was forbidden before.
func (s *Server) Forbid(commands ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden = commands
}

// Flush deletes all keys.
func (s *Server) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}

// ForgetScripts empties the script cache.
func (s *Server) ForgetScripts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.scripts)
}

// Old makes the server one of Redis 6.0: without REDIS_VERSION_NUM in scripts, without sharded
// channels, and without XTRIM by MINID. Nothing else that the scripts ask tells the difference.
func (s *Server) Old(old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = old
	s.engine.tellVersion(old)
}

// Commands returns how many commands have been run, by scripts and otherwise.
func (s *Server) Commands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

// Copy is what a server held at a time.
type Copy map[string]*entry

// Copy returns a copy of what the server holds.
func (s *Server) Copy() Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copyOf(s.keys)
}

func copyOf(keys Copy) Copy {
	all := make(Copy, len(keys))
	for key, e := range keys {
		value := e.value
		switch v := e.value.(type) {
		case *hash:
			value = v.clone()
		case *sorted:
			value = v.clone()
		case *stream:
			value = v.clone()
		case *list:
			value = v.clone()
		}
		all[key] = &entry{value, e.expires}
	}
	return all
}

// Restart makes the server another process with these data; nil for none. It has no scripts, and no
// subscriptions: the caller ends those of its clients.
func (s *Server) Restart(data Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = copyOf(data)
	clear(s.scripts)
	clear(s.channels)
	clear(s.shards)
	s.all, s.relay = nil, nil
	s.rename()
}

// lookup returns what a key holds; nil if there is no such key, or its time has passed. In the very
// millisecond at which a key expires, it is still there.
func (s *Server) lookup(key string) *entry {
	e := s.keys[key]
	if e != nil && e.expires != 0 && e.expires < s.at {
		delete(s.keys, key)
		return nil
	}
	return e
}

// expireIn sets when a key expires; at once if that is not in the future.
func (s *Server) expireIn(key string, e *entry, ms int64) {
	if ms <= 0 {
		delete(s.keys, key)
		return
	}
	if ms > math.MaxInt64-s.at {
		ms = math.MaxInt64 - s.at
	}
	e.expires = s.at + ms
}
