// Package conntest is the conformance suite for [conn.Conn]: one named subtest for each clause of
// its contract, run against real redis-server processes that it starts, freezes, kills and
// restarts. redis-server 7.0 or newer must be on PATH.
//
// The test of an adapter is one call of [Run] for each way to set up its client, and one of
// [RunCluster] if it speaks to clusters:
//
//	func TestConn(t *testing.T) {
//		conntest.Run(t, func(t *testing.T, s conntest.Server) (conn.Conn, error) {
//			client := library.NewClient(s.Addr, s.Username, s.Password, s.TLS)
//			t.Cleanup(func() { client.Close() })
//			return adapter.New(client), nil
//		})
//	}
//
// The suite takes some five seconds, or as long as the client takes to notice that a server has
// stopped answering, if that is longer. [RunAgain] does without that, for a second way to set up the
// client.
package conntest

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Server is what an adapter under test connects to.
type Server struct {
	Addr     string      // such as "127.0.0.1:12345"; of a cluster, one node
	Username string      // "" for the default user
	Password string      // "" for none
	TLS      *tls.Config // nil for none

	// Silent is whether the server will stop answering. The suite then waits until the client has
	// noticed that, so a client whose time limits can be set should have short ones: some seconds,
	// which a machine that is busy does not use up.
	Silent bool
}

// OpenFunc connects an adapter to a server. The suite closes the Conn; what else there is to close,
// the function leaves to t.Cleanup. A server that refuses the user may come out here or in the
// first call.
type OpenFunc func(t *testing.T, s Server) (conn.Conn, error)

// Run tests a Conn that leads to a single server. The subtests run in parallel once the test
// function has returned, so what they need goes by t.Cleanup, not by defer. Nearly all the time
// they take is waiting.
func Run(t *testing.T, open OpenFunc) {
	s := suite{open: open}
	run(t, []clause{{"SubscribeNoticesAFrozenServer", s.subscribeNoticesAFrozenServer}}) // it waits longest
	RunAgain(t, open)
}

// RunAgain is [Run] without SubscribeNoticesAFrozenServer, which waits for the time limits of the
// client library: for a client that differs from one that Run has tried in what these limits do not
// depend on.
func RunAgain(t *testing.T, open OpenFunc) {
	s := suite{open: open}
	run(t, []clause{
		// These wait longest, so they go first.
		{"FrozenServerHoldsNoDialer", s.frozenServerHoldsNoDialer},
		{"LoadingIsAReplyError", s.loadingIsAReplyError},

		{"EvalRepliesOfEveryShape", s.evalRepliesOfEveryShape},
		{"EvalIsBinarySafe", s.evalIsBinarySafe},
		{"EvalKeepsOrder", s.evalKeepsOrder},
		{"EvalOfNothing", s.evalOfNothing},
		{"EvalOfABigBatch", s.evalOfABigBatch},
		{"EvalConcurrently", s.evalConcurrently},
		{"EvalSendsAnUnknownScriptInFull", s.evalSendsAnUnknownScriptInFull},
		{"EvalSendsScriptsAgainAfterARestart", s.evalSendsScriptsAgainAfterARestart},

		{"EvalReplicatedCountsReplicas", s.evalReplicatedCountsReplicas},

		{"ErrorReplyKeepsItsText", s.errorReplyKeepsItsText},
		{"BadCallSpoilsNoOther", s.badCallSpoilsNoOther},
		{"ReadOnlyIsAReplyError", s.readOnlyIsAReplyError},
		{"MissingPasswordIsAReplyError", s.missingPasswordIsAReplyError},
		{"WrongPasswordIsAReplyErrorWithoutIt", s.wrongPasswordIsAReplyErrorWithoutIt},

		{"DoneContextFailsAtOnce", s.doneContextFailsAtOnce},
		{"FrozenServerHoldsNoCaller", s.frozenServerHoldsNoCaller},
		{"ImpatientCallerFailsNoOther", s.impatientCallerFailsNoOther},
		{"ImpatientDialerBlamesNoOther", s.impatientDialerBlamesNoOther},
		{"DeadServerGivesNoReplyErrorAndHeals", s.deadServerGivesNoReplyErrorAndHeals},
		{"CutConnectionHeals", s.cutConnectionHeals},

		{"SubscribeDeliversInOrder", s.subscribeDeliversInOrder},
		{"SubscribeMissesNothingAfterUp", s.subscribeMissesNothingAfterUp},
		{"SubscribeSeveralAtOnce", s.subscribeSeveralAtOnce},
		{"SubscribeEndsWithItsContext", s.subscribeEndsWithItsContext},
		{"SubscribeLeavesNothingBehind", s.subscribeLeavesNothingBehind},
		{"SubscribeReportsACutConnection", s.subscribeReportsACutConnection},
		{"SubscribeReportsADeadServer", s.subscribeReportsADeadServer},

		{"ScanFindsEveryMatch", s.scanFindsEveryMatch},
		{"ScanStopsAtAnError", s.scanStopsAtAnError},
		{"ScanStopsWithItsContext", s.scanStopsWithItsContext},
		{"ScanLetsEachUseTheConn", s.scanLetsEachUseTheConn},

		{"EveryKind", s.everyKind},

		{"TargetNamesTheServerWithoutPassword", s.targetNamesTheServerWithoutPassword},
		{"CloseSucceeds", s.closeSucceeds},
		{"TLS", s.overTLS},
		{"UnknownAuthorityGivesNoReplyError", s.unknownAuthorityGivesNoReplyError},
		{"UserWithFewPermissions", s.userWithFewPermissions},
	})
}

// RunCluster is [Run] for a Conn that leads to a Redis Cluster, of three masters. It tests what a
// cluster makes different.
func RunCluster(t *testing.T, open OpenFunc) {
	c := cluster{suite{open: open}, redistest.StartCluster(t, 3)}
	run(t, []clause{
		{"TargetSaysCluster", c.targetSaysCluster},
		{"EvalKeepsOrderAcrossSlots", c.evalKeepsOrderAcrossSlots},
		{"EvalSendsAnUnknownScriptToEveryNode", c.evalSendsAnUnknownScriptToEveryNode},
		{"EvalFollowsASlotThatMoves", c.evalFollowsASlotThatMoves},
		{"EvalReplicatedFindsTheNode", c.evalReplicatedFindsTheNode},
		{"BadCallSpoilsNoOther", c.badCallSpoilsNoOther},
		{"SubscribeHearsEveryNode", c.subscribeHearsEveryNode},
		{"SubscribeShardedFollowsItsSlot", c.subscribeShardedFollowsItsSlot},
		{"ShardedChannelsShareAConnection", c.shardedChannelsShareAConnection},
		{"ScanCoversEveryMaster", c.scanCoversEveryMaster},
		{"EveryKind", c.everyKind},
	})
}

// RunInMemory tests a Conn to a server of its own that has no address, such as one in memory: the
// clauses of [Run] for which the suite need not reach the server by another way, each in a bubble
// of testing/synctest. open returns a Conn to an empty server.
func RunInMemory(t *testing.T, open func(t *testing.T) conn.Conn) {
	s := suite{memory: open}
	for _, c := range []clause{
		{"EvalRepliesOfEveryShape", s.evalRepliesOfEveryShape},
		{"EvalIsBinarySafe", s.evalIsBinarySafe},
		{"EvalKeepsOrder", s.evalKeepsOrder},
		{"EvalOfNothing", s.evalOfNothing},
		{"EvalOfABigBatch", s.evalOfABigBatch},
		{"EvalConcurrently", s.evalConcurrently},
		{"BadCallSpoilsNoOther", s.badCallSpoilsNoOther},
		{"SubscribeEndsWithItsContext", s.subscribeEndsWithItsContext},
		{"ScanFindsEveryMatch", s.scanFindsEveryMatch},
		{"ScanStopsAtAnError", s.scanStopsAtAnError},
		{"ScanStopsWithItsContext", s.scanStopsWithItsContext},
		{"ScanLetsEachUseTheConn", s.scanLetsEachUseTheConn},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.test)
		})
	}
}

type clause struct {
	name string
	test func(*testing.T)
}

func run(t *testing.T, clauses []clause) {
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

type suite struct {
	open   OpenFunc
	memory func(*testing.T) conn.Conn // instead of open, for a server that the suite cannot reach
}

const (
	// patience bounds what ought to succeed. It is generous, since it only matters when something
	// is broken.
	patience = 30 * time.Second

	// prompt bounds what should happen at once, beside the time by which the machine is late. It
	// must be well below the timeouts of client libraries, which start at 3 seconds.
	prompt = 2 * time.Second
)

// start returns a new server and a Conn to it. The server is nil if it is one in memory.
func (s suite) start(t *testing.T, args ...string) (*redistest.Server, conn.Conn) {
	t.Helper()
	if s.memory != nil {
		c := s.memory(t)
		t.Cleanup(func() { closes(t, c) })
		return nil, c
	}
	server := redistest.Start(t, args...)
	return server, s.connect(t, Server{Addr: server.Addr()})
}

func (s suite) connect(t *testing.T, server Server) conn.Conn {
	t.Helper()
	c, err := s.open(t, server)
	if err != nil {
		t.Fatalf("open %s: %v", server.Addr, err)
	}
	t.Cleanup(func() { closes(t, c) })
	return c
}

// closes wants a Conn to close.
func closes(t *testing.T, c conn.Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// refused returns how a Conn fails that cannot be used: in open or in the first call.
func (s suite) refused(t *testing.T, server Server) error {
	t.Helper()
	c, err := s.open(t, server)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Eval(within(t, patience), conn.Call{Script: echo, Args: []string{"x"}})[0].Err
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// promptly fails the test if f takes long.
func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	took := measure(f)
	if took > prompt {
		t.Errorf("%s took %v, want less than %v", what, took.Round(time.Millisecond), prompt)
	}
}

// measure calls f, and returns how long that took. A machine that is busy or pauses has timers be
// late, and that time does not count.
func measure(f func()) (took time.Duration) {
	const step = 10 * time.Millisecond
	over, late := make(chan struct{}), make(chan time.Duration)
	go func() {
		var sum time.Duration
		for last := time.Now(); ; {
			select {
			case <-over:
				late <- sum
				return
			case <-time.After(step):
			}
			now := time.Now()
			sum += now.Sub(last) - step
			last = now
		}
	}()
	start := time.Now()
	f()
	took = time.Since(start)
	close(over)
	return took - <-late
}

// eventually waits until f succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v after %v", what, err, patience)
}

// wantReplyError fails the test unless the server itself said no, with this code.
func wantReplyError(t *testing.T, what string, err error, code string) {
	t.Helper()
	var sent *conn.ReplyError
	if !errors.As(err, &sent) {
		t.Errorf("%s = %v (%T), want a ReplyError", what, err, err)
	} else if sent.Code() != code && !strings.Contains(sent.Text, "-"+code+" ") { // a Redis before 7.0 tells of the script first
		t.Errorf("%s = %q, want the code %s", what, sent.Text, code)
	}
}

// wantNoAnswer fails the test unless err says that there was no answer, and blames ctx only if it
// is done.
func wantNoAnswer(t *testing.T, ctx context.Context, what string, err error) {
	t.Helper()
	var sent *conn.ReplyError
	switch {
	case err == nil:
		t.Errorf("%s = nil, want an error", what)
	case errors.As(err, &sent):
		t.Errorf("%s = ReplyError %q, but the server sent none", what, sent.Text)
	case ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		t.Errorf("%s = %v, but the caller's context is not done", what, err)
	}
}
