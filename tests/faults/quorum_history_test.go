package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	record "github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestQuorumHistories has workers over several clients take turns while something happens to the
// nodes, and looks at what they believed. It runs beside no other test: they would leave it too
// little of the machine for a history worth looking at.
func TestQuorumHistories(t *testing.T) {
	for _, n := range []int{4, 5} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			for what, harm := range map[string]func(context.Context, *ground, *rand.Rand){
				"partitions": partitions, "pauses": pauses, "restarts": restarts, "slow": slowdowns, "kills": kills,
			} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					all := historyOverQuorum(t, help.StartNodes(t, n), harm)
					for _, f := range []record.Finding{all.Exclusion(record.Rules{}), all.Tokens(record.Rules{}), all.Stale(), all.Turns()} {
						wantClean(t, f)
					}
				})
			}
		})
	}
}

// ground is where a history takes place: nodes, and a proxy before each for each client.
type ground struct {
	nodes []*redistest.Server
	links [][]*wire.Proxy // by client and node
}

func (q *ground) node(random *rand.Rand) *redistest.Server { return q.nodes[random.IntN(len(q.nodes))] }

func (q *ground) link(random *rand.Rand) *wire.Proxy {
	return q.links[random.IntN(len(q.links))][random.IntN(len(q.nodes))]
}

// historyOverQuorum returns what workers of a mutex did and believed. When all harm is over, each client
// can have the mutex again.
func historyOverQuorum(t *testing.T, nodes []*redistest.Server, harm func(context.Context, *ground, *rand.Rand)) *record.History {
	t.Helper()
	const clients, workers, span = 3, 2, 4 * time.Second
	q := &ground{nodes: nodes, links: make([][]*wire.Proxy, clients)}
	u := usages()["mutex"]
	var work sync.WaitGroup
	var all []*redlatch.Client
	for i := range clients {
		var urls []string
		q.links[i], urls = wire.Links(t, nodes)
		all = append(all, help.OpenURLs(t, urls, help.Hasty(600*time.Millisecond)))
	}
	help.IsWell(t, all[0].Mutex("mutex")) // the nodes have the right to vote before anything happens
	ctx := untilEnough(t, span, func() bool { return u.length() >= 10 })
	for _, c := range all {
		for range workers {
			work.Go(func() { u.toil(ctx, c) })
		}
	}
	harm(ctx, q, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	work.Wait()
	for _, links := range q.links {
		for _, p := range links {
			p.Heal()
		}
	}
	for _, c := range all {
		help.IsWell(t, c.Mutex("mutex"))
	}
	if u.length() == 0 {
		t.Fatal("no worker ever held the mutex")
	}
	t.Logf("%d acquisitions", u.length())
	return u.told(t)
}

// partitions cuts off single clients from single nodes, in one direction or both, several at a
// time.
func partitions(ctx context.Context, q *ground, random *rand.Rand) {
	for ctx.Err() == nil {
		var broken []*wire.Proxy
		for range 1 + random.IntN(6) {
			p := q.link(random)
			if slices.Contains(broken, p) {
				continue
			}
			p.Swallow([]string{wire.Requests, wire.Replies}[random.IntN(2)])
			broken = append(broken, p)
		}
		help.Rest(ctx, upTo(random, 900*time.Millisecond))
		for _, p := range broken {
			p.Heal()
		}
		help.Rest(ctx, upTo(random, 200*time.Millisecond))
	}
}

// pauses stops up to three nodes at a time.
func pauses(ctx context.Context, q *ground, random *rand.Rand) {
	for ctx.Err() == nil {
		stopped := random.Perm(len(q.nodes))[:1+random.IntN(3)]
		for _, i := range stopped {
			q.nodes[i].Pause()
		}
		help.Rest(ctx, upTo(random, 900*time.Millisecond)) // the TTL is shorter
		for _, i := range stopped {
			q.nodes[i].Resume()
		}
		help.Rest(ctx, upTo(random, 300*time.Millisecond))
	}
}

// restarts makes one node after the other forget everything, by a restart or by FLUSHALL.
func restarts(ctx context.Context, q *ground, random *rand.Rand) {
	for ctx.Err() == nil {
		if node := q.node(random); random.IntN(2) == 0 {
			node.Restart()
		} else {
			node.Do("FLUSHALL")
		}
		// One at a time is what a quorum stands: the next only when this one has rested and votes
		// again.
		help.Rest(ctx, time.Second+upTo(random, 300*time.Millisecond))
	}
}

// slowdowns delays what two nodes say to everybody.
func slowdowns(ctx context.Context, q *ground, random *rand.Rand) {
	for ctx.Err() == nil {
		slow := random.Perm(len(q.nodes))[:2]
		for _, links := range q.links {
			for _, i := range slow {
				links[i].Delay([]string{wire.Requests, wire.Replies}[random.IntN(2)], upTo(random, 300*time.Millisecond))
			}
		}
		help.Rest(ctx, upTo(random, time.Second))
		for _, links := range q.links {
			for _, i := range slow {
				links[i].Heal()
			}
		}
	}
}

// kills leaves a bare majority of the nodes, and for a while one less.
func kills(ctx context.Context, q *ground, random *rand.Rand) {
	dead := random.Perm(len(q.nodes))
	help.Rest(ctx, time.Second/2)
	minority := (len(q.nodes) - 1) / 2
	for _, i := range dead[:minority] {
		q.nodes[i].Kill()
	}
	help.Rest(ctx, time.Second)
	q.nodes[dead[minority]].Pause()
	help.Rest(ctx, time.Second)
	q.nodes[dead[minority]].Resume()
	<-ctx.Done()
}

// upTo draws a time.
func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
