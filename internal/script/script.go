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
	Name     string   // "mutex"
	siblings []string // suffixes of the keys that it has beside those of every latch
	acquire  *conn.Script
	await    *conn.Script
	release  *conn.Script
	renew    *conn.Script
	inspect  *conn.Script
	force    *conn.Script
	resize   *conn.Script // nil if it has no size
}

// The kinds. Those without a file of their own for the state share holds.lua.
var (
	Mutex     = newKind([]string{"mutex"})
	Reentrant = newKind([]string{"reentrant"}, keys.InsideSuffix)
	RWMutex   = newKind([]string{"holds", "rwmutex"}, keys.InsideSuffix)
	Semaphore = newKind([]string{"holds", "semaphore"}, keys.InsideSuffix).sized()
	SlotPool  = newKind([]string{"holds", "slotpool"}, keys.InsideSuffix, keys.BitsSuffix, keys.LastSuffix).sized()
	Election  = newKind([]string{"holds", "election"}, keys.InsideSuffix, keys.ChangesSuffix)
	Once      = newKind([]string{"holds", "once"}, keys.InsideSuffix)
)

// Kinds is all of them.
func Kinds() []*Kind { return []*Kind{Mutex, Reentrant, RWMutex, Semaphore, SlotPool, Election, Once} }

var (
	sniff  = conn.NewScript("sniff", assemble("sniff"))
	multi  = conn.NewScript("multi", assemble("token", "multi"))
	record = conn.NewScript("record", assemble("record"))
	recall = conn.NewScript("recall", assemble("recall"))
)

// newKind makes the kind that these files say, the last of which has its name.
func newKind(files []string, siblings ...string) *Kind {
	k := &Kind{Name: files[len(files)-1], siblings: siblings}
	for operation, script := range map[string]**conn.Script{
		"acquire": &k.acquire, "await": &k.await, "release": &k.release, "renew": &k.renew, "inspect": &k.inspect, "force": &k.force,
	} {
		*script = k.operation(files, operation)
	}
	return k
}

// sized adds what a kind with a size can do.
func (k *Kind) sized() *Kind {
	k.resize = k.operation([]string{"holds", k.Name}, "resize")
	return k
}

func (k *Kind) operation(files []string, operation string) *conn.Script {
	return conn.NewScript(k.Name+" "+operation, assemble(append(append([]string{"token"}, files...), "line", operation)...))
}

// Sized reports whether the kind has a size.
func (k *Kind) Sized() bool { return k.resize != nil }

// Detail is the part of an argument that tells people what is waited for.
func (k *Kind) Detail(arg string) string {
	switch k {
	case RWMutex:
		return arg[:min(len(arg), 1)]
	case Semaphore:
		permits, _, _ := strings.Cut(arg, ":")
		return permits
	case Reentrant:
		_, owner, _ := strings.Cut(arg, ":")
		return owner
	case Election:
		return arg
	}
	return ""
}

func (k *Kind) keys(set keys.Set) []string { return set.List(k.siblings...) }

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
	Kind    string // of the latch
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
	return strings.Join([]string{mode + t.Kind, t.Address, millis(t.TTL), t.Arg, t.Owner}, "\t")
}

// ParseTicket reads what String wrote.
func ParseTicket(text string) (Ticket, error) {
	field := strings.SplitN(text, "\t", 5)
	if len(field) != 5 {
		return Ticket{}, fmt.Errorf("ticket %q has %d fields, want 5", text, len(field))
	}
	ms, err := strconv.ParseInt(field[2], 10, 64)
	if err != nil || ms < 0 || field[0] == "" || field[0][0] != 'H' && field[0][0] != 'A' {
		return Ticket{}, fmt.Errorf("ticket %q is malformed", text)
	}
	return Ticket{
		Anyway: field[0][0] == 'A', Kind: field[0][1:], Address: field[1], TTL: time.Duration(ms) * time.Millisecond, Arg: field[3], Owner: field[4],
	}, nil
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
	return conn.Call{Script: k.acquire, Keys: k.keys(set), Args: []string{
		seconds(r.FenceTTL), r.Owner, millis(r.TTL), r.Arg, r.Ticket, r.Address, millis(r.Horizon), strconv.FormatInt(r.Arrival, 10),
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
	Refused   string        // why it can never be inside: a word, and a tab and what it is about; "" if it can
}

// ParseAcquire reads the reply of acquire.lua.
func ParseAcquire(r conn.Reply) (Standing, error) {
	switch {
	case r.Int > 0:
		return Standing{Inside: true, Token: r.Int}, nil
	case len(r.List) == 3 && r.List[0].Int == 1:
		return inside(r), nil
	case len(r.List) == 2 && r.List[0].Int == -1:
		return Standing{Refused: r.List[1].Text}, nil
	case len(r.List) == 5:
		arrival, err := score(r.List[3])
		return Standing{Remaining: duration(r.List[1]), Foreign: r.List[2].Int == 1, Arrival: arrival, First: r.List[4].Int == 1}, err
	}
	return Standing{}, unexpected(r)
}

// Await is the call of await.lua.
func (k *Kind) Await(set keys.Set, address string, horizon, fenceTTL time.Duration, tickets []string) conn.Call {
	args := append([]string{seconds(fenceTTL), address, millis(horizon)}, tickets...)
	return conn.Call{Script: k.await, Keys: k.keys(set), Args: args}
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

// Release is the call of release.lua; its reply is for [Left]. The result is how the work ended, which some kinds ask.
func (k *Kind) Release(set keys.Set, owner, ticket, result string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.release, Keys: k.keys(set), Args: []string{seconds(fenceTTL), owner, ticket, result}}
}

// Left reads whether the owner was inside, and how many holds it has left.
func Left(r conn.Reply) (holds int, inside bool) { return int(r.Int) - 1, r.Int > 0 }

// Renew is the call of renew.lua; its reply is for [Done].
func (k *Kind) Renew(set keys.Set, owner string, ttl time.Duration) conn.Call {
	return conn.Call{Script: k.renew, Keys: k.keys(set), Args: []string{owner, millis(ttl)}}
}

// Force is the call of force.lua; its reply is for [Done].
func (k *Kind) Force(set keys.Set, owner, address string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.force, Keys: k.keys(set), Args: []string{seconds(fenceTTL), owner, address}}
}

// Done reads a reply that says whether the owner was inside.
func Done(r conn.Reply) bool { return r.Int == 1 }

// Resize is the call of resize.lua, for a kind that has a size.
func (k *Kind) Resize(set keys.Set, n int64, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.resize, Keys: k.keys(set), Args: []string{seconds(fenceTTL), strconv.FormatInt(n, 10)}}
}

// ParseResize reads the kind that was found; "" if nobody is inside.
func ParseResize(r conn.Reply) (kind string, err error) {
	if len(r.List) != 2 {
		return "", unexpected(r)
	}
	return r.List[0].Text, nil
}

// Multi is the call of multi.lua, for mutexes.
func Multi(sets []keys.Set, owners []string, ttl, fenceTTL time.Duration) conn.Call {
	call := conn.Call{Script: multi, Args: append([]string{seconds(fenceTTL), millis(ttl)}, owners...)}
	for _, set := range sets {
		call.Keys = append(call.Keys, set.List()...)
	}
	return call
}

// ParseMulti reads the tokens of n mutexes; none if they were not all free.
func ParseMulti(r conn.Reply, n int) ([]int64, error) {
	if len(r.List) != 0 && len(r.List) != n {
		return nil, unexpected(r)
	}
	tokens := make([]int64, len(r.List))
	for i, t := range r.List {
		tokens[i] = t.Int
	}
	return tokens, nil
}

// Sniff is the call of sniff.lua.
func Sniff(set keys.Set) conn.Call { return conn.Call{Script: sniff, Keys: set.List()} }

// Use is what a name is used for.
type Use struct {
	Kind      *Kind  // nil if it is not used, or not for a latch
	Parameter string // of the kind, such as the size of a semaphore
	RedisType string // of K; "none" if it is not there
}

// ParseSniff reads the reply of sniff.lua.
func ParseSniff(r conn.Reply) (Use, error) {
	if len(r.List) != 3 {
		return Use{}, unexpected(r)
	}
	use := Use{RedisType: r.List[0].Text}
	switch use.RedisType {
	case "string":
		use.Kind = Mutex
	case "hash":
		if _, err := strconv.Atoi(r.List[1].Text); err == nil {
			use.Kind = Reentrant
		}
	case "zset":
		name, parameter, _ := strings.Cut(r.List[1].Text, "\t")
		use.Kind, use.Parameter = named(name), parameter
	case "none":
		if first, err := ParseTicket(r.List[2].Text); err == nil {
			use.Kind = named(first.Kind)
		}
	}
	return use, nil
}

func named(name string) *Kind {
	for _, k := range Kinds() {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Inspect is the call of inspect.lua.
func (k *Kind) Inspect(set keys.Set) conn.Call {
	return conn.Call{Script: k.inspect, Keys: k.keys(set)}
}

// State is what inspect.lua found.
type State struct {
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
	Token     int64  // 0 if none is known
	Got       string // as in [Standing]
	Resting   bool   // gone; its place is kept free
}

// ParseInspect reads the reply of inspect.lua.
func ParseInspect(r conn.Reply) (State, error) {
	if len(r.List) != 4 || len(r.List[3].List)%2 != 0 {
		return State{}, unexpected(r)
	}
	s := State{Remaining: duration(r.List[1])}
	s.Token, _ = strconv.ParseInt(r.List[0].Text, 10, 64)
	for _, h := range r.List[2].List {
		if len(h.List) != 5 {
			return State{}, unexpected(r)
		}
		holder := Holder{Owner: h.List[0].Text, Remaining: duration(h.List[1]), Got: h.List[3].Text, Resting: h.List[4].Int == 1}
		holder.Token, _ = strconv.ParseInt(h.List[2].Text, 10, 64)
		s.Holders = append(s.Holders, holder)
	}
	queue := r.List[3].List
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
