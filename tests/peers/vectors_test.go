package peers

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/vector"
)

// update has TestVectors write docs/vectors anew.
var update = flag.Bool("update", false, "write docs/vectors anew")

const vectorsDir = "../../docs/vectors"

// What the vectors have in common.
const (
	vectorTTL   = 30 * time.Second
	vectorFence = 7 * 24 * time.Hour
	vectorLive  = time.Minute
)

// vectorStep is a call, on the state that the step before it left, a second later.
type vectorStep struct {
	name      string
	call      conn.Call
	args      map[int]string // in place of those of the call
	listening []string
	before    vector.State // in place of what the step before left; nil for that
	kind      *script.Kind // nil for a script that is of none
}

// vectorFile is the steps of one file, which begin on an empty server.
type vectorFile struct {
	name  string
	steps []vectorStep
}

var empty = vector.State{}

func vectorKeys(name string) keys.Set {
	set, err := keys.Of("redlatch:", name)
	if err != nil {
		panic(err)
	}
	return set
}

// vectorAddress is the channel of a client with this letter.
func vectorAddress(client string) string { return keys.Grants("redlatch:", client) }

func vectorTicket(k *script.Kind, client, param string) string {
	return script.Ticket{Kind: k.Name, Address: vectorAddress(client), TTL: vectorTTL, Param: param, Owner: script.Owner(client, 1)}.String()
}

// vectorParams are the arguments of two owners of each kind that exclude each other.
var vectorParams = map[string][2]string{
	"mutex": {"", ""}, "reentrant": {"0:rl-A-1", "0:rl-B-1"}, "rwmutex": {"w", "w"}, "semaphore": {"2:2", "1:2"},
	"slotpool": {"1:0::pod-a", "1:0::"}, "election": {"host-a", "host-b"}, "job": {"600000", "600000"},
}

// kindSteps are the life of a lock of one kind: three clients, A that holds it, and B and C that
// wait.
func kindSteps(k *script.Kind) []vectorStep {
	set, params := vectorKeys("x"), vectorParams[k.Name]
	request := func(client, param string, waits bool) script.Request {
		r := script.Request{Owner: script.Owner(client, 1), TTL: vectorTTL, Param: param, FenceTTL: vectorFence, LiveFor: vectorLive}
		if waits {
			r.Ticket, r.Address = vectorTicket(k, client, param), vectorAddress(client)
		}
		return r
	}
	a, b, c := script.Owner("A", 1), script.Owner("B", 1), script.Owner("C", 1)
	third := strings.Replace(params[1], b, c, 1)
	release := func(owner, ticket string, begun bool) conn.Call {
		return k.Release(set, owner, ticket, begun, vectorFence)
	}
	steps := []vectorStep{
		{name: "acquire what is free", call: k.Acquire(set, request("A", params[0], false)), before: empty},
		{name: "acquire again, as after a lost reply", call: k.Acquire(set, request("A", params[0], false))},
		{name: "try what is taken", call: k.Acquire(set, request("B", params[1], false))},
		{name: "stand in line, the first", call: k.Acquire(set, request("B", params[1], true))},
		{name: "stand in line again, as after a lost reply", call: k.Acquire(set, request("B", params[1], true))},
		{name: "stand in line, the second", call: k.Acquire(set, request("C", third, true))},
		{
			name: "await, of one in line and one that is not", listening: []string{vectorAddress("B"), vectorAddress("C")},
			call: k.Await(set, vectorAddress("B"), vectorLive, vectorFence, []string{
				vectorTicket(k, "B", params[1]), strings.Replace(vectorTicket(k, "B", params[1]), "rl-B-1", "rl-B-7", 1),
			}),
		},
		{name: "renew", call: k.Renew(set, a, vectorTTL, "")},
		{name: "renew what is not held", call: k.Renew(set, script.Owner("A", 7), vectorTTL, "")},
		{name: "inspect", call: k.Inspect(set), listening: []string{vectorAddress("B"), vectorAddress("C")}},
		{name: "inspect without the line", call: k.InspectInside(set)},
		{name: "sniff", call: script.Sniff(set)},
		{
			name: "adopt", listening: []string{vectorAddress("B"), vectorAddress("C")},
			call: k.Adopt(set, a, script.Owner("A", 2), vectorTTL, "", vectorTTL),
		},
		{
			name: "adopt again, as after a lost reply", listening: []string{vectorAddress("B"), vectorAddress("C")},
			call: k.Adopt(set, a, script.Owner("A", 2), vectorTTL, "", vectorTTL),
		},
		{
			name: "release, and hand over to the first in line", listening: []string{vectorAddress("B"), vectorAddress("C")},
			call: release(script.Owner("A", 2), "", false),
		},
		{name: "release again, as after a lost reply", call: release(script.Owner("A", 2), "", false)},
		{name: "give the place in line up", call: release(c, vectorTicket(k, "C", third), false)},
		{
			name: "force the release", listening: []string{vectorAddress("B")},
			call: k.Force(set, b, vectorAddress("B"), "", vectorFence, `{"by":{"host":"h","pid":1,"program":"p"}}`, time.Hour),
		},
		{name: "renew what was taken by force", call: k.Renew(set, b, vectorTTL, "")},
		{name: "acquire after that", call: k.Acquire(set, request("C", third, false))},
		{name: "release, with none in line", call: release(c, "", true)},
	}
	if k.Sized() {
		steps = append(steps,
			vectorStep{name: "acquire before the size changes", call: k.Acquire(set, request("A", params[0], false))},
			vectorStep{name: "resize", call: k.Resize(set, 4, vectorFence)})
	}
	steps = append(steps, []vectorStep{
		{name: "acquire once more", call: k.Acquire(set, request("A", params[0], false)), before: empty},
		{name: "ask to be told of a waiter", call: k.Want(set, a, vectorAddress("A"), vectorTTL), listening: []string{vectorAddress("A")}},
		{
			name: "a waiter comes, and the holder is told", listening: []string{vectorAddress("A"), vectorAddress("B")},
			call: k.Acquire(set, request("B", params[1], true)),
		},
		{name: "ask while a waiter is in line", call: k.Want(set, a, vectorAddress("A"), vectorTTL), listening: []string{vectorAddress("B")}},
		{name: "extend to a length of its own", call: k.Renew(set, a, 2*vectorTTL, "")},
		{name: "a request of before that is late shortens nothing", call: k.Renew(set, a, vectorTTL, "")},
		{name: "extend to that and no more", call: k.Exactly(k.Renew(set, a, vectorTTL, ""))},
		{name: "take by force in one step", listening: []string{vectorAddress("A"), vectorAddress("B")}, call: k.Seize(set, script.Seizure{
			From: a, Address: vectorAddress("A"), Note: `{"by":{"host":"h","pid":1,"program":"p"}}`, Remember: time.Hour,
			Owner: c, TTL: vectorTTL, Param: third, FenceTTL: vectorFence,
		})},
		{name: "ask while a waiter is in line that has died", call: k.Want(set, c, vectorAddress("C"), vectorTTL), listening: []string{vectorAddress("C")}},
	}...)
	if k.Proclaims() {
		steps = append(steps,
			vectorStep{name: "change the value", call: k.Proclaim(set, c, "host-d", 2)},
			vectorStep{name: "change it with a request that is late", call: k.Proclaim(set, c, "host-e", 1)})
	}
	if k.Lingers() {
		kept := request("A", map[string]string{"mutex": "3", "rwmutex": "w#3"}[k.Name], false)
		kept.Owner = script.MayKeep(a)
		hears := []string{vectorAddress("A")}
		steps = append(steps, []vectorStep{
			{name: "acquire what may be kept, with three tokens", call: k.Acquire(set, kept), before: empty},
			{name: "ask for it", call: k.Ask(set, kept.Owner, vectorAddress("A"), true), listening: hears},
			{name: "answer that it is in use", call: k.Used(set, kept.Owner, vectorTTL)},
			{name: "ask again, and read the answer", call: k.Ask(set, kept.Owner, vectorAddress("A"), true), listening: hears},
			{name: "ask for what another owner has", call: k.Ask(set, a, vectorAddress("A"), false), listening: hears},
			{name: "answer for what another owner has", call: k.Used(set, a, vectorTTL)},
			{name: "release it", call: release(kept.Owner, "", true)},
			{name: "acquire it once more", call: k.Acquire(set, kept)},
			{name: "stand in line for it", call: k.Acquire(set, request("B", params[1], true)), listening: hears},
		}...)
	}
	return ofKind(k, steps)
}

// mutexSteps are what a mutex has beside the life of all kinds.
func mutexSteps() []vectorStep {
	k, x, y := script.Mutex, vectorKeys("{t}x"), vectorKeys("{t}y")
	a, b := script.Owner("A", 1), script.Owner("B", 1)
	get := func(set keys.Set, client, param string, most int) conn.Call {
		return k.Acquire(set, script.Request{
			Owner: script.Owner(client, 1), TTL: vectorTTL, Param: param, FenceTTL: vectorFence, Most: most,
			Ticket: vectorTicket(k, client, param), Address: vectorAddress(client), LiveFor: vectorLive,
		})
	}
	announce := script.Neighbours{Channel: "registry-channel:x", Message: "x"}
	yield := announce
	yield.Every, yield.For = 2, 5*time.Second
	release := func(owner string) conn.Call { return k.Release(x, owner, "", true, vectorFence) }
	held := func(owner string) vector.State {
		return vector.State{
			x.State(): vector.Of("string", owner, 20_000),
			x.Fence(): vector.Of("string", "${us:-10000000}", 600_000_000),
		}
	}
	line := func(state vector.State, clients ...string) vector.State {
		var queue, alive []any
		for i, c := range clients {
			arrival := []string{"${us:-4000000}", "${us:-3000000}", "${us:-2000000}"}[i]
			queue = append(queue, []any{vectorTicket(k, c, ""), arrival})
			alive = append(alive, []any{vectorAddress(c), "${ms:50000}"})
		}
		state[x.Queue()] = vector.Of("zset", queue, 3_590_000)
		state[x.Clients()] = vector.Of("zset", alive, 3_590_000)
		return state
	}
	foreign := held("somebody-else")
	fence := vector.State{x.Fence(): vector.Of("string", "9000000000000000", 600_000_000)}
	full := func(until string) vector.State {
		s := line(held(a), "B", "C")
		s[x.Clients()] = vector.Of("zset", append([]any{[]any{"full\t2", until}}, s[x.Clients()].Value.([]any)...), 3_590_000)
		return s
	}
	busy := line(held(a), "B", "C")
	for _, key := range []string{x.Queue(), x.Clients()} {
		busy[key] = vector.Of("zset", busy[key].Value, 60_000)
	}
	leftFree := vector.State{
		x.Queue():   vector.Of("zset", []any{[]any{"Ayield\tyield\t5000\t\t", "0"}}, 3_590_000),
		x.Clients(): vector.Of("zset", []any{[]any{"yield", "${ms:5000}"}}, 3_590_000),
	}
	sharded := func(anyway bool) vector.State { // client B waits, and no client listens to its sharded channel
		ticket := script.Ticket{Kind: k.Name, Address: x.Grants("B"), TTL: vectorTTL, Owner: b, Sharded: true, Anyway: anyway}
		state := held(a)
		state[x.Queue()] = vector.Of("zset", []any{[]any{ticket.String(), "${us:-4000000}"}}, 3_590_000)
		state[x.Clients()] = vector.Of("zset", []any{[]any{x.Grants("B"), "${ms:50000}"}}, 3_590_000)
		return state
	}
	both := []string{vectorAddress("B"), vectorAddress("C")}
	steps := []vectorStep{
		{name: "a token is larger than the last, whatever the clock says", call: get(x, "A", "", 0), before: fence},
		{name: "three tokens at once: the fence has the last", call: get(x, "A", "3", 0), before: vector.State{}},
		{name: "stand in line behind a holder of another library", call: get(x, "B", "", 0), before: foreign},
		{
			name: "await behind a holder of another library", listening: both,
			call: k.Await(x, vectorAddress("B"), vectorLive, vectorFence, []string{vectorTicket(k, "B", "")}),
		},
		{name: "a lease has expired: the first in line comes before a newcomer", call: get(x, "C", "", 0), listening: both, before: line(vector.State{}, "B")},
		{name: "a waiter is not heard at its sharded channel: it is dropped", call: release(a), before: sharded(false)},
		{name: "it may listen at another node: it is granted", call: release(a), before: sharded(true)},
		{name: "the first in line is dead: the second is granted", call: release(a), listening: []string{vectorAddress("C")}, before: line(held(a), "B", "C")},
		{
			name: "a lease that expires before a third of the TTL: the next in line is told when to ask", listening: both,
			call: k.Await(x, vectorAddress("A"), vectorLive, vectorFence, []string{vectorTicket(k, "A", "")}),
			before: func() vector.State {
				s := line(vector.State{}, "B", "C")
				q := s[x.Queue()].Value.([]any)
				q[0].([]any)[0] = strings.Replace(q[0].([]any)[0].(string), "30000", "3000", 1)
				return s
			}(),
		},
		{
			name: "adopt for less than that: the first in line is told when to ask", listening: both, before: line(held(a), "B", "C"),
			call: k.Adopt(x, a, script.Owner("A", 2), 5*time.Second, "", vectorTTL),
		},
		{name: "the line is full", call: get(x, "C", "", 1), listening: both, before: line(held(a), "B")},
		{name: "the line is full, and the request for its last place is sent again", call: get(x, "B", "", 1), listening: both, before: line(held(a), "B")},
		{name: "the line is full, but for one that has died", call: get(x, "D", "", 2), listening: both[:1], before: line(held(a), "B", "C")},
		{name: "the line was full, and the clock was set back since: it is counted", call: get(x, "D", "", 2), listening: both[:1], before: full("-${ms:40000}")},
		{name: "the line was full long ago: it is counted", call: get(x, "D", "", 2), listening: both[:1], before: full("-${ms:-1000}")},
		{name: "a line that is in use lasts, without a heartbeat", call: get(x, "C", "", 0), listening: both, before: busy},
		{
			name: "a lease that an operator has made endless, and a look at it", call: k.Want(x, a, vectorAddress("A"), vectorTTL),
			before: vector.State{x.State(): vector.Of("string", a, -1)},
		},
		{name: "the line is of another kind", call: script.Semaphore.Acquire(x, script.Request{
			Owner: a, TTL: vectorTTL, Param: "1:2", FenceTTL: vectorFence, Ticket: vectorTicket(script.Semaphore, "A", "1:2"), Address: vectorAddress("A"), LiveFor: vectorLive,
		}), before: line(vector.State{}, "B"), listening: both, kind: script.Semaphore},
		{name: "a minimal hold leaves it shut", call: script.AtLeast(release(a), 1, 5*time.Second), args: map[int]string{4: "${us:-2000000}"}, before: held(a)},
		{
			name: "a waiter is told when what a minimal hold leaves shut will open", listening: both, before: line(held(a), "B"),
			call: script.AtLeast(release(a), 1, 5*time.Second), args: map[int]string{4: "${us:-2400000}"},
		},
		{name: "force opens what a minimal hold left shut", call: k.Force(x, a, "", "", vectorFence, "{}", time.Hour)},
		{name: "a release is announced to another library", call: script.For(release(a), announce), before: held(a)},
		{name: "a hand-over is not", call: script.For(release(a), announce), listening: both, before: line(held(a), "B")},
		{name: "a forced release is announced", call: script.For(k.Force(x, a, "", "", vectorFence, "{}", time.Hour), announce), before: held(a)},
		{name: "the first of two releases hands over", call: script.For(release(a), yield), listening: both, before: line(held(a), "B", "C")},
		{name: "the second leaves the lock free", call: script.For(release(b), yield), listening: both},
		{name: "and a newcomer stands in line behind the others", call: get(x, "D", "", 0), listening: both},
		{
			name: "and the first in line is told how long it stays free for others", listening: both,
			call:   k.Await(x, vectorAddress("C"), vectorLive, vectorFence, []string{vectorTicket(k, "C", "")}),
			before: nil,
		},
		{name: "a newcomer tries what is left free, and no waiter is left", call: k.Acquire(x, script.Request{
			Owner: a, TTL: vectorTTL, FenceTTL: vectorFence, LiveFor: vectorLive,
		}), before: leftFree},
		{name: "a newcomer waits for it, and is the first", call: get(x, "B", "", 0), listening: both},
		{name: "all of several", call: script.Multi([]keys.Set{x, y}, []string{a, script.Owner("A", 2)}, vectorTTL, vectorFence), before: empty},
		{name: "none of several, of which one is taken", call: script.Multi([]keys.Set{x, y}, []string{b, script.Owner("B", 2)}, vectorTTL, vectorFence), before: held(a)},
		{
			name: "a late copy of the request for several shortens nothing", call: script.Multi([]keys.Set{x, y}, []string{a, b}, vectorTTL, vectorFence),
			before: vector.State{x.State(): vector.Of("string", a, 3_600_000), y.State(): vector.Of("string", b, 3_600_000)},
		},
		{name: "acquires of a bundle: one is taken", call: script.Bundle([]conn.Call{get(x, "A", "", 0), get(y, "A", "", 0)}), before: held(b)},
		{name: "releases of a bundle: one is not held", call: script.Bundle([]conn.Call{release(a), k.Release(y, a, "", true, vectorFence)}), before: held(a)},
		{name: "renews of a bundle: one is not held", call: script.Bundle([]conn.Call{k.Renew(x, a, vectorTTL, ""), k.Renew(y, a, vectorTTL, "")}), before: held(a)},
	}
	return ofKind(k, steps)
}

// ofKind has steps be of a kind, but for those that are of another, or whose script is of none.
func ofKind(k *script.Kind, steps []vectorStep) []vectorStep {
	for i, s := range steps {
		if s.kind == nil && !slices.Contains([]string{"sniff", "multi", "epoch"}, s.call.Script.Name) {
			steps[i].kind = k
		}
	}
	return steps
}

// reentrantSteps are what a reentrant mutex has beside the life of all kinds.
func reentrantSteps() []vectorStep {
	k, set := script.Reentrant, vectorKeys("x")
	counter, inside := withCounter(set), set.List(keys.InsideSuffix)[4]
	enter := func(set keys.Set, entry uint64, param string, fence time.Duration) conn.Call {
		return k.Acquire(set, script.Request{Owner: script.Owner("A", entry), TTL: vectorTTL, Param: param, FenceTTL: fence, LiveFor: vectorLive})
	}
	leave := func(entry uint64) conn.Call { return k.Release(set, script.Owner("A", entry), "", true, vectorFence) }
	toRedisson := script.Neighbours{Channel: "redisson_lock__channel:{redlatch:x}", Message: "0"}
	// entered has an owner inside by entries that end in so many ms, and perhaps others in line.
	entered := func(ends []int, waiters ...string) vector.State {
		var entries, line, alive []any
		for i, ms := range ends {
			entries = append(entries, []any{script.Owner("A", uint64(i+1)), fmt.Sprintf("${ms:%d}\tme", ms)})
		}
		state := vector.State{
			set.State(): vector.Of("hash", []any{[]any{"me", fmt.Sprint(len(ends))}}, 20_000),
			inside:      vector.Of("hash", entries, 20_000),
			set.Fence(): vector.Of("string", "${us:-10000000}", 600_000_000),
		}
		for i, ticket := range waiters {
			line = append(line, []any{ticket, fmt.Sprintf("${us:-%d000000}", 9-i)})
			alive = append(alive, []any{vectorAddress(strings.Split(ticket, "rl-")[1][:1]), "${ms:50000}"})
		}
		if waiters != nil {
			state[set.Queue()], state[set.Clients()] = vector.Of("zset", line, 3_590_000), vector.Of("zset", alive, 3_590_000)
		}
		return state
	}
	other, again := vectorTicket(k, "B", "0:rl-B-1"), vectorTicket(k, "C", "0:me")
	both := []string{vectorAddress("B"), vectorAddress("C")}
	redisson := vector.State{set.State(): vector.Of("hash", []any{[]any{"uuid:1", "1"}}, 20_000)}
	steps := []vectorStep{
		{name: "enter", call: enter(set, 1, "2:me", vectorFence), before: empty},
		{name: "enter again: the same token", call: enter(set, 2, "2:me", vectorFence)},
		{name: "force names an entry, and not its owner", call: k.Force(set, "me", "", "", vectorFence, "{}", time.Hour)},
		{name: "enter too often", call: enter(set, 3, "2:me", vectorFence)},
		{name: "leave once", call: script.For(leave(2), toRedisson)},
		{name: "leave for the last time, and tell Redisson", call: script.For(leave(1), toRedisson)},
		{name: "enter again, past the line", call: enter(set, 2, "0:me", vectorFence), listening: both, before: entered([]int{20_000}, other)},
		{
			name: "await, of an entry in line whose owner is inside", listening: both, before: entered([]int{20_000}, other, again),
			call: k.Await(set, vectorAddress("C"), vectorLive, vectorFence, []string{again}),
		},
		{
			name: "an entry that has ended, and whose request is late, enters again beside its owner",
			call: enter(set, 2, "0:me", vectorFence), before: entered([]int{20_000, -1000}),
		},
		{name: "an entry that has died is not counted when another leaves", call: leave(1), before: entered([]int{10_000, -1000, 20_000})},
		{
			name: "a minimal hold of an entry that is not the last shuts nothing", before: entered([]int{20_000, 20_000}),
			call: script.AtLeast(leave(2), 1, 9*time.Second), args: map[int]string{4: "${us:-2000000}"},
		},
		{name: "that of the last one leaves it shut", call: script.AtLeast(leave(1), 1, 9*time.Second), args: map[int]string{4: "${us:-3000000}"}},
		{name: "for its last owner, too", call: enter(set, 3, "0:me", vectorFence)},
		{
			name: "force what Redisson may count the tokens of: the first in line is told to ask", listening: both,
			call: k.Force(set, script.Owner("A", 1), "", "", vectorFence, "{}", time.Hour), before: entered([]int{20_000}, other),
		},
		{name: "held by Redisson", call: enter(set, 4, "0:me", vectorFence), before: redisson},
		{name: "take what Redisson holds by force", call: k.Force(set, "uuid:1", "", "", vectorFence, "{}", time.Hour)},
		{name: "a token of Redisson's counter, which never expires", call: enter(counter, 5, "0:me", 0), before: vector.State{
			counter.Fence(): vector.Of("string", "9000000000000000", -1),
		}},
	}
	return ofKind(k, steps)
}

// withCounter is the keys of a lock whose tokens Redisson counts.
func withCounter(set keys.Set) keys.Set {
	set, err := set.WithFence("redisson_lock_token:{redlatch:x}")
	if err != nil {
		panic(err)
	}
	return set
}

// rwmutexSteps are what a read-write mutex has beside the life of all kinds.
func rwmutexSteps() []vectorStep {
	k, set := script.RWMutex, vectorKeys("x")
	inside := set.List(keys.InsideSuffix)[4]
	get := func(n uint64, param string) conn.Call {
		return k.Acquire(set, script.Request{Owner: script.Owner("A", n), TTL: vectorTTL, Param: param, FenceTTL: vectorFence, LiveFor: vectorLive})
	}
	readers := vector.State{ // A reads, and C waits to write
		set.State():   vector.Of("zset", []any{[]any{"rwmutex\t", "-1"}, []any{"rl-A-1", "${ms:20000}"}}, 20_000),
		inside:        vector.Of("hash", []any{[]any{"rl-A-1", "${us:-1000000}\t0\tr"}}, 20_000),
		set.Fence():   vector.Of("string", "${us:-1000000}", 600_000_000),
		set.Queue():   vector.Of("zset", []any{[]any{vectorTicket(k, "C", "w"), "${us:-500000}"}}, 3_590_000),
		set.Clients(): vector.Of("zset", []any{[]any{vectorAddress("C"), "${ms:50000}"}}, 3_590_000),
	}
	steps := []vectorStep{
		{name: "read", call: get(1, "r"), before: empty},
		{name: "read beside", call: get(2, "r")},
		{name: "write", call: get(3, "w")},
		{name: "write, as a reader", call: get(4, "wrl-A-1")},
		{name: "read again, past a writer in line", call: get(8, "rrl-A-1"), before: readers, listening: []string{vectorAddress("C")}},
		{name: "a writer", call: get(5, "w"), before: empty},
		{name: "read beside a writer", call: get(8, "r")},
		{name: "downgrade", call: get(6, "drl-A-5")},
		{name: "downgrade of what is not held", call: get(7, "drl-A-9")},
		{name: "read beside a reader whose lease on writing has ended", call: get(8, "r"), before: vector.State{
			set.State(): vector.Of("zset", []any{
				[]any{"rwmutex\trl-A-5", "-1"}, []any{"rl-A-5", "${ms:-1000}"}, []any{"rl-A-6", "${ms:20000}"},
			}, 20_000),
			inside:      vector.Of("hash", []any{[]any{"rl-A-5", "${us:-9000000}\t0\tw"}, []any{"rl-A-6", "${us:-9000000}\t0\tr"}}, 20_000),
			set.Fence(): vector.Of("string", "${us:-9000000}", 600_000_000),
		}},
		{
			name: "a writer waits, and is told to the reader that has not died", listening: []string{vectorAddress("B"), vectorAddress("C")},
			call: k.Acquire(set, script.Request{
				Owner: script.Owner("C", 1), TTL: vectorTTL, Param: "w", FenceTTL: vectorFence, LiveFor: vectorLive,
				Ticket: vectorTicket(k, "C", "w"), Address: vectorAddress("C"),
			}),
			before: vector.State{
				set.State(): vector.Of("zset", []any{[]any{"rwmutex\t", "-1"}, []any{"rl-A-1", "${ms:20000}"}, []any{"rl-B-1", "${ms:20000}"}}, 20_000),
				inside:      vector.Of("hash", []any{[]any{"rl-A-1", "${us:-1000000}\t0\tr"}, []any{"rl-B-1", "${us:-1000000}\t0\tr"}}, 20_000),
				set.Clients(): vector.Of("zset", []any{
					[]any{"wanted\t" + vectorAddress("A") + "\trl-A-1", "-${ms:30000}"}, []any{"wanted\t" + vectorAddress("B") + "\trl-B-1", "-${ms:30000}"},
				}, 30_000),
			},
		},
		{name: "read, before a reader that may be kept", call: get(1, "r"), before: empty},
		{name: "read what may be kept", call: k.Acquire(set, script.Request{
			Owner: script.MayKeep(script.Owner("A", 2)), TTL: vectorTTL, Param: "r#3", FenceTTL: vectorFence, LiveFor: vectorLive,
		})},
		{name: "write, and learn which reader may be kept", call: get(3, "w")},
		{name: "read beside a reader that has left before its minimal hold was over", call: get(2, "r"), before: vector.State{
			set.State(): vector.Of("zset", []any{[]any{"rwmutex\t", "-1"}, []any{"rl-A-1", "${ms:8000}"}}, 8000),
			inside:      vector.Of("hash", []any{[]any{"rl-A-1", "${us:-1000000}\t8000\tr"}}, 8000),
		}},
		{name: "the other reader leaves", call: k.Release(set, script.Owner("A", 2), "", true, vectorFence)},
		{name: "the first keeps a writer out", call: get(3, "w")},
	}
	return ofKind(k, steps)
}

// semaphoreSteps are what a semaphore has beside the life of all kinds.
func semaphoreSteps() []vectorStep {
	k, set := script.Semaphore, vectorKeys("x")
	get := func(client, param string, arrival int64) conn.Call {
		return k.Acquire(set, script.Request{
			Owner: script.Owner(client, 1), TTL: vectorTTL, Param: param, FenceTTL: vectorFence, LiveFor: vectorLive,
			Ticket: vectorTicket(k, client, param), Address: vectorAddress(client), Arrival: arrival,
		})
	}
	both := []string{vectorAddress("B"), vectorAddress("C")}
	return ofKind(k, []vectorStep{
		{name: "acquire all permits", call: get("A", "3:3", 0), before: empty},
		{name: "wait for two", call: get("B", "2:3", 0), listening: both},
		{name: "resize to one, and tell who waits for more", call: k.Resize(set, 1, vectorFence), listening: both},
		{name: "a place in line that was lost, after a resize", call: get("C", "1:3", 9_000_000_000_000_000), listening: both},
		{name: "the same place, as after a lost reply", call: get("C", "1:3", 0), listening: both},
		{name: "a new place, for one who does not know of the resize", call: get("B", "1:3", 0), listening: both},
	})
}

// restSteps are about a slot at rest.
func restSteps() []vectorStep {
	k, set, a := script.SlotPool, vectorKeys("x"), script.Owner("A", 1)
	list := set.List(keys.InsideSuffix, keys.BitsSuffix)
	rests := vector.State{
		list[0]: vector.Of("zset", []any{[]any{"slotpool\t1", "-1"}, []any{a, "${ms:20000}"}}, 60_000), list[5]: vector.Of("string", "hex:80", 60_000),
		list[4]: vector.Of("hash", []any{[]any{a, "9000000000000003\t30000\t0"}}, 60_000),
	}
	return ofKind(k, []vectorStep{
		{name: "force where the slot is at rest", call: k.Force(set, a, "", "", vectorFence, "{}", time.Hour), before: rests},
		{name: "release where the slot is at rest", call: k.Release(set, a, "", true, vectorFence)},
		{name: "release of an acquisition that is undone, where its slot is at rest", call: k.Release(set, a, "", false, vectorFence), before: rests},
	})
}

// countdownSteps are two rounds of a countdown: client A sets and counts, B and C wait.
func countdownSteps() []vectorStep {
	k, set := script.Countdown, vectorKeys("x")
	const round = 9_000_000_000_000_001 // beyond the clock
	remembered := vector.State{set.Fence(): vector.Of("string", "9000000000000000", 600_000_000)}
	request := func(n uint64) string { return script.Owner("A", n) }
	wait := func(client string, round int64) conn.Call {
		return script.WaitCount(set, round, vectorTicket(k, client, fmt.Sprint(round)), vectorAddress(client), vectorLive)
	}
	both := []string{vectorAddress("B"), vectorAddress("C")}
	inLine := func(ticket, alive string) vector.State {
		return vector.State{
			set.Queue():   vector.Of("zset", []any{[]any{ticket, "0"}}, 3_590_000),
			set.Clients(): vector.Of("zset", []any{[]any{alive, "${ms:50000}"}}, 3_590_000), set.Fence(): remembered[set.Fence()],
		}
	}
	waitsForMutex := inLine(vectorTicket(script.Mutex, "B", ""), vectorAddress("B"))
	setAnew := script.SetCount(set, request(1), 3, time.Hour, vectorFence, round-1)
	steps := []vectorStep{
		{name: "set where a waiter for a mutex is in line", call: setAnew, before: waitsForMutex, listening: both[:1]},
		{name: "set where that waiter has died", call: setAnew, before: waitsForMutex},
		{name: "set where none but a yield is in line", call: setAnew, before: inLine("Ayield\tyield\t60000\t\t", "yield")},
		{name: "count down where no count is set", call: script.CountDown(set, request(1), ""), before: remembered},
		{name: "wait where no count is set", call: wait("B", 0)},
		{name: "ask for the fence", call: script.SetCount(set, request(2), 3, time.Hour, vectorFence, -1)},
		{name: "set", call: script.SetCount(set, request(2), 3, time.Hour, vectorFence, round-1)},
		{name: "set again, as after a lost reply", call: script.SetCount(set, request(2), 3, time.Hour, vectorFence, round-1)},
		{name: "set a count that is above zero", call: script.SetCount(set, request(3), 5, time.Hour, vectorFence, -1)},
		{name: "read", call: script.WaitCount(set, 0, "", "", 0)},
		{name: "wait", call: wait("B", round), listening: both[:1]},
		{name: "wait, the second", call: wait("C", round), listening: both},
		{name: "the heartbeat of a waiter", call: wait("B", round), listening: both},
		{name: "count down", call: script.CountDown(set, request(4), "")},
		{name: "count down again, as after a lost reply", call: script.CountDown(set, request(4), "")},
		{name: "count down once", call: script.CountDown(set, request(5), "part")},
		{name: "count the same down once more", call: script.CountDown(set, request(6), "part")},
		{name: "inspect", call: k.Inspect(set), listening: both},
		{name: "sniff", call: script.Sniff(set)},
		{
			name: "a waiter gives up",
			call: k.Release(set, script.Owner("C", 1), vectorTicket(k, "C", fmt.Sprint(round)), false, vectorFence), listening: both[:1],
		},
		{name: "count down to zero, and tell the waiters", call: script.CountDown(set, request(7), ""), listening: both},
		{name: "count down below zero", call: script.CountDown(set, request(8), "")},
		{name: "wait when it is zero", call: wait("B", round)},
		{name: "set with an old fence", call: script.SetCount(set, request(9), 1, time.Hour, vectorFence, round-1)},
		{name: "set after zero", call: script.SetCount(set, request(9), 1, time.Hour, vectorFence, round)},
		{name: "a late copy of a request of the round before", call: script.CountDown(set, request(7), "")},
		{name: "wait for the round before", call: wait("B", round)},
		{name: "wait for the round of now", call: wait("B", round+1), listening: both[:1]},
		{name: "delete the round before", call: script.DeleteCount(set, round)},
		{name: "delete, and have the waiters ask", call: script.DeleteCount(set, round+1), listening: both[:1]},
		{name: "wait for a round that is gone", call: wait("B", round+1)},
		{
			name: "wait for a round that an older copy of the data lacks", call: wait("B", round+4),
			before: vector.State{set.State(): vector.Of("zset", []any{
				[]any{"countdown\t1:1:3600000:9000000000000009:9000000000000001:,9000000000000001,9000000000000003", "-1"},
			}, 20_000)},
		},
		{
			name: "a name of another kind", call: script.CountDown(set, request(10), ""),
			before: vector.State{set.State(): vector.Of("zset", []any{[]any{"semaphore\t3", "-1"}}, 20_000)},
		},
	}
	return ofKind(k, steps)
}

// clientSteps are the scripts that are of no lock.
func clientSteps() []vectorStep {
	record, notes, journal := keys.Record("redlatch:", "A"), keys.Notes("redlatch:", "A"), keys.Journal("redlatch:")
	waits := `w{"name":"y","kind":"mutex","since":1,"holds":[{"name":"x","kind":"mutex","owner":"rl-A-1","token":1}]}`
	return []vectorStep{
		{name: "write a record", call: script.Record(record, `{"host":"h"}`, 3*time.Minute), before: empty},
		{name: "write notes", call: script.Note(notes, 3*time.Minute, true, []string{"rl-A-1", `l{"labels":{"a":"b"}}`, "rl-A-2", waits})},
		{name: "read them", call: script.Recall(record, notes, vectorAddress("A"), "rl-A-1", "rl-A-7"), listening: []string{vectorAddress("A")}},
		{name: "read those of waiters that keep a lease", call: script.Waits(notes)},
		{name: "forget a note", call: script.Note(notes, 3*time.Minute, false, []string{"rl-A-1", ""})},
		{name: "read all that are left", call: script.Recall(record, notes, vectorAddress("A"), "*")},
		{name: "forget the record", call: script.Record(record, "", 3*time.Minute)},
		{name: "write the journal", call: script.Journal(journal, 100, time.Hour, []string{`{"id":"A-1"}`, `{"id":"A-2"}`})},
		{name: "read the journal", call: script.Journaled(journal, "-", "+", false, 10)},
	}
}

// quorumSteps are the life of a lock on one node of a quorum.
func quorumSteps(k *script.Kind) []vectorStep {
	q, set, params := k.Quorum(), vectorKeys("x"), vectorParams[k.Name]
	set.Epoch = keys.Epoch("redlatch:", k.Name)
	ballot := func(client string, param string) script.Ballot {
		return script.Ballot{
			Owner: script.Owner(client, 1), TTL: vectorTTL, Param: param, Bound: vectorTTL, FenceTTL: vectorFence,
			Ticket: vectorTicket(k, client, param), Address: vectorAddress(client), LiveFor: vectorLive, Waited: time.Second,
		}
	}
	a, b := script.Owner("A", 1), script.Owner("B", 1)
	detail := map[string]string{"slotpool": "0", "election": "host-a"}[k.Name]
	seat := script.Restore(set.Epoch, "${run}", vectorTTL, 0, vectorTTL)
	resting := func(begun, until string) vector.State {
		epoch := []any{[]any{"begun", begun}, []any{"resting", "${run}"}, []any{"until", until}}
		return vector.State{set.Epoch: vector.Of("hash", epoch, -1)}
	}
	steps := []vectorStep{
		{name: "vote without the right to", call: q.Vote(set, ballot("A", params[0])), before: empty},
		{name: "look", call: script.Look(set.Epoch)},
		{name: "begin to rest", call: script.Rest(set.Epoch, "${run}", 0)},
		{name: "get the right to vote", call: script.Restore(set.Epoch, "${run}", 0, 9_000_000_000_000_000, vectorTTL)},
		{name: "vote", call: q.Vote(set, ballot("A", params[0]))},
		{name: "vote while another is inside", call: q.Vote(set, ballot("B", params[1]))},
		{name: "raise", call: q.Raise(set, a, vectorTTL, 9_000_000_000_000_007, detail, vectorFence)},
		{name: "confirm", call: q.Renew(set, a, vectorTTL, detail)},
		{name: "inspect", call: q.Inspect(set), listening: []string{vectorAddress("B")}},
		{name: "adopt", call: q.Adopt(set, a, script.Owner("A", 2), vectorTTL, detail, vectorTTL)},
		{name: "release, and tell the first in line", call: q.Release(set, script.Owner("A", 2), "", true, vectorFence), listening: []string{vectorAddress("B")}},
		{name: "vote of the first in line", call: q.Vote(set, ballot("B", params[1])), listening: []string{vectorAddress("B")}},
		{name: "force", call: q.Force(set, b, vectorAddress("B"), "", vectorFence, "{}", time.Hour), listening: []string{vectorAddress("B")}},
		{name: "mend", call: q.Mend(set, ballot("A", params[0]), 9_000_000_000_000_030, detail, 0)},
	}
	if k.Sized() {
		steps = append(steps,
			vectorStep{name: "resize", call: q.Resize(set, 4, vectorFence)},
			vectorStep{name: "confirm another slot than the owner has here", call: q.Renew(set, a, vectorTTL, "1")})
	}
	steps = append(steps, []vectorStep{
		{name: "raise for one who is not inside", call: q.Raise(set, b, vectorTTL, 9_000_000_000_000_040, detail, vectorFence)},
		{name: "force once more", call: q.Force(set, a, vectorAddress("B"), "", vectorFence, "{}", time.Hour), listening: []string{vectorAddress("B")}},
		{name: "confirm where no owner is inside", call: q.Renew(set, a, vectorTTL, detail)},
		{name: "mend where others were counted since", call: q.Mend(set, ballot("A", params[0]), 9_000_000_000_000_007, detail, 9_000_000_000_000_030)},
		{name: "mend where others were counted before", call: q.Mend(set, ballot("A", params[0]), 9_000_000_000_000_007, detail, 9_000_000_000_000_031)},
		{name: "the right to vote after a rest that was too short", call: seat, before: resting("${ms:-10000}", "${ms:-1000}")},
		{name: "the right to vote in a new quorum, whose nodes need no rest", call: seat, before: resting("${ms:-1000}", "${ms:-1000}")},
		{name: "vote during a rest that began before the clock was set back", call: q.Vote(set, ballot("A", params[0])), before: resting("${ms:60000}", "${ms:90000}")},
		{name: "begin that rest anew", call: script.Rest(set.Epoch, "${run}", vectorTTL)},
	}...)
	switch k {
	case script.Job:
		steps = append(steps, windowSteps(q, set, ballot)...)
	case script.SlotPool:
		steps = append(steps, slotSteps(q, set, ballot)...)
	}
	return ofKind(q, steps)
}

// voting is that a node has the right to vote.
var voting = vector.Of("hash", []any{[]any{"high", "9000000000000000"}, []any{"run", "${run}"}, []any{"ttl", "30000"}}, -1)

// slotSteps are about a node that lacks an owner, and has other owners. It takes the owner in all the
// same, also where the owner's slot is at rest.
func slotSteps(q *script.Kind, set keys.Set, ballot func(client, param string) script.Ballot) []vectorStep {
	list, a, b := set.List(keys.InsideSuffix, keys.BitsSuffix), script.Owner("A", 1), script.Owner("B", 1)
	all := vector.State{
		set.Epoch: voting, list[1]: vector.Of("string", "9000000000000009", 60_000), list[5]: vector.Of("string", "hex:c0", 60_000),
		set.State(): vector.Of("zset", []any{[]any{"slotpool\t3", "-1"}, []any{a, "${ms:20000}"}, []any{b, "${ms:30000}"}}, 60_000),
		list[4]:     vector.Of("hash", []any{[]any{a, "9000000000000003\t30000\t0"}, []any{b, "9000000000000009\t0\t1"}}, 60_000),
	}
	mend := q.Mend(set, ballot("A", "8:30000:0:"), 9_000_000_000_000_003, "0", 9_000_000_000_000_009)
	return []vectorStep{
		{name: "confirm where its own slot is at rest", call: q.Renew(set, a, vectorTTL, "0"), before: all},
		{name: "confirm where another has the slot", call: q.Renew(set, a, vectorTTL, "1")},
		{name: "mend where its own slot is at rest, beside another, and the pool was resized", call: mend},
		{name: "confirm where others have other slots", call: q.Renew(set, script.Owner("C", 1), vectorTTL, "2")},
		{name: "mend of a slot beyond the size that the pool has now", call: q.Mend(set, ballot("A", "8:30000:5:"), 9_000_000_000_000_003, "5", 9_000_000_000_000_009), before: all},
	}
}

// windowSteps are votes for a job. Each names the owner that keeps the others out.
func windowSteps(q *script.Kind, set keys.Set, ballot func(client, param string) script.Ballot) []vectorStep {
	votes, a, b := vector.State{set.Epoch: voting}, script.Owner("A", 1), ballot("B", "9000")
	window := vector.State{
		set.Epoch:                      voting,
		set.State():                    vector.Of("zset", []any{[]any{"job\t", "-1"}, []any{"window", "${ms:9000}"}}, 9_000),
		set.List(keys.InsideSuffix)[4]: vector.Of("hash", []any{[]any{"window", a}}, 9_000),
	}
	counted := maps.Clone(window)
	counted[set.Fence()] = vector.Of("string", "9000000000000009", 60_000)
	return []vectorStep{
		{name: "vote for a run whose window ends before its lease", call: q.Vote(set, ballot("A", "9000")), before: votes},
		{name: "adopt that run", call: q.Adopt(set, a, script.Owner("A", 2), vectorTTL, "", vectorTTL)},
		{name: "vote while that run is inside", call: q.Vote(set, b)},
		{name: "vote in the window of a run that may never have begun", call: q.Vote(set, b), before: window},
		{name: "mend in the window of another", call: q.Mend(set, b, 9_000_000_000_000_003, "", 0)},
		{name: "mend in its own window", call: q.Mend(set, ballot("A", "9000"), 9_000_000_000_000_003, "", 0)},
		{name: "confirm in its own window", call: q.Renew(set, a, vectorTTL, ""), before: counted},
		{name: "confirm in the window of another", call: q.Renew(set, b.Owner, vectorTTL, "")},
	}
}

func vectorFiles() []vectorFile {
	files := []vectorFile{{"client", clientSteps()}, {"countdown", countdownSteps()}}
	special := map[string]func() []vectorStep{"mutex": mutexSteps, "reentrant": reentrantSteps, "rwmutex": rwmutexSteps, "semaphore": semaphoreSteps, "slotpool": restSteps}
	for _, k := range script.Kinds() {
		if _, known := vectorParams[k.Name]; !known {
			continue // TestVectorsAreOfEveryScript says so
		}
		steps := kindSteps(k)
		if more := special[k.Name]; more != nil {
			steps = append(steps, more()...)
		}
		files = append(files, vectorFile{k.Name, steps})
		if k.Quorum() != nil {
			files = append(files, vectorFile{"quorum-" + k.Name, quorumSteps(k)})
		}
	}
	return files
}

// TestVectors compares what the scripts do with docs/vectors, which ports of the protocol are tried
// with. With -update it writes them.
func TestVectors(t *testing.T) {
	t.Parallel()
	if *update {
		check.OK(t, "MkdirAll", os.MkdirAll(vectorsDir, 0o755))
	}
	compare := func(t *testing.T, file string, make func() string) {
		t.Helper()
		path := filepath.Join(vectorsDir, file)
		if *update {
			text := make()
			for again := make(); again != text; again = make() { // until two runs agree; see below
				text = again
			}
			check.OK(t, "WriteFile", os.WriteFile(path, []byte(text), 0o644))
			return
		}
		want := check.Value(os.ReadFile(path)).OK(t)
		var got string
		for range 3 { // times that are far off, on a machine that is busy, are not an error of the script
			if got = make(); got == string(want) {
				return
			}
		}
		t.Errorf("%s is not what the scripts do; `go test ./peers -run TestVectors -update` in tests writes it anew:\n%s", path, firstDifference(string(want), got))
	}
	compare(t, "scripts.json", sources)
	for _, f := range vectorFiles() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := newVectorBench(t)
			compare(t, f.name+".json", func() string { return compactVectors(b.vectors(f.steps)) })
		})
	}
}

// TestVectorsAreOfEveryScript: a script without a vector is one that a port cannot try.
func TestVectorsAreOfEveryScript(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, f := range vectorFiles() {
		for _, s := range f.steps {
			seen[s.kind.Spelling(s.call.Script)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(script.Sources())) {
		check.That(t, seen[name], "no vector calls the script %q: add steps to vectors_test.go", name)
	}
}

// sources is what docs/vectors/scripts.json says: the files of each script, a line each.
func sources() string {
	var lines []string
	all := script.Sources()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, "  "+plainJSON(name)+": "+plainJSON(all[name]))
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}\n"
}

// firstDifference shows the first lines that differ.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\ngot  " + g[i]
		}
	}
	return "one is longer"
}
