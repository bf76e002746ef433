package link_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// pair is a connection over a link, and the server's end of it.
func pair(t *testing.T, l *link.Link) (client, server net.Conn) {
	t.Helper()
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	defer listener.Close()
	over := check.Value(net.Dial("tcp", listener.Addr().String())).OK(t)
	server = check.Value(listener.Accept()).OK(t)
	client = l.Wrap("there", over)
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	check.OK(t, "Write", check.ErrorOf(c.Write([]byte(text))))
}

// want reads so much.
func want(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("Read = %q, %v, want %q", got, err, text)
	}
}

// wantNothing checks that nothing arrives for a moment.
func wantNothing(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read = %d bytes, %v, want none", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

// TestLinkPassesOn what it is not told to harm.
func TestLinkPassesOn(t *testing.T) {
	t.Parallel()
	var l link.Link
	client, server := pair(t, &l)
	l.Set(link.Harm{Only: "elsewhere", SwallowRequests: true, SwallowReplies: true})
	send(t, client, "request")
	want(t, server, "request")
	send(t, server, "reply")
	want(t, client, "reply")
	check.Equal(t, l.Heal(), 0, "Heal: nothing was harmed")
}

// TestSwallowedConnectionIsClosed has requests and replies vanish, and the connection with them.
func TestSwallowedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	var l link.Link
	client, server := pair(t, &l)
	l.Set(link.Harm{SwallowRequests: true, SwallowReplies: true})
	send(t, client, "request")
	wantNothing(t, server)
	send(t, server, "reply")
	wantNothing(t, client)
	if n := l.Heal(); n < 2 {
		t.Errorf("Heal = %d, want 2 at least", n)
	}
	check.Error(t, "Read", check.ErrorOf(server.Read(make([]byte, 8))), io.EOF)
}

// TestDelayedRequestOutlivesItsConnection has a request arrive after the client has given it up: what
// fencing is for.
func TestDelayedRequestOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	var l link.Link
	client, server := pair(t, &l)
	const delay = 100 * time.Millisecond
	l.Set(link.Harm{DelayRequests: delay})
	began := time.Now()
	send(t, client, "late")
	l.Set(link.Harm{})
	send(t, client, "r")
	check.OK(t, "Close", client.Close())
	want(t, server, "later")
	check.That(t, time.Since(began) >= delay, "the request arrives after %v, want %v at least", time.Since(began), delay)
	check.Error(t, "Read", check.ErrorOf(server.Read(make([]byte, 8))), io.EOF)
}

// TestReplyIsCut half way, with its connection.
func TestReplyIsCut(t *testing.T) {
	t.Parallel()
	var l link.Link
	client, server := pair(t, &l)
	l.Set(link.Harm{CutReply: true})
	send(t, server, "0123456789")
	got, err := io.ReadAll(client)
	check.That(t, len(got) < 10 && len(got) != 0 && err != nil, "ReadAll = %q, %v, want a part and an error", got, err)
}

// TestHealEndsADelay also of what is being delayed.
func TestHealEndsADelay(t *testing.T) {
	t.Parallel()
	var l link.Link
	client, server := pair(t, &l)
	l.Set(link.Harm{DelayReplies: time.Hour})
	send(t, server, "reply")
	time.AfterFunc(50*time.Millisecond, func() { l.Heal() })
	want(t, client, "reply")
}

// TestNothingPassesOutOfStep: replies keep coming on many connections while harm begins and ends. A
// client that reads on gets all of them in order, until bytes are missing. Then it gets none.
func TestNothingPassesOutOfStep(t *testing.T) {
	t.Parallel()
	var swallowed int64
	for range 5 {
		var l link.Link
		var servers []net.Conn
		var all sync.WaitGroup
		var written atomic.Int64
		for range 10 {
			client, server := pair(t, &l)
			servers = append(servers, server)
			all.Go(func() {
				for n := 0; ; n++ {
					if _, err := server.Write([]byte{byte(n)}); err != nil {
						return
					}
					written.Add(1)
				}
			})
			all.Go(func() { wantInOrder(t, client) })
		}
		more(t, &written)
		l.Set(link.Harm{SwallowReplies: true})
		more(t, &written)
		swallowed += l.Heal()
		for _, server := range servers {
			_ = server.Close()
		}
		all.Wait()
	}
	check.That(t, swallowed != 0, "nothing was swallowed")
}

// more returns when some hundreds of replies more were written.
func more(t *testing.T, written *atomic.Int64) {
	t.Helper()
	enough := written.Load() + 300
	for end := time.Now().Add(20 * time.Second); written.Load() < enough; runtime.Gosched() {
		check.Must(t, !time.Now().After(end), "nothing is written any more")
	}
}

// wantInOrder reads numbers until the connection ends, and checks that none is missing.
func wantInOrder(t *testing.T, c net.Conn) {
	t.Helper()
	next, data := byte(0), make([]byte, 64)
	for {
		n, err := c.Read(data)
		if err != nil {
			return
		}
		for _, b := range data[:n] {
			if b != next {
				t.Errorf("Read = %d, want %d: bytes are missing before it", b, next)
				return
			}
			next++
		}
	}
}
