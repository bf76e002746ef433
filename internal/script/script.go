package script

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/keys"
)

//go:embed lua/*.lua
var files embed.FS

// Kind is one kind of latch: the scripts that result from its file and the file of each operation.
type Kind struct {
	Name      string // "mutex"
	RedisType string // what TYPE says of its state
	acquire   *conn.Script
	await     *conn.Script
	release   *conn.Script
	renew     *conn.Script
	inspect   *conn.Script
	force     *conn.Script
}

// Mutex is the kind with one holder at a time.
var Mutex = newKind("mutex", "string")

var (
	record = conn.NewScript("record", assemble("record"))
	recall = conn.NewScript("recall", assemble("recall"))
)

func newKind(name, redisType string) *Kind {
	k := &Kind{Name: name, RedisType: redisType}
	for operation, script := range map[string]**conn.Script{
		"acquire": &k.acquire, "await": &k.await, "release": &k.release, "renew": &k.renew, "inspect": &k.inspect, "force": &k.force,
	} {
		*script = conn.NewScript(name+" "+operation, assemble(name, "token", "line", operation))
	}
	return k
}

// assemble puts files together: first what stands above the line "-- cold" in each of them, then what stands below. Lua makes every
// function anew each time a script runs, so what the common case does not need must stand below where that case returns. An operation
// without such a line, the last of the names, needs nothing from below.
func assemble(names ...string) string {
	var hot, cold strings.Builder
	for i, name := range names {
		data, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // a file that this package embeds and names
		}
		above, below, found := strings.Cut(string(data), "\n-- cold\n")
		strip(&hot, above)
		strip(&cold, below)
		if i == len(names)-1 && !found {
			return hot.String()
		}
	}
	return hot.String() + cold.String()
}

// strip leaves out comments and indentation, which every new server would otherwise be sent.
func strip(b *strings.Builder, lua string) {
	for line := range strings.Lines(lua) {
		code, _, _ := strings.Cut(line, "--")
		if code = strings.TrimSpace(code); code != "" {
			b.WriteString(code)
			b.WriteByte('\n')
		}
	}
}

// Ticket is one waiter in line.
type Ticket struct {
	Anyway  bool   // grant it even if PUBLISH counts nobody who hears it
	Address string // channel of its client
	TTL     time.Duration
	Arg     string // for the kind
	Owner   string
}

// String is the ticket as it stands in the queue.
func (t Ticket) String() string {
	mode := "H"
	if t.Anyway {
		mode = "A"
	}
	return strings.Join([]string{mode, t.Address, millis(t.TTL), t.Arg, t.Owner}, "\t")
}

// ParseTicket reads what String wrote.
func ParseTicket(text string) (Ticket, error) {
	field := strings.SplitN(text, "\t", 5)
	if len(field) != 5 {
		return Ticket{}, fmt.Errorf("ticket %q has %d fields, want 5", text, len(field))
	}
	ms, err := strconv.ParseInt(field[2], 10, 64)
	if err != nil || ms < 0 || field[0] != "H" && field[0] != "A" {
		return Ticket{}, fmt.Errorf("ticket %q is malformed", text)
	}
	return Ticket{Anyway: field[0] == "A", Address: field[1], TTL: time.Duration(ms) * time.Millisecond, Arg: field[3], Owner: field[4]}, nil
}

// Request is what acquire.lua is asked for.
type Request struct {
	Owner    string
	TTL      time.Duration
	Arg      string // for the kind
	FenceTTL time.Duration
	Ticket   string // "" to not wait
	Address  string
	Horizon  time.Duration
	Arrival  int64 // of a ticket that was lost, to get its place back; 0 for a new one
}

// Acquire is the call of acquire.lua.
func (k *Kind) Acquire(set keys.Set, r Request) conn.Call {
	return conn.Call{Script: k.acquire, Keys: set.List(), Args: []string{
		r.Owner, millis(r.TTL), r.Arg, seconds(r.FenceTTL), r.Ticket, r.Address, millis(r.Horizon), strconv.FormatInt(r.Arrival, 10),
	}}
}

// Standing is how an acquisition stands.
type Standing struct {
	Inside    bool
	Token     int64
	Got       string        // what else it got inside, such as the number of a slot
	Remaining time.Duration // of the holder's lease; negative if it never ends, or nobody holds it
	Foreign   bool          // the holder is not one of redlatch's; known only to the first in line
	Arrival   int64         // in line since, in microseconds of the server's clock; 0 if not in line
	First     bool          // in line
	Missing   bool          // neither inside nor in line
}

// ParseAcquire reads the reply of acquire.lua.
func ParseAcquire(r conn.Reply) (Standing, error) {
	switch {
	case r.Int > 0:
		return Standing{Inside: true, Token: r.Int}, nil
	case len(r.List) == 3 && r.List[0].Int == 1:
		return inside(r), nil
	case len(r.List) == 5:
		arrival, err := score(r.List[3])
		return Standing{Remaining: duration(r.List[1]), Foreign: r.List[2].Int == 1, Arrival: arrival, First: r.List[4].Int == 1}, err
	}
	return Standing{}, unexpected(r)
}

// Await is the call of await.lua.
func (k *Kind) Await(set keys.Set, address string, horizon, fenceTTL time.Duration, tickets []string) conn.Call {
	args := append([]string{address, millis(horizon), seconds(fenceTTL)}, tickets...)
	return conn.Call{Script: k.await, Keys: set.List(), Args: args}
}

// Line is how a client's tickets on one latch stand: what all share, and each of them.
type Line struct {
	Remaining time.Duration // as in [Standing]
	Foreign   bool
	First     bool // one of them is the first in line
	Tickets   []Standing
}

// ParseAwait reads the reply of await.lua to n tickets.
func ParseAwait(r conn.Reply, n int) (Line, error) {
	if len(r.List) != 3+n {
		return Line{}, unexpected(r)
	}
	line := Line{Remaining: duration(r.List[0]), Foreign: r.List[1].Int == 1, First: r.List[2].Int == 0, Tickets: make([]Standing, n)}
	for i, t := range r.List[3:] {
		switch {
		case len(t.List) == 3 && t.List[0].Int == 1:
			line.Tickets[i] = inside(t)
		case len(t.List) == 0:
			line.Tickets[i].Missing = true
		case len(t.List) != 1:
			return Line{}, unexpected(r)
		}
	}
	return line, nil
}

// Release is the call of release.lua; its reply is for [Done].
func (k *Kind) Release(set keys.Set, owner, ticket string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.release, Keys: set.List(), Args: []string{owner, ticket, seconds(fenceTTL)}}
}

// Renew is the call of renew.lua; its reply is for [Done].
func (k *Kind) Renew(set keys.Set, owner string, ttl time.Duration) conn.Call {
	return conn.Call{Script: k.renew, Keys: set.List(), Args: []string{owner, millis(ttl)}}
}

// Force is the call of force.lua; its reply is for [Done].
func (k *Kind) Force(set keys.Set, owner, address string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.force, Keys: set.List(), Args: []string{owner, address, seconds(fenceTTL)}}
}

// Done reads a reply that says whether the owner was inside.
func Done(r conn.Reply) bool { return r.Int == 1 }

// Inspect is the call of inspect.lua.
func (k *Kind) Inspect(set keys.Set) conn.Call {
	return conn.Call{Script: k.inspect, Keys: set.List()}
}

// State is what inspect.lua found.
type State struct {
	RedisType string
	Token     int64
	Remaining time.Duration
	Holders   []Holder
	Waiters   []Waiting
}

// Waiting is a ticket in line.
type Waiting struct {
	Ticket  string
	Arrival int64 // as in [Standing]
}

// Holder is one owner inside.
type Holder struct {
	Owner     string
	Remaining time.Duration
}

// ParseInspect reads the reply of inspect.lua.
func ParseInspect(r conn.Reply) (State, error) {
	if len(r.List) != 5 || len(r.List[4].List)%2 != 0 {
		return State{}, unexpected(r)
	}
	s := State{RedisType: r.List[0].Text, Remaining: duration(r.List[2])}
	s.Token, _ = strconv.ParseInt(r.List[1].Text, 10, 64)
	for _, h := range r.List[3].List {
		if len(h.List) != 2 {
			return State{}, unexpected(r)
		}
		s.Holders = append(s.Holders, Holder{Owner: h.List[0].Text, Remaining: duration(h.List[1])})
	}
	queue := r.List[4].List
	for i := 0; i < len(queue); i += 2 {
		arrival, err := score(queue[i+1])
		if err != nil {
			return State{}, err
		}
		s.Waiters = append(s.Waiters, Waiting{Ticket: queue[i].Text, Arrival: arrival})
	}
	return s, nil
}

// Record is the call of record.lua. An empty text forgets the record.
func Record(key, text string, ttl time.Duration) conn.Call {
	return conn.Call{Script: record, Keys: []string{key}, Args: []string{text, millis(ttl)}}
}

// Recall is the call of recall.lua; its reply is a text.
func Recall(key string) conn.Call { return conn.Call{Script: recall, Keys: []string{key}} }

func inside(r conn.Reply) Standing {
	return Standing{Inside: true, Token: r.List[1].Int, Got: r.List[2].Text}
}

// score reads a sorted-set score, which a server may write with an exponent.
func score(r conn.Reply) (int64, error) {
	if r.Text == "" {
		return r.Int, nil
	}
	f, err := strconv.ParseFloat(r.Text, 64)
	return int64(f), err
}

func duration(r conn.Reply) time.Duration { return time.Duration(r.Int) * time.Millisecond }

// millis rounds up, since a TTL of zero would delete the key.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func unexpected(r conn.Reply) error { return fmt.Errorf("redlatch: a script answered %+v", r) }
