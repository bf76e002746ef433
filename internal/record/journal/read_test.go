package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
)

// stream is a server with these entries in its stream, which does not answer at some reads.
type stream struct {
	conn.Conn
	entries []string // texts; the id of each is its place
	reads   int
	fails   func(read int) bool
}

func (s *stream) Target() conn.Target { return conn.Target{Addr: "stream"} }

func (s *stream) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	s.reads++
	if s.fails != nil && s.fails(s.reads) {
		return []conn.Result{{Err: errors.New("down")}}
	}
	from, to := calls[0].Args[1], calls[0].Args[2]
	newest := calls[0].Args[0] == "XREVRANGE"
	if newest {
		from, to = to, from
	}
	_, least := splitID(from)
	var list []conn.Reply
	for i, text := range s.entries {
		if _, most := splitID(to); uint64(i) >= least && (to == "+" || uint64(i) <= most) {
			list = append(list, conn.Reply{List: []conn.Reply{{Text: "0-" + string(rune('0'+i))}, {Text: text}}})
		}
	}
	if newest {
		slices.Reverse(list)
	}
	return []conn.Result{{Reply: conn.Reply{List: list}}}
}

// TestReadBesideAServerThatFails: what one node told is told to the program, also while so many other
// nodes do not answer that the read as a whole fails. It is not read again.
func TestReadBesideAServerThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := &stream{entries: []string{`{"id":"A-1","what":"lost"}`}}
		other := &stream{entries: one.entries, fails: func(read int) bool { return read == 2 }}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := Reader{
			Nodes: []conn.Conn{one, other}, Enough: 2, Timeout: time.Second, Pattern: "*", Follow: true,
			Open: ctx.Err,
		}
		var told []string
		err := r.Read(ctx, func(e Entry) bool {
			if told = append(told, e.ID); len(told) == 1 { // between the first read and the second
				one.entries = append(one.entries, `{"id":"A-2","what":"lost"}`)
				other.entries = one.entries
			}
			return true
		})
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(told, []string{"A-1", "A-2"}) {
			t.Errorf("told %v, %v; want both entries, each once, until the context is done", told, err)
		}
	})
}

// TestReadAgain: one server that does not answer at first is asked again.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stream{entries: []string{`{"id":"A-1","what":"lost"}`}, fails: func(read int) bool { return read <= 3 }}
		r := Reader{Nodes: []conn.Conn{s}, Enough: 1, Timeout: time.Second, Pattern: "*"}
		told := 0
		err := r.Read(t.Context(), func(Entry) bool { told++; return true })
		if err != nil || told != 1 {
			t.Errorf("told %d entries, %v; want the one that is there", told, err)
		}
	})
}

// long is a node with a journal of three pages and more, which takes a second for each answer.
type long struct {
	conn.Conn
	reads int
}

func (*long) Target() conn.Target { return conn.Target{Addr: "long"} }

func (l *long) Eval(ctx context.Context, _ ...conn.Call) []conn.Result {
	if retry.Sleep(ctx, time.Second); ctx.Err() != nil {
		return []conn.Result{{Err: ctx.Err()}}
	}
	var page []conn.Reply
	for i := range pageSize {
		n := (3-l.reads)*pageSize - i
		if n <= 0 {
			break
		}
		page = append(page, conn.Reply{List: []conn.Reply{{Text: fmt.Sprintf("%d-0", n)}, {Text: fmt.Sprintf(`{"id":"A-%d","what":"lost"}`, n)}}})
	}
	l.reads++
	return []conn.Result{{Reply: conn.Reply{List: page}}}
}

// TestReadAtOnce: the nodes of a quorum are read at once, and none further back than for the last
// entries that are asked for, though another node has told them as well.
func TestReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := new(long), new(long)
		r := Reader{Nodes: []conn.Conn{a, b, &stream{fails: func(int) bool { return true }}}, Enough: 2, Timeout: 3 * time.Second, Pattern: "*", Last: 20}
		start, told := time.Now(), 0
		err := r.Read(t.Context(), func(Entry) bool { told++; return true })
		if took := time.Since(start); err != nil || told != 20 || a.reads != 1 || b.reads != 1 || took != time.Second {
			t.Errorf("told %d entries, %v, by %d and %d reads in %v; want 20 by one read of each node at once", told, err, a.reads, b.reads, took)
		}
	})
}
