package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestOldCopyNamesAHolderThatIsDone: the server comes back with a copy in which a lease is held that
// was released since, and a place in line whose waiter was served. The client releases both again, and
// no other waits for the TTL of an hour.
func TestOldCopyNamesAHolderThatIsDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Attentive()
	o.Heartbeat = time.Minute // which frees nothing while the test is patient
	holder, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	held := locktest.Lock(t, holder.Mutex("a"))
	waits := help.GoLock(t.Context(), other.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	back := help.GoLock(t.Context(), holder.Mutex("b")) // so that both clients listen
	locktest.Release(t, help.Await(t, back))
	blocker := locktest.Lock(t, other.Mutex("b"))
	back = help.GoLock(t.Context(), holder.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	s.Do("SAVE")
	locktest.Release(t, blocker)
	locktest.Release(t, help.Await(t, back))
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, waits))
	s.Kill()
	s.Restart()
	for _, name := range []string{"a", "b"} {
		for _, c := range []*redlatch.Client{holder, other} {
			locktest.Release(t, help.InsistLock(t, c.Mutex(name).Lock))
		}
	}
	help.WantNothingLeft(t, s, "a", "b")
}

// Errors of five kinds are five errors: taken, lost, not the owner, refused by the server, no
// answer (node-redlock#168, redlock-rb#108, redsync#19, redsync#77).

// impatient has acquisitions end with an error soon if the server does not recover. If the machine
// pauses during the first request, there is time for another, which tells more.
func impatient() redlatch.Options {
	o := help.Brisk(help.Lasting)
	o.RequestTimeout = 2400 * time.Millisecond
	return o
}

// allAtOnce runs calls at the same time, since each takes all of its time, and returns what they
// returned.
func allAtOnce(calls ...func() error) []error {
	errs := make([]error, len(calls))
	help.Together(len(calls), func(i int) { errs[i] = calls[i]() })
	return errs
}

// wantNoAnswer checks the error of an operation that got no usable answer, and that it names these.
func wantNoAnswer(t *testing.T, err error, names ...string) {
	t.Helper()
	if !errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrTaken) {
		t.Fatalf("error %v, want ErrUnreachable, which does not say who holds the lock", err)
	}
	for _, name := range names {
		check.That(t, strings.Contains(err.Error(), name), "error %q, want it to name %q", err, name)
	}
}

// TestReadOnlyReplica: a replica refuses a request, and the client resends it. The request succeeds once
// the replica has become a master.
func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, impatient())
	steady := locktest.Open(t, s.URL(), redlatch.Options{RequestTimeout: locktest.Patience})
	s.Do("REPLICAOF", "127.0.0.1", "1")
	result := help.GoTryLock(t.Context(), steady.Mutex("a"))
	for _, err := range allAtOnce(
		func() error { return check.ErrorOf(c.Mutex("a").TryLock(t.Context())) },
		func() error { return check.ErrorOf(c.Mutex("a").Lock(t.Context())) },
	) {
		wantNoAnswer(t, err, s.Addr(), "READONLY")
	}
	s.Do("REPLICAOF", "NO", "ONE")
	locktest.Release(t, help.Await(t, result))
}

func TestServerThatLoadsItsData(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, "way to make it answer while it loads little")
	s := redistest.Start(t, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	hasty, steady := locktest.Open(t, s.URL(), impatient()), locktest.Open(t, s.URL(), redlatch.Options{RequestTimeout: locktest.Patience})
	s.Do("EVAL", "for i = 1, 100000 do redis.call('SET', 'key' .. i, i) end", "0")
	s.Do("SAVE")
	s.RestartLoading() // for 100 s, unless told to hurry
	_, err := hasty.Mutex("a").TryLock(t.Context())
	wantNoAnswer(t, err, s.Addr(), "LOADING")
	result := help.GoLock(t.Context(), steady.Mutex("a"))
	s.Do("CONFIG", "SET", "key-load-delay", "0")
	locktest.Release(t, help.Await(t, result))
}

// TestNobodyListens uses a socket with a name of its own: somebody else might come to listen at a
// port.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	s := redistest.Start(t, "--unixsocket", socket)
	c := locktest.Open(t, "unix://"+socket, impatient())
	held := locktest.Lock(t, c.Mutex("held"))
	s.Kill()
	for _, err := range allAtOnce(
		func() error { return check.ErrorOf(redlatch.Open(t.Context(), "unix://"+socket, impatient())) },
		func() error { return check.ErrorOf(c.Mutex("a").TryLock(t.Context())) },
		func() error { return check.ErrorOf(c.Mutex("b").Lock(t.Context())) },
		func() error { return check.ErrorOf(c.Inspect(t.Context(), "a")) },
		func() error { return held.Extend(t.Context()) },
	) {
		wantNoAnswer(t, err, socket)
	}
	check.That(t, held.Held(), "the lease was lost without a word from Redis: %v", held.Err())
	wantNoAnswer(t, held.Release(t.Context()), socket)
	_, err := redlatch.Open(t.Context(), s.URL(), impatient())
	wantNoAnswer(t, err, s.Addr(), "refused")
}

// TestTooManyClients has every connection end while the server has room for none: no client that comes,
// or comes back, gets an answer. What is held and waited for goes on when there is room again.
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	console := check.Value(net.Dial("tcp", s.Addr())).OK(t) // for when it takes no new connections
	defer console.Close()
	said := bufio.NewReader(console)
	tell := func(command string) {
		check.OK(t, "Fprintf", check.ErrorOf(fmt.Fprintf(console, "%s\r\n", command)))
		check.OK(t, "ReadString", check.ErrorOf(said.ReadString('\n')))
	}
	p := wire.StartProxy(t, s)
	c, other, hasty := wire.Behind(t, p, help.Unhurried()), wire.Behind(t, p, help.Unhurried()), wire.Behind(t, p, impatient())
	held := locktest.Lock(t, c.Mutex("a"))
	next := help.GoLock(t.Context(), other.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	tell("CONFIG SET maxclients 1") // which the console is
	p.Cut()
	for _, err := range allAtOnce(
		func() error { return check.ErrorOf(redlatch.Open(t.Context(), p.URL(), impatient())) },
		func() error { return check.ErrorOf(hasty.Mutex("b").Lock(t.Context())) },
	) {
		wantNoAnswer(t, err, p.Listen)
	}
	tell("CONFIG SET maxclients 10000")
	check.That(t, held.Extend(t.Context()) == nil, "Extend: %v", held.Err())
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, next))
}

// wantRefused checks an error that the server answered with: at once, and without a secret.
func wantRefused(t *testing.T, s *redistest.Server, err error, code string) {
	t.Helper()
	check.Must(t, err != nil && !errors.Is(err, redlatch.ErrUnreachable) && !errors.Is(err, redlatch.ErrTaken), "error %v, want the server's own", err)
	if text := err.Error(); !strings.Contains(text, s.Addr()) || !strings.Contains(text, code) || strings.Contains(text, "secret") {
		t.Errorf("error %q, want it to name %s and %s and no password", text, s.Addr(), code)
	}
}

// stubborn resends for so long that a test which gets an error got it at once.
var stubborn = redlatch.Options{RequestTimeout: 10 * locktest.Patience}

// TestPasswordChangesUnderAClient has the server turn a client away that it knew.
func TestPasswordChangesUnderAClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.AllowUser("guest", "on", ">old-secret", "~*", "&*", "+@all")
	c := locktest.Open(t, "redis://guest:old-secret@"+s.Addr(), stubborn)
	l := locktest.Lock(t, c.Mutex("held"))
	s.Do("ACL", "SETUSER", "guest", "resetpass", ">new-secret")
	s.Do("CLIENT", "KILL", "USER", "guest")
	_, err := c.Mutex("a").TryLock(t.Context())
	wantRefused(t, s, err, "WRONGPASS")
	wantRefused(t, s, l.Extend(t.Context()), "WRONGPASS")
	check.That(t, l.Held(), "the lease was lost, though Redis did not say so: %v", l.Err())
	wantRefused(t, s, l.Release(t.Context()), "WRONGPASS")
}

// TestNotPermitted has a user whose rights do not suffice: for scripts at all, or for the keys.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	rights := map[string][]string{
		"scripts":  {"~*", "&*", "+@all", "-@scripting"},
		"keys":     {"~others:*", "&*", "+@all"},
		"commands": {"~*", "&*", "+@all", "-set"},
	}
	for what, rights := range rights {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.AllowUser("guest", append([]string{"on", ">guest-secret"}, rights...)...)
			c := locktest.Open(t, "redis://guest:guest-secret@"+s.Addr(), stubborn)
			for _, lock := range []func(context.Context) (*redlatch.Lease, error){c.Mutex("a").TryLock, c.Mutex("a").Lock} {
				_, err := lock(t.Context())
				wantRefused(t, s, err, "NOPERM")
				check.That(t, what != "commands" || strings.Contains(err.Error(), "'set'"), "error %v, want it to name the command", err)
			}
		})
	}
}

// TestOneRightLess has, for each command, a client whose user may not run it, as after an upgrade of
// redlatch without one of its rights. Each call ends, with an error that tells it or as if nothing was
// wrong. A script ends there, halfway. What it has done until then expires: clients with all rights get
// the lock, and no key stays for ever.
func TestOneRightLess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lessens(t, []*redistest.Server{s}, s.URL(), access.Commands(false))
}

// TestOneRightLessInACluster is TestOneRightLess for the rights that sharded channels take, and for
// those of channels that are not.
func TestOneRightLessInACluster(t *testing.T) {
	t.Parallel()
	nodes := help.NeedShards(t, redistest.StartCluster(t, 3))
	alone := slices.DeleteFunc(access.Commands(true), func(c string) bool { return slices.Contains(access.Commands(false), c) })
	lessens(t, nodes, help.ClusterURL(nodes), append(alone, "publish", "subscribe", "unsubscribe"))
}

// lessens does what TestOneRightLess says, for each of these commands.
func lessens(t *testing.T, nodes []*redistest.Server, url string, commands []string) {
	shards := len(nodes) > 1
	o := help.Brisk(help.Lasting)
	o.RequestTimeout = locktest.Patience
	all := locktest.Open(t, url, o)
	o.Lock.TTL = 2 * time.Second
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			rights := slices.DeleteFunc(access.Rules("redlatch:", shards), func(rule string) bool { return rule == "+"+command })
			user := strings.ReplaceAll(command, "|", "-")
			for _, s := range nodes {
				s.AllowUser(user, append([]string{"on", ">" + help.Secret}, rights...)...)
			}
			c := locktest.Open(t, strings.Replace(url, "://", "://"+user+":"+help.Secret+"@", 1), o)
			wantTold := func(call string, err error) {
				t.Helper()
				if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlatch.ErrNotReplicated) {
					return
				}
				text := err.Error()
				told := strings.Contains(text, "'"+command+"'") || strings.Contains(text, "`redlatch doctor` tells which")
				check.That(t, strings.Contains(text, "NOPERM") && told, "%s = %v, want NOPERM and the command", call, err)
			}
			for _, l := range kindtest.Locks(c, command) {
				for _, acquire := range []func(context.Context) (*redlatch.Lease, error){l.Try, l.Acquire} {
					lease, err := acquire(locktest.Within(t, 100*time.Millisecond))
					if err == nil {
						err = errors.Join(lease.Extend(t.Context()), lease.Release(t.Context()))
					}
					wantTold(l.Kind, err)
				}
			}
			for call, use := range kindtest.Uses() {
				wantTold(call, use(locktest.Within(t, 500*time.Millisecond), c, all, command+" "+call))
			}
			for _, l := range kindtest.Locks(all, command) {
				lease := check.Value(l.Acquire(locktest.Within(t, locktest.Patience))).OK(t)
				info, err := c.Inspect(t.Context(), l.Name)
				held := lease.Held() // unless the machine paused: the lease of one that has waited is short at first
				check.That(t, err != nil || len(info.Holders) == 1 || !held, "Inspect of a %s that is held: %+v", l.Kind, info)
				_ = lease.Release(t.Context())
			}
			for _, s := range nodes {
				help.WantExpiry(t, s) // also of what the client forgets when it is closed
			}
		})
	}
}

// TestNameThatIsNoLockAnyMore: a program puts something else under the name of a lock while a waiter is
// in line, with the line and without it. The waiter is refused as a newcomer is.
func TestNameThatIsNoLockAnyMore(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		for _, line := range []string{"kept", "gone"} {
			c := s.Client(t, redlatch.Options{})
			l := kindtest.Locks(c, line)[kind]
			help.Enter(t, kindtest.Locks(s.Client(t, redlatch.Options{}), line)[kind])
			next := help.GoEnter(t.Context(), l)
			locktest.InLine(t, s, l.Name, 1)
			s.Do("DEL", locktest.StateKey(l.Name))
			if line == "gone" {
				s.Do("DEL", help.QueueKey(l.Name), help.ClientsKey(l.Name))
			}
			s.Do("RPUSH", locktest.StateKey(l.Name), "x")
			began, wrong := time.Now(), (*redlatch.KindError)(nil)
			err := help.AwaitError(t, next)
			check.That(t, errors.As(err, &wrong) && wrong.Got == "list", "the line is %s: Lock = %v, want a KindError", line, err)
			check.That(t, time.Since(began) <= 6*time.Second, "the line is %s: refused after %v, want within a heartbeat", line, time.Since(began))
			s.Do("DEL", locktest.StateKey(l.Name))
			began = time.Now()
			locktest.Release(t, help.Enter(t, kindtest.Locks(s.Client(t, redlatch.Options{}), line)[kind]))
			check.That(t, time.Since(began) < time.Second, "the line was %s: the next holder waited %v for one that gave up", line, time.Since(began))
			help.WantNothingLeft(t, s, l.Name)
		}
	})
}
