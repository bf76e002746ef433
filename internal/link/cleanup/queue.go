package cleanup

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

const (
	maxBatch  = 256     // releases in one pipeline
	maxQueued = 1 << 16 // releases of an outage; beyond that, those to be sent next are forgotten
	slower    = 3       // how many times the pause doubles, at most
)

var seed = maphash.MakeSeed()

// Queue is the releases that a client has still to send. It is safe for concurrent use.
type Queue struct {
	ctx      context.Context // of requests until Close
	nodes    []conn.Conn
	schedule *schedule.Schedule
	now      clock.Clock
	pause    time.Duration // time limit of a request, and about the time before each look except the last
	entry    schedule.Entry
	running  sync.WaitGroup // flushes; none begins once the schedule has stopped

	mu    sync.Mutex // guards what is below; before the schedule's
	list  []*release
	added map[uint64]*release // those of list that were added with Add, by sum
}

// release is one call, at one node.
type release struct {
	node   int
	call   conn.Call
	next   time.Time // not sent again before
	until  time.Time // the owner is gone by itself by then
	absent int       // how often in a row Redis said that the owner was not inside
	enough int       // how often Redis must say so in a row
	ends   bool      // it is also done once Redis has said that the owner was inside
	sum    uint64    // hash of the node and the call; unset if ends is set
	late   int       // how often in a row its node answered nothing in time
	done   func()    // is called when it is not sent any more; nil for most
}

// New returns a queue for these nodes. A request gets the time of pause, and is cut short when ctx
// is done.
func New(
	ctx context.Context, nodes []conn.Conn, s *schedule.Schedule, now clock.Clock, pause time.Duration,
) *Queue {
	q := &Queue{ctx: ctx, nodes: nodes, schedule: s, now: now, pause: pause, added: make(map[uint64]*release)}
	q.entry.Owner = q
	return q
}

// How many times in a row Redis must say that an owner is not inside.
const (
	ifLate     = 3 // if a request of the owner got no answer: a copy may arrive late, or very late
	ifAnswered = 2 // else: a server may take over that does not know of the first release
)

// Add queues a release. It is sent to a node after that time, and again until Redis has said three
// times in a row that the owner is not inside. Once keep has also passed, the owner is gone by
// itself, and the release is not sent any more. If the same release is queued already, the earlier
// of the two times and the later of the two ends apply.
func (q *Queue) Add(node int, call conn.Call, after, keep time.Duration) {
	q.addSummed(node, call, ifLate, after, keep)
}

// AddWaiter is Add for a waiter whose requests were all answered: Redis must say so only twice.
func (q *Queue) AddWaiter(node int, call conn.Call, keep time.Duration) {
	q.addSummed(node, call, ifAnswered, 0, keep)
}

func (q *Queue) addSummed(node int, call conn.Call, enough int, after, keep time.Duration) {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(byte(node))
	for _, s := range call.Args {
		_, _ = h.WriteString(s)
	}
	q.add(&release{node: node, call: call, enough: enough, sum: h.Sum64()}, after, keep)
}

// AddAnswered is Add for an owner whose requests were all answered, so that none can arrive late.
// The release also ends once Redis has said that the owner was inside. done, if not nil, is called
// when the release is not sent any more; it must not use the queue.
func (q *Queue) AddAnswered(node int, call conn.Call, keep time.Duration, done func()) {
	q.add(&release{node: node, call: call, enough: ifAnswered, ends: true, done: done}, 0, keep)
}

// AddOnce is Add for a ticket whose requests were all answered, or for an adoption that a node of a quorum
// may have missed: any answer is the last one needed.
func (q *Queue) AddOnce(node int, call conn.Call, keep time.Duration) {
	q.add(&release{node: node, call: call, enough: 1, ends: true}, 0, keep)
}

func (q *Queue) add(r *release, after, keep time.Duration) {
	r.next = q.now().Time().Add(after)
	r.until = r.next.Add(keep)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(r)
	q.schedule.Advance(&q.entry, r.next)
}

// addLocked queues releases. A release that a server refuses for good is added each time its owner
// is let in again; it is queued only once. The caller holds q.mu.
func (q *Queue) addLocked(more ...*release) {
	for _, r := range more {
		if !r.ends {
			if old := q.added[r.sum]; old != nil && old.same(r) {
				old.join(r)
				continue
			}
			q.added[r.sum] = r
		}
		q.list = append(q.list, r)
	}
	forgotten := max(0, len(q.list)-maxQueued)
	for _, r := range q.list[:forgotten] {
		q.dropLocked(r)
		r.end()
	}
	q.list = q.list[forgotten:]
}

// dropLocked notes that a release leaves the list. The caller holds q.mu.
func (q *Queue) dropLocked(r *release) {
	if q.added[r.sum] == r {
		delete(q.added, r.sum)
	}
}

// same reports whether two releases send the same call to the same node.
func (r *release) same(o *release) bool {
	a, b := r.call, o.call
	return r.node == o.node && a.Script == b.Script && slices.Equal(a.Keys, b.Keys) && slices.Equal(a.Args, b.Args)
}

// join makes a release stand for another one, too. The owner may have been let in since Redis said
// that it was not inside.
func (r *release) join(o *release) {
	if o.next.Before(r.next) {
		r.next = o.next
	}
	if o.until.After(r.until) {
		r.until = o.until
	}
	r.absent, r.enough = 0, max(r.enough, o.enough)
}

// Len returns how many releases are queued, due or not.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// Due implements [schedule.Owner].
func (q *Queue) Due(clock.Reading) { q.running.Go(func() { q.flush(q.ctx, false) }) }

// Close sends all releases once more, and returns when that is done: those for each place in one
// pipeline, since a client's Close has only the time of one request for them. The schedule must
// have stopped, and Add must not be called any more.
func (q *Queue) Close() {
	q.running.Wait()
	q.flush(context.Background(), true)
}

// flush sends the releases that are due, or all of them. It sends to all nodes at the same time:
// none waits for an answer of another.
func (q *Queue) flush(ctx context.Context, all bool) {
	var places sync.WaitGroup
	for at, list := range q.byPlace(q.take(all)) {
		size := maxBatch
		if all {
			size = len(list)
		}
		places.Go(func() { q.flushPlace(ctx, q.nodes[at.node], list, size) })
	}
	places.Wait()
}

// take removes and returns the releases that are due. The others stay, and are scheduled.
func (q *Queue) take(all bool) []*release {
	now := q.now().Time()
	var taken []*release
	var next time.Time // of those that stay
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(r *release) bool {
		due := all || !r.next.After(now)
		if due {
			q.dropLocked(r)
			taken = append(taken, r)
		} else if next.IsZero() || r.next.Before(next) {
			next = r.next
		}
		return due
	})
	if !next.IsZero() {
		q.schedule.Advance(&q.entry, next)
	}
	return taken
}

// place is where a release goes: one of the queue's nodes and, if that one is a whole cluster, a
// node of the cluster.
type place struct {
	node int
	addr string // in the cluster; "" if that is not known, and where there is no cluster
}

// byPlace groups the releases by where they go.
func (q *Queue) byPlace(list []*release) map[place][]*release {
	places := make(map[place][]*release)
	for _, r := range list {
		at := place{node: r.node}
		if find := q.nodes[r.node].Target().Node; find != nil {
			at.addr = find(r.call.Keys[0])
		}
		places[at] = append(places[at], r)
	}
	return places
}

// flushPlace sends the releases of one place to its node, in batches of that size. Those that need
// another look are queued for a pause later, no matter how many are added until then: the request
// to be undone may take that long to arrive. The pause grows while the node takes requests and is
// late with all answers: the releases of many clients could keep it from catching up. It is longest
// before the third look, which finds a request that the network held back for long.
func (q *Queue) flushPlace(ctx context.Context, node conn.Conn, list []*release, size int) {
	var again, rest []*release
	silent, late := false, false
	for batch := range slices.Chunk(list, size) {
		if silent {
			rest = append(rest, batch...)
			continue
		}
		batch, silent, late = q.send(ctx, node, batch)
		again = append(again, batch...)
	}
	again = append(rest, again...) // first those that were not sent: the others may be refused for good
	if len(again) == 0 {
		return
	}
	times := 0
	for i := range again {
		if late {
			times = max(times, again[i].late+1)
		}
	}
	now, pause := q.now().Time(), retry.Jitter(q.pause, 0.3)
	next := now.Add(pause << slower)
	for _, r := range again {
		doubled := min(times, slower)
		if r.absent == ifLate-1 {
			doubled = slower
		}
		r.next, r.late = now.Add(pause<<doubled), times
		if r.next.Before(next) {
			next = r.next
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(again...)
	q.schedule.Advance(&q.entry, next)
}

// send sends one batch. It returns the releases that need another look, whether the node answered
// none of the batch, and whether that was because time ran out.
func (q *Queue) send(ctx context.Context, node conn.Conn, batch []*release) (again []*release, silent, late bool) {
	calls := make([]conn.Call, len(batch))
	for i, r := range batch {
		calls[i] = r.call
	}
	ctx, cancel := context.WithTimeout(ctx, q.pause)
	defer cancel()
	now, answered := q.now().Time(), 0
	for i, result := range node.Eval(ctx, calls...) {
		r := batch[i]
		if result.Err == nil {
			answered++
		}
		if !r.settle(result) && !r.until.Before(now) {
			again = append(again, r)
		} else {
			r.end()
		}
	}
	return again, answered == 0, answered == 0 && ctx.Err() != nil
}

// end calls done, if there is one: the release is not sent any more.
func (r *release) end() {
	if r.done != nil {
		r.done()
	}
}

// settle notes a node's answer, and reports whether it was the last one needed.
//
// It is tempting to be done when the owner was inside. But a copy of the request to be undone may
// arrive after this release. It is also tempting to give up at an error that a resend would not
// fix, such as a full disk. But then a ticket stays in line, and when its turn comes, it keeps the
// others waiting.
func (r *release) settle(result conn.Result) (done bool) {
	switch {
	case result.Err != nil:
		return retry.WrongType(result.Err)
	case script.Inside(result.Reply):
		r.absent = 0
		return r.ends
	default:
		r.absent++
	}
	return r.absent == r.enough
}
