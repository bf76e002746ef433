package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

const (
	ours   = "ours"           // the key of a kind
	theirs = "theirs"         // that of another
	bound  = 10 * time.Second // of the nodes that voted
	early  = time.Second      // for which the caller of Restore knows a vote to bind a node
)

// voter is a node that answers as epoch.lua does. Its clock is the time of the test's bubble.
type voter struct {
	conn.Conn
	name string

	mu      sync.Mutex // guards what is below
	process string
	silent  bool          // it answers nothing
	hangs   bool          // it answers when the caller has given up
	slow    time.Duration // it looks that late
	asked   int
	rights  map[string]*right // by key
}

// right is the hash in the epoch key.
type right struct {
	run, resting string
	ttl          int64 // in milliseconds
	begun, until int64 // in milliseconds, of the rest
	high         int64
}

// clock returns the time of all nodes in microseconds.
func clock() int64 { return time.Now().UnixMicro() }

func (v *voter) Target() conn.Target { return conn.Target{Addr: v.name} }

func (v *voter) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	v.mu.Lock()
	v.asked++
	silent, hangs, slow := v.silent, v.hangs, v.slow
	v.mu.Unlock()
	time.Sleep(slow)
	if hangs {
		<-ctx.Done()
		return []conn.Result{{Err: ctx.Err()}}
	}
	if silent {
		return []conn.Result{{Err: errors.New("connection refused")}}
	}
	return []conn.Result{{Reply: v.epoch(calls[0].Keys[0], calls[0].Args)}}
}

// epoch does what epoch.lua does.
func (v *voter) epoch(key string, args []string) conn.Reply {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ms := v.right(key), clock()/1000
	step, process, rest, floor, ttl := args[0], args[1], whole(args[2]), whole(args[3]), whole(args[4])
	if process == v.process && r.run != v.process {
		switch {
		case step == "rest" && r.resting != process:
			r.resting, r.begun, r.until = process, ms, ms+rest
		case step == "seat" && r.resting == process && r.until > r.begun && r.begun+rest > max(ms, r.until):
			r.until = r.begun + rest
		case step == "seat" && r.resting == process && r.until <= ms:
			*r = right{run: process, ttl: max(r.ttl, ttl), high: max(r.high, floor)}
		}
	}
	left := int64(-1)
	if r.resting == v.process {
		left = max(0, r.until-ms)
	}
	return conn.Reply{List: []conn.Reply{
		{Int: one(r.run == v.process)},
		{Int: one(r.run != "")},
		{Text: v.process},
		{Int: r.ttl},
		{Int: r.high},
		{Int: left},
		{Int: clock()},
	}}
}

// right returns what the node has under a key. The caller holds v.mu.
func (v *voter) right(key string) *right {
	if v.rights[key] == nil {
		v.rights[key] = &right{}
	}
	return v.rights[key]
}

// state returns a letter for how the node stands.
func (v *voter) state(key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch r := v.right(key); {
	case v.silent:
		return "s"
	case r.run == v.process:
		return "v"
	case r.resting != v.process:
		return "-"
	case r.until > clock()/1000:
		return "p"
	}
	return "w"
}

func whole(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// voters returns nodes, one letter for each, and the rights to vote over them. Their numbers are
// 100, 101 and so on: v votes, n is new or has lost its keys, b is new and has begun the rest
// that takes no time, r was restarted with its data, s is silent and votes.
func voters(states string) ([]*voter, *Epochs) {
	var nodes []*voter
	var conns []conn.Conn
	for i, state := range states {
		v := &voter{name: fmt.Sprint("node", i+1), process: "process", rights: make(map[string]*right)}
		v.silent = state == 's'
		switch ms := clock() / 1000; state {
		case 'n':
		case 'b':
			v.rights[ours] = &right{resting: v.process, begun: ms, until: ms}
		default:
			v.rights[ours] = &right{run: "process", ttl: bound.Milliseconds(), high: int64(100 + i)}
		}
		if state == 'r' {
			v.process = "next"
		}
		nodes, conns = append(nodes, v), append(conns, v)
	}
	return nodes, NewEpochs(New(conns, time.Second))
}

// states returns how all nodes stand.
func states(nodes []*voter, key string) string {
	var all strings.Builder
	for _, v := range nodes {
		all.WriteString(v.state(key))
	}
	return all.String()
}

// TestEpochsRestore: nodes get the right to vote as late as they must, and no later. In the states
// that are wanted, v votes, - has no right, p is at rest, and w has served that.
func TestEpochsRestore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		nodes  string
		first  string // after the first Restore
		before string // after one that comes just before the end of the rest
		last   string // after one that comes at its end
	}{
		{"new quorum", "nnn", "vvv", "vvv", "vvv"},
		{"new quorum of four", "nnnn", "vvvv", "vvvv", "vvvv"},
		{"new quorum with a silent node", "nns", "--s", "--s", "--s"},
		{"new quorum whose founder is gone", "bbb", "vvv", "vvv", "vvv"},
		{"new quorum whose founder is not done", "vvbbb", "vvvvv", "vvvvv", "vvvvv"},
		{"new quorum with a node that was not told", "vbn", "vvp", "vvp", "vvv"},
		{"one node lost its keys", "vvn", "vvp", "vvp", "vvv"},
		{"one node was restarted", "vrv", "vpv", "vpv", "vvv"},
		{"one of five", "vvvvn", "vvvvp", "vvvvp", "vvvvv"},
		{"two of five", "vvvrn", "vvvpp", "vvvpp", "vvvvv"},
		{"majority lost its keys", "vnn", "vpp", "vpp", "vvv"},
		{"majority was restarted", "rrv", "ppv", "ppv", "vvv"},
		{"all were restarted", "rrr", "ppp", "ppp", "vvv"},
		{"two of four", "vvnn", "vvpp", "vvpp", "vvvv"},
		{"one of three, another is silent", "vsn", "vsp", "vsp", "vsw"},
		{"one of five, another is silent", "vvvsn", "vvvsp", "vvvsp", "vvvsv"},
		{"one of five, two are silent", "vvssn", "vvssp", "vvssp", "vvssw"},
		{"two of five, another is silent", "vvsnr", "vvspp", "vvspp", "vvsww"},
		{"two lost their keys, the third is silent", "snn", "s--", "s--", "s--"},
		{"two were restarted, the third is silent", "srr", "spp", "spp", "sww"},
		{"no node answers", "sss", "sss", "sss", "sss"},
		{"nothing to do", "vvv", "vvv", "vvv", "vvv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, epochs := voters(c.nodes)
				check := func(when, want string) {
					t.Helper()
					epochs.Restore(t.Context(), Right{ours, early})
					check.Equal(t, states(nodes, ours), want, "%s", when)
				}
				check("at first", c.first)
				time.Sleep(bound - time.Millisecond)
				check("before the rest is over", c.before)
				time.Sleep(time.Millisecond)
				check("when the rest is over", c.last)
			})
		})
	}
}

// TestEpochsOfAllKinds: a new quorum is new for all kinds. Other nodes than new ones get the right
// for the kind alone that was asked for.
func TestEpochsOfAllKinds(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{"nnn": "vvv", "vvn": "---", "vnn": "---", "nns": "--s"} {
		nodes, epochs := voters(before)
		epochs.Restore(t.Context(), Right{ours, early}, Right{theirs, early})
		check.Equal(t, states(nodes, theirs), want, "%s: the other kind", before)
	}
}

// TestEpochsBound: the rest lasts for the longest time that any node, or the caller, knows.
// The node that gets the right remembers that time.
func TestEpochsBound(t *testing.T) {
	t.Parallel()
	for mine, want := range map[time.Duration]time.Duration{early: bound, 3 * bound: 3 * bound} {
		synctest.Test(t, func(t *testing.T) {
			nodes, epochs := voters("vvn")
			mine := Right{ours, mine}
			epochs.Restore(t.Context(), mine)
			time.Sleep(want - time.Millisecond)
			epochs.Restore(t.Context(), mine)
			check.Equal(t, states(nodes, ours), "vvp", "before %v", want)
			time.Sleep(time.Millisecond)
			epochs.Restore(t.Context(), mine)
			check.Equal(t, states(nodes, ours), "vvv", "after %v", want)
			check.Equal(t, nodes[2].rights[ours].ttl, want.Milliseconds(), "the node is bound for")
		})
	}
}

// TestEpochsBoundThatIsToldLate: the node that knows of the longest bound does not answer when the
// rest of another begins, and does when it ends. The rest goes on until it has lasted for
// that bound.
func TestEpochsBoundThatIsToldLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const longest = 3 * bound
		nodes, epochs := voters("svn")
		nodes[0].rights[ours].ttl = longest.Milliseconds()
		check := func(when, want string) {
			t.Helper()
			epochs.Restore(t.Context(), Right{ours, early})
			check.Equal(t, states(nodes, ours), want, "%s", when)
		}
		check("at first", "svp")
		nodes[0].silent = false
		time.Sleep(bound)
		check("after the bound that was known", "vvp")
		time.Sleep(longest - bound - time.Millisecond)
		check("before the longest bound is over", "vvp")
		time.Sleep(time.Millisecond)
		check("after that", "vvv")
		if got := nodes[2].rights[ours].ttl; got != longest.Milliseconds() {
			t.Errorf("the node says that it is bound for %dms, want %v", got, longest)
		}
	})
}

// TestEpochsAskAfterTheRest: a token becomes known to a node while another is at rest.
// That one counts on from there, and not from what was known when its rest began.
func TestEpochsAskAfterTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, epochs := voters("vvr")
		epochs.Restore(t.Context(), Right{ours, early})
		nodes[0].rights[ours].high = 500
		time.Sleep(bound)
		epochs.Restore(t.Context(), Right{ours, early})
		if r := nodes[2].rights[ours]; r.run != "next" || r.high != 500 {
			t.Errorf("it has the right %+v, want that of the next process, to count on from 500", *r)
		}
	})
}

// TestEpochsRestartAtRest: the node is restarted while it is at rest. It begins anew,
// since what was concluded from the run before does not hold any more.
func TestEpochsRestartAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, epochs := voters("vvn")
		epochs.Restore(t.Context(), Right{ours, early})
		time.Sleep(bound)
		nodes[2].process = "third"
		epochs.Restore(t.Context(), Right{ours, early})
		check.Equal(t, states(nodes, ours), "vvp", "after the restart")
	})
}

// TestFloor: a node counts on from the largest number of a majority of the others, or of all with
// their clocks; or it waits.
func TestFloor(t *testing.T) {
	t.Parallel()
	// The node itself is the first. The numbers are 10, 20 and so on, and the clocks 1001, 1002.
	for _, c := range []struct {
		nodes string // v votes, n does not, s is silent
		want  int64
		ok    bool
	}{
		{"nvv", 30, true},
		{"nvn", 1003, true},
		{"nnn", 1003, true},
		{"nvs", 1002, false},
		{"nss", 1001, false},
		{"svv", 0, false},
		{"nvvv", 40, true},
		{"nvvs", 30, true},
		{"nvns", 1003, false},
		{"nvss", 1002, false},
		{"nvnn", 1004, true},
		{"nvvss", 1003, false},
		{"nvvvs", 40, true},
		{"nvvvn", 50, true},
		{"nvvnn", 1005, true},
	} {
		var nodes []epoch
		for i, state := range c.nodes {
			n := epoch{}
			if state != 's' {
				n = epoch{script.Epoch{
					Votes: state == 'v', High: int64(10 * (i + 1)), Clock: int64(1001 + i),
				}, true}
			}
			nodes = append(nodes, n)
		}
		if got, ok := floor(nodes, 0); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v, want %d, %v", c.nodes, got, ok, c.want, c.ok)
		}
	}
}

// TestEpochsHeedTheContext: a node hangs. Callers return when their contexts end, both the one that
// works and those that wait for it.
func TestEpochsHeedTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, epochs := voters("vvn")
		nodes[0].hangs = true
		epochs.conn.timeout = time.Hour
		restore := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			epochs.Restore(ctx, Right{ours, early})
			check.Equal(t, time.Since(start), patience, "with such a context it took")
		}
		var all sync.WaitGroup
		all.Go(func() { restore(time.Minute) })
		synctest.Wait()
		for i := range 3 {
			all.Go(func() { restore(time.Duration(i+1) * time.Second) })
		}
		all.Wait()
		epochs.conn.Wait() // the requests outlive their callers
	})
}

// TestRestEndsWhileTheOthersAreAsked: what they told may be from before its end, and an
// acquisition that the node forgot may have gone on since. So the node has to wait for the next
// time.
func TestRestEndsWhileTheOthersAreAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, epochs := voters("rrvvv")
		epochs.conn.timeout = time.Hour
		nodes[1].slow = time.Second
		for i, left := range []time.Duration{0, 1500 * time.Millisecond} {
			r := nodes[i].rights[ours]
			r.resting, r.until = nodes[i].process, time.Now().Add(left).UnixMilli()
		}
		epochs.Restore(t.Context(), Right{ours, early})
		check.Equal(t, states(nodes, ours), "vwvvv", "the nodes are: node 1 has served, and was asked too early")
		epochs.Restore(t.Context(), Right{ours, early})
		check.Equal(t, states(nodes, ours), "vvvvv", "the nodes are after the next time")
	})
}

// TestEpochsAskOnceForAll: while one caller works, the others wait, and ask nothing when it is
// done.
func TestEpochsAskOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, epochs := voters("vvn")
		nodes[0].hangs = true // until the time of a request has passed
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { epochs.Restore(t.Context(), Right{ours, early}) })
		}
		all.Wait()
		check.That(t, nodes[1].asked == 1, "a node was asked %d times, want once", nodes[1].asked)
		check.Equal(t, states(nodes, ours), "vvp", "the nodes are")
	})
}
