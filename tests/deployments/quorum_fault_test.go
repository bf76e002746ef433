package deployments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestQuorumMajorityIsKilled: no majority of the nodes is left. A lease is held until its deadline
// and not a moment longer, and nobody gets one.
func TestQuorumMajorityIsKilled(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL)), help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL))
		held := help.InsistLock(t, c.Mutex("a").Lock)
		help.Turn(t, other.Mutex("b"))
		for _, node := range nodes[:(n+1)/2] {
			node.Kill()
		}
		deadline := held.Deadline()
		for {
			before := time.Now()
			if !held.Held() {
				break
			}
			if later := held.Deadline(); later.After(deadline) {
				deadline = later // an extend that was under way when they died
			}
			check.Must(t, !before.After(deadline), "held at %v, past the deadline %v", before, deadline)
			check.Refusal(t, "TryLock without a majority", check.ErrorOf(other.Mutex("a").TryLock(t.Context())), redlatch.ErrUnreachable)
		}
		lost := help.WantLost(t, held)
		if lost.At.Before(deadline) {
			t.Errorf("given up %v before the deadline", deadline.Sub(lost.At))
		}
		if _, err := other.Mutex("c").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context()); !errors.Is(err, redlatch.ErrUnreachable) {
			t.Errorf("Lock without a majority = %v, want ErrUnreachable", err)
		}
		nodes[0].Restart()
		locktest.Eventually(t, "an error that tells that a node has just restarted", func() bool {
			_, err := other.Mutex("c").TryLock(t.Context())
			return errors.Is(err, redlatch.ErrUnreachable) && strings.Contains(err.Error(), "does not vote")
		})
	})
}

// TestDeadlineCountsFromBeforeTheRequest: of a lease at one server and at a quorum, also if the replies
// take long. (etcd's client counts from the answer, and believes too long.)
func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl, delay = 30 * time.Second, 900 * time.Millisecond // more than a deadline is early for clocks that differ
		nodes, conns := memory.Nodes(t, 4)
		o := redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl}}
		for _, c := range []*redlatch.Client{wire.Wrap(t, conns[3], o), wire.WrapQuorum(t, conns[:3], o)} {
			locktest.Release(t, locktest.Lock(t, c.Mutex("first of all")))
			for _, s := range nodes {
				s.Delay(delay)
			}
			begun := time.Now()
			l := locktest.Lock(t, c.Mutex("a"))
			check.That(t, time.Since(begun) >= delay, "Lock took %v", time.Since(begun))
			late := l.Deadline().Sub(begun.Add(ttl))
			begun = time.Now()
			check.OK(t, "Extend", l.Extend(t.Context()))
			if late = max(late, l.Deadline().Sub(begun.Add(ttl))); late > 0 {
				t.Errorf("the deadline is %v later than the TTL from when the requests were sent", late)
			}
			for _, s := range nodes {
				s.Delay(0)
			}
			locktest.Release(t, l)
		}
	})
}

// TestQuorumExtendMends: a program that extends by itself has its lease at every node again, as one
// that the watchdog extends.
func TestQuorumExtendMends(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	l := locktest.Lock(t, help.OpenQuorum(t, nodes, help.Sluggish()).Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}))
	inside := func() bool { return help.InsideAt(nodes, "a", l.Owner()) == len(nodes) }
	locktest.Eventually(t, "the owner on all nodes", inside)
	nodes[2].Do("DEL", locktest.StateKey("a"))
	check.Nil(t, "Extend", l.Extend(t.Context()))
	locktest.Eventually(t, "the owner on all nodes again", inside)
	locktest.Release(t, l)
	locktest.Eventually(t, "the owner on no node", func() bool { return help.InsideAt(nodes, "a", l.Owner()) == 0 })
}

// TestQuorumMendsAFreshLease: several contend for a lock, and one gets it with a bare majority. The
// others leave the last node, and later ones have its vote and leave it again. Soon after that, the
// lease is there, too: it outlives the loss of one of the first. It was extended after a third of
// its TTL, at least if its program had extended it at once, and that node then refused it, as it had
// counted further.
func TestQuorumMendsAFreshLease(t *testing.T) {
	t.Parallel()
	for _, later := range []int{0, 2} {
		t.Run(strconv.Itoa(later), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, conns := memory.Nodes(t, 3)
				dies := &wire.Lossy{Conn: conns[1], Hits: wire.None}
				c := wire.WrapQuorum(t, []conn.Conn{conns[0], dies, conns[2]}, redlatch.Options{})
				locktest.Release(t, locktest.Lock(t, c.Mutex("first"))) // the nodes vote
				kind, set := script.Mutex.Quorum(), check.Value(keys.Of("redlatch:", "a")).OK(t)
				set.Epoch = keys.Epoch("redlatch:", kind.Name)
				vote := func(owner string) {
					vote := script.Ballot{Owner: owner, TTL: help.Lasting, Bound: help.Lasting, FenceTTL: help.Lasting}
					got := check.Value(script.ParseVote(conns[2].Eval(t.Context(), kind.Vote(set, vote))[0].Reply)).OK(t)
					check.Must(t, got.Inside, "another contender has not got the vote of the last node: %v", got)
				}
				leave := func(owner string) {
					check.Nil(t, "leave", conns[2].Eval(t.Context(), kind.Release(set, owner, "", false, help.Lasting))[0].Err)
				}
				vote("rl-another-1")
				l := locktest.Lock(t, c.Mutex("a"))
				check.Equal(t, help.InsideAt(nodes, "a", l.Owner()), 2, "nodes with the lease, while another has the vote of the last")
				if later > 0 { // which is too early for that node
					check.Nil(t, "Extend", l.Extend(t.Context()))
				}
				time.Sleep(100 * time.Millisecond)
				leave("rl-another-1")
				for i := range later {
					vote("rl-later-" + strconv.Itoa(i))
					leave("rl-later-" + strconv.Itoa(i))
				}
				time.Sleep(400 * time.Millisecond)
				check.Equal(t, help.InsideAt(nodes, "a", l.Owner()), 3, "nodes with the lease half a second later")
				dies.Harm(wire.Unsent, wire.Every)
				time.Sleep(2 * time.Minute)
				check.That(t, l.Held(), "the lease was lost with one node: %v", l.Err())
				locktest.Release(t, l)
				check.Equal(t, help.InsideAt(nodes, "a", l.Owner()), 0, "nodes with the lease after its release")
			})
		})
	}
}

// TestQuorumLeasesOutliveNodes: one node after the other loses all that it has, or is cut off for
// longer than the leases last and has what they leave: slots at rest, the window of a run. Each
// takes all leases in again, so none is lost. Before, a node took in one lease of a slot pool alone.
// It took in none while the holder's slot was at rest there, or the window of its run was closed. So
// one lost request to adopt cost a slot or a run. A pool that had become smaller took in no slot
// beyond its size.
func TestQuorumLeasesOutliveNodes(t *testing.T) {
	t.Parallel()
	for _, adopted := range []bool{false, true} {
		for _, forgets := range []bool{false, true} {
			t.Run(fmt.Sprintf("adopted %t forgets %t", adopted, forgets), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					nodes, conns := memory.Nodes(t, 3)
					links := make([]*wire.Lossy, len(conns))
					for i, over := range conns {
						links[i] = &wire.Lossy{Conn: over, Hits: wire.None}
						conns[i] = links[i]
					}
					leaves := time.Hour // what a lease leaves at a node
					if forgets {        // which rests for as long
						leaves = 90 * time.Second
					}
					c := wire.WrapQuorum(t, conns, redlatch.Options{})
					job, pool := c.Job("job", redlatch.JobOptions{Window: leaves}), c.SlotPool("slots", 8, redlatch.SlotOptions{Quarantine: leaves})
					held := []*redlatch.Lease{locktest.Lock(t, c.Mutex("mutex")), check.Value(c.Election("election").Campaign(t.Context(), "x")).OK(t)}
					for range 8 {
						held = append(held, check.Value(pool.Acquire(t.Context())).OK(t).Lease)
					}
					check.Nil(t, "Resize", check.ErrorOf(pool.Resize(t.Context(), 5))) // holders keep their slots
					start := time.Now()
					check.That(t, check.Value(job.Do(t.Context(), func(_ context.Context, l *redlatch.Lease) error {
						held = append(held, l)
						time.Sleep(time.Minute) // all nodes have all leases
						for i, l := range held {
							if adopted {
								text := help.Detach(t, l)
								links[2].Harm(wire.Unsent, wire.Every)
								held[i] = help.Adopt(t, c, text)
								links[2].Harm(wire.Unsent, wire.None)
							}
						}
						time.Sleep(time.Minute)
						for i, node := range nodes {
							if forgets {
								node.Do("FLUSHALL")
							} else {
								links[i].Harm(wire.Unsent, wire.Every)
							}
							time.Sleep(2 * time.Minute)
							links[i].Harm(wire.Unsent, wire.None)
							time.Sleep(time.Minute)
						}
						for _, l := range held {
							check.That(t, l.Held(), "%v: %v", l, l.Err())
							locktest.Release(t, l)
						}
						return nil
					})).OK(t), "there was no run")
					if adopted || forgets {
						return
					}
					time.Sleep(59*time.Minute - time.Since(start))
					check.That(t, !help.RunJob(t, job, nil), "another run began in the window")
					time.Sleep(2 * time.Minute)
					check.That(t, help.RunJob(t, job, nil), "no run began after the window")
				})
			})
		}
	}
}

// TestQuorumMendsARunTwice: a node votes for another contender first, and takes the run of a job in
// later. It has counted for both. Then it is cut off until the lease has ended there, and only the
// window is left. After that it takes the run in again. Before, it refused the run.
func TestQuorumMendsARunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		dies, cut := &wire.Lossy{Conn: conns[1], Hits: wire.None}, &wire.Lossy{Conn: conns[2], Hits: wire.None}
		c := wire.WrapQuorum(t, []conn.Conn{conns[0], dies, cut}, redlatch.Options{})
		job := func(name string) *redlatch.Job { return c.Job(name, redlatch.JobOptions{Window: time.Hour}) }
		check.That(t, help.RunJob(t, job("first"), nil), "there was no run") // the nodes vote
		kind, set := script.Job.Quorum(), check.Value(keys.Of("redlatch:", "a")).OK(t)
		set.Epoch = keys.Epoch("redlatch:", kind.Name)
		vote := script.Ballot{Owner: "rl-another-1", TTL: help.Lasting, Param: "3600000", Bound: help.Lasting, FenceTTL: help.Lasting}
		got := check.Value(script.ParseVote(conns[2].Eval(t.Context(), kind.Vote(set, vote))[0].Reply)).OK(t)
		check.Must(t, got.Inside, "another contender has not got the vote of the last node: %v", got)
		check.That(t, check.Value(job("a").Do(t.Context(), func(_ context.Context, l *redlatch.Lease) error {
			check.Nil(t, "leave", conns[2].Eval(t.Context(), kind.Release(set, vote.Owner, "", false, help.Lasting))[0].Err)
			time.Sleep(time.Minute)
			cut.Harm(wire.Unsent, wire.Every)
			time.Sleep(2 * time.Minute)
			cut.Harm(wire.Unsent, wire.None)
			time.Sleep(time.Minute)
			dies.Harm(wire.Unsent, wire.Every)
			time.Sleep(2 * time.Minute)
			check.That(t, l.Held(), "the lease was lost with one node: %v", l.Err())
			return nil
		})).OK(t), "there was no run")
	})
}

// late is a connection over which the first vote is late, and arrives even if the client no longer
// waits for it. The reply to the first release is late, too.
type late struct {
	conn.Conn
	vote, release   time.Duration
	votes, releases atomic.Int64
}

// Eval implements [conn.Conn].
func (l *late) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if wire.Runs(calls, " vote") && l.votes.Add(1) == 1 {
		time.Sleep(l.vote)
		ctx = context.WithoutCancel(ctx)
	}
	results := l.Conn.Eval(ctx, calls...)
	if wire.Runs(calls, " release") && l.releases.Add(1) == 1 {
		time.Sleep(l.release)
	}
	return results
}

// TestQuorumVoteAfterTheRelease: a majority makes a lease, and the request to the last node is
// still on its way when the lease is released. It arrives after the release, and lets the owner in.
// That node kept the owner for the rest of the TTL. Or the client hears of the vote before it hears of
// the release.
func TestQuorumVoteAfterTheRelease(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		synctest.Test(t, func(t *testing.T) {
			nodes, conns := memory.Nodes(t, n)
			course := &trial.Course{Conns: slices.Clone(conns)}
			course.Open(t)
			for _, p := range trial.QuorumSubjects() {
				for _, release := range []time.Duration{0, 2 * time.Second} {
					course.Conns[n-1] = &late{Conn: conns[n-1], vote: time.Second, release: release}
					c, _ := course.Client(t, help.Brisk(help.Lasting))
					begun := time.Now()
					got := check.Value(p.Try(t.Context(), c, p.Kind)).From(t, p.Kind)
					synctest.Wait() // until the vote is on its way, which a release may call off before
					check.Nil(t, p.Kind+": Release", got.Release(t.Context()))
					check.That(t, time.Since(begun) < time.Second, "the release came after %v, and the vote before it", time.Since(begun))
					time.Sleep(time.Minute)
					for i, s := range nodes {
						check.Equal(t, s.Do("EXISTS", locktest.StateKey(p.Kind)), "0", "a %s is held at node %d", p.Kind, i)
					}
				}
			}
		})
	})
}

// TestQuorumTicketThatComesLate: a waiter gives up, and a request that puts its ticket in line arrives when
// the client does not look for it any more. The nodes call that waiter, which is not there. The next in
// line has the lock at once all the same, and not when it asks by itself.
func TestQuorumTicketThatComesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns := memory.Nodes(t, 3)
		o := redlatch.Options{Heartbeat: 10 * time.Second, RequestTimeout: 3 * time.Second, Lock: redlatch.LockOptions{TTL: help.Lasting}}
		held := locktest.Lock(t, wire.WrapQuorum(t, conns, o).Mutex("a"))
		links := make([]*wire.Straggling, len(conns))
		over := make([]conn.Conn, len(conns))
		for i, c := range conns {
			links[i] = &wire.Straggling{Conn: c}
			over[i] = links[i]
			links[i].KeepAfter(1, "mutex vote") // the first is without a ticket
		}
		impatient, cancel := context.WithTimeout(t.Context(), o.RequestTimeout)
		defer cancel()
		_, err := wire.WrapQuorum(t, over, o).Mutex("a").Lock(impatient)
		check.Error(t, "Lock", err, context.DeadlineExceeded)
		time.Sleep(5 * o.RequestTimeout) // it has looked for the last time
		for i, s := range nodes {
			check.Equal(t, len(locktest.Line(s, "a")), 0, "waiters in line at node %d", i)
			links[i].Deliver(t)
			check.Equal(t, len(locktest.Line(s, "a")), 1, "waiters in line at node %d, when the request is there", i)
		}
		time.Sleep(time.Second) // the ticket is before that of the next waiter at each node
		next := help.GoLock(t.Context(), wire.WrapQuorum(t, conns, o).Mutex("a"))
		time.Sleep(o.RequestTimeout)
		begun := time.Now()
		locktest.Release(t, held)
		l := help.Await(t, next)
		check.That(t, time.Since(begun) < 100*time.Millisecond, "the next in line had the lock after %v", time.Since(begun))
		locktest.Release(t, l)
	})
}

// TestQuorumForceThatIsSlow: the operator's request reaches one node after the other, and the last not at all.
// The holder hears of it at once, and asks all nodes: a majority still says that the lease is there. It must
// not be taken in again where it has been taken away.
func TestQuorumForceThatIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		holder := wire.WrapQuorum(t, conns, redlatch.Options{})
		first := locktest.Lock(t, holder.Mutex("first"))
		time.AfterFunc(time.Second, func() { _ = first.Release(context.Background()) })
		waited := help.GoLock(t.Context(), holder.Mutex("first"))
		locktest.Release(t, help.Await(t, waited))
		held := locktest.Lock(t, holder.Mutex("a"))
		time.Sleep(time.Second) // the client listens
		slow := wire.Through{Conn: conns[1], Make: func(ctx context.Context, calls ...conn.Call) []conn.Result {
			if wire.Runs(calls, "force") {
				time.Sleep(300 * time.Millisecond)
			}
			return conns[1].Eval(ctx, calls...)
		}}
		cutOff := &wire.Lossy{Conn: conns[2]}
		cutOff.Harm(wire.Unsent, wire.Every)
		operator := wire.WrapQuorum(t, []conn.Conn{conns[0], slow, cutOff}, redlatch.Options{})
		check.OK(t, "ForceRelease", check.ErrorOf(operator.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})))
		time.Sleep(time.Second)
		check.That(t, !held.Held(), "the lease that an operator has released is held for another %v", held.Remaining())
	})
}

// TestQuorumGrantThatHasRunOut: a majority lets the owner in, and is slow to say so. The client extends the
// grant, which runs out meanwhile. Another client acquires the lock and releases it. The vote at the last
// node arrives after that, and a majority says that the owner is inside. Its token would be smaller than
// that of the other client.
func TestQuorumGrantThatHasRunOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		_, conns := memory.Nodes(t, 3)
		o := redlatch.Options{RequestTimeout: 3 * time.Second, Lock: redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}}
		other := wire.WrapQuorum(t, conns, o)
		locktest.Release(t, check.Value(other.Mutex("a").TryLock(t.Context())).OK(t)) // the nodes vote
		time.Sleep(time.Minute)
		begun := time.Now()
		until := func(d time.Duration) { time.Sleep(time.Until(begun.Add(d))) }
		var votes [3]atomic.Int64
		over := make([]conn.Conn, len(conns))
		for i, c := range conns {
			over[i] = wire.Through{Conn: c, Make: func(ctx context.Context, calls ...conn.Call) []conn.Result {
				switch vote := wire.Runs(calls, " vote") && votes[i].Add(1) == 1; {
				case vote && i == 2:
					until(ttl + 100*time.Millisecond)
					return c.Eval(context.WithoutCancel(ctx), calls...)
				case vote:
					defer time.Sleep(ttl / 6)
				case wire.Runs(calls, " confirm") && i == 0:
					<-ctx.Done()
					return wire.Failing(len(calls), ctx.Err())
				case wire.Runs(calls, " confirm") && i == 2:
					until(ttl + 200*time.Millisecond)
				}
				return c.Eval(ctx, calls...)
			}}
		}
		result := help.GoLock(t.Context(), wire.WrapQuorum(t, over, o).Mutex("a"))
		until(ttl + 10*time.Millisecond)
		second := check.Value(other.Mutex("a").TryLock(t.Context())).OK(t)
		token := second.Token()
		locktest.Release(t, second)
		got := help.Await(t, result)
		check.That(t, got.Token() > token, "the token is %d after %d", got.Token(), token)
		locktest.Release(t, got)
	})
}

// TestQuorumVoteForAnotherSlot: the nodes offer several slots, so that all are asked again for one
// of them. The first request to the last node arrives when the lease is over.
func TestQuorumVoteForAnotherSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Second
		nodes, conns := memory.Nodes(t, 3)
		set := check.Value(keys.Of("redlatch:", "p")).OK(t)
		set.Epoch = keys.Epoch("redlatch:", "slotpool")
		far := wire.WrapQuorum(t, conns, help.Brisk(help.Lasting))
		first := check.Value(far.SlotPool("p", 8, redlatch.SlotOptions{}).TryAcquire(t.Context())).OK(t)
		time.Sleep(time.Second)          // until all nodes have it
		for _, over := range conns[1:] { // these offer slot 0, and that before them slot 1
			r := over.Eval(t.Context(), script.SlotPool.Quorum().Release(set, first.Owner(), "", true, time.Hour))[0]
			check.Must(t, r.Err == nil && script.Inside(r.Reply), "release of %s = %+v, want that it was inside", first.Owner(), r)
		}
		begun := time.Now()
		c := wire.WrapQuorum(t, []conn.Conn{conns[0], conns[1], &late{Conn: conns[2], vote: delay}}, help.Brisk(help.Lasting))
		slot := check.Value(c.SlotPool("p", 8, redlatch.SlotOptions{}).TryAcquire(t.Context())).OK(t)
		check.Equal(t, check.Value(slot.ID()).OK(t), 1, "the slot")
		synctest.Wait()
		check.Equal(t, nodes[2].Do("HEXISTS", help.InsideKey("p"), slot.Owner()), "1", "the slot at the last node")
		locktest.Release(t, slot.Lease)
		check.That(t, time.Since(begun) < delay, "the release came after %v, and the vote before it", time.Since(begun))
		time.Sleep(time.Minute)
		check.Equal(t, nodes[2].Do("EXISTS", locktest.StateKey("p")), "0", "a slot is held at the last node")
	})
}

// TestQuorumExtendToIsLate: a holder that cannot reach one node extends its lease for less than its
// TTL, and then for all of it. A copy of the first of these requests that is late at another node must
// not shorten the lease there: with the third one there would be a majority for another owner.
func TestQuorumExtendToIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		o := redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}}
		_, conns := memory.Nodes(t, 3)
		other := wire.WrapQuorum(t, conns, o)
		locktest.Release(t, check.Value(other.Mutex("a").TryLock(t.Context())).OK(t)) // the nodes vote
		straggling, cutOff := &wire.Straggling{Conn: conns[1]}, &wire.Lossy{Conn: conns[2]}
		cutOff.Harm(wire.Unsent, wire.Every)
		c := wire.WrapQuorum(t, []conn.Conn{conns[0], straggling, cutOff}, o)
		l := check.Value(c.Mutex("a").TryLock(t.Context())).OK(t)
		time.Sleep(ttl * 9 / 10)
		straggling.Keep("mutex confirm")
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), ttl/3))
		check.OK(t, "Extend", l.Extend(t.Context()))
		straggling.Deliver(t)
		time.Sleep(ttl / 2)
		check.That(t, l.Held(), "the lease is not held: %v", l.Err())
		if second, err := other.Mutex("a").TryLock(t.Context()); err == nil {
			t.Errorf("two hold at once, with the tokens %d and %d", l.Token(), second.Token())
			locktest.Release(t, second)
		}
		locktest.Release(t, l)
	})
}

// TestQuorumClockThatWasAhead: a node comes back empty with a clock that is far ahead, which is set right
// after the rest has begun. The node did not vote for as long as the clock was ahead.
func TestQuorumClockThatWasAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		epoch := keys.Epoch("redlatch:", "mutex")
		nodes, conns := memory.Nodes(t, 3)
		c := wire.WrapQuorum(t, conns, help.Brisk(help.Lasting))
		help.Turn(t, c.Mutex("a"))
		nodes[0].LoseEverything()
		help.Turn(t, c.Mutex("a"))
		time.Sleep(time.Second)
		ahead := strconv.FormatInt(time.Now().Add(100*help.Lasting).UnixMilli(), 10)
		nodes[0].Do("HSET", epoch, "begun", ahead, "until", ahead)
		for range 3 {
			help.Turn(t, c.Mutex("a"))
			time.Sleep(help.Lasting)
		}
		check.Equal(t, nodes[0].Do("HEXISTS", epoch, "run"), "1", "the node has the right to vote")
	})
}
