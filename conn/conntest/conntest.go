// Package conntest is the conformance suite for [conn.Conn]: one named subtest for each clause of its contract, run against real
// redis-server processes that it starts, stops, freezes and restarts. redis-server 7.0 or newer must be on PATH.
//
// The test of an adapter is one call of [Run] for each way to set up its client, and one of [RunCluster] if it speaks to clusters:
//
//	func TestConn(t *testing.T) {
//		conntest.Run(t, func(t *testing.T, s conntest.Server) (conn.Conn, error) {
//			client := library.NewClient(s.Addr, s.Username, s.Password, s.TLS)
//			t.Cleanup(func() { client.Close() })
//			return adapter.New(client), nil
//		})
//	}
package conntest

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Server is what an adapter under test connects to.
type Server struct {
	Addr     string // "127.0.0.1:12345"; a node to begin with, where it is a cluster
	Username string // "" for the default user
	Password string // "" for none
	TLS      *tls.Config
}

// OpenFunc connects an adapter to a server. The suite closes the Conn; what else there is to close, the function leaves to t.Cleanup.
// The server is up, but may refuse the user: that may come out here or in the first call.
type OpenFunc func(t *testing.T, s Server) (conn.Conn, error)

type suite struct{ open OpenFunc }

type clause struct {
	name string
	test func(*testing.T, suite)
}

// Run tests a Conn that leads to a single server. Its subtests run in parallel and take up to 15 seconds, nearly all of it waiting.
func Run(t *testing.T, open OpenFunc) {
	run(t, open, []clause{
		// These wait longest, so they go first.
		{"SubscribeNoticesAFrozenServer", suite.subscribeNoticesAFrozenServer},
		{"SubscribeToAFrozenServerEnds", suite.subscribeToAFrozenServerEnds},
		{"LoadingIsAReplyError", suite.loadingIsAReplyError},

		{"EvalRepliesOfEveryShape", suite.evalRepliesOfEveryShape},
		{"EvalIsBinarySafe", suite.evalIsBinarySafe},
		{"EvalKeepsOrder", suite.evalKeepsOrder},
		{"EvalOfNothing", suite.evalOfNothing},
		{"EvalOfABigBatch", suite.evalOfABigBatch},
		{"EvalConcurrently", suite.evalConcurrently},
		{"EvalSendsAnUnknownScriptInFull", suite.evalSendsAnUnknownScriptInFull},
		{"EvalSendsScriptsAgainAfterRestart", suite.evalSendsScriptsAgainAfterRestart},

		{"ErrorRepliesKeepTheirText", suite.errorRepliesKeepTheirText},
		{"BadCallSpoilsNoOther", suite.badCallSpoilsNoOther},
		{"ReadOnlyIsAReplyError", suite.readOnlyIsAReplyError},
		{"MissingPasswordIsAReplyError", suite.missingPasswordIsAReplyError},
		{"WrongPasswordIsAReplyErrorWithoutIt", suite.wrongPasswordIsAReplyErrorWithoutIt},

		{"DoneContextFailsAtOnce", suite.doneContextFailsAtOnce},
		{"FrozenServerDoesNotHoldACaller", suite.frozenServerDoesNotHoldACaller},
		{"FrozenServerDoesNotHoldADialer", suite.frozenServerDoesNotHoldADialer},
		{"ImpatientCallerDoesNotFailOthers", suite.impatientCallerDoesNotFailOthers},
		{"DeadServerIsNoReplyAndHeals", suite.deadServerIsNoReplyAndHeals},
		{"CutConnectionHeals", suite.cutConnectionHeals},

		{"SubscribeDeliversInOrder", suite.subscribeDeliversInOrder},
		{"SubscribeMissesNothingAfterUp", suite.subscribeMissesNothingAfterUp},
		{"SubscribeSeveralAtOnce", suite.subscribeSeveralAtOnce},
		{"SubscribeEndsWithItsContext", suite.subscribeEndsWithItsContext},
		{"SubscribeLeavesNothingBehind", suite.subscribeLeavesNothingBehind},
		{"SubscribeReportsACutConnection", suite.subscribeReportsACutConnection},
		{"SubscribeReportsADeadServer", suite.subscribeReportsADeadServer},

		{"ScanFindsEveryMatch", suite.scanFindsEveryMatch},
		{"ScanStopsAtAnError", suite.scanStopsAtAnError},
		{"ScanStopsWithItsContext", suite.scanStopsWithItsContext},
		{"ScanLetsEachUseTheConn", suite.scanLetsEachUseTheConn},

		{"VersionIsTheServers", suite.versionIsTheServers},
		{"TargetNamesTheServer", suite.targetNamesTheServer},
		{"CloseSucceeds", suite.closeSucceeds},
		{"TLS", suite.tls},
		{"TLSWithAnUnknownAuthority", suite.tlsWithAnUnknownAuthority},
		{"UserWithFewPermissions", suite.userWithFewPermissions},
	})
}

// RunCluster tests a Conn that leads to a Redis Cluster of three masters.
func RunCluster(t *testing.T, open OpenFunc) {
	nodes := redistest.StartCluster(t, 3)
	var clauses []clause
	for name, test := range map[string]func(*testing.T, suite, []*redistest.Server){
		"TargetSaysCluster":                   suiteTargetSaysCluster,
		"EvalBatchAcrossSlots":                suiteEvalBatchAcrossSlots,
		"ScanCoversEveryMaster":               suiteScanCoversEveryMaster,
		"SubscribeHearsEveryNode":             suiteSubscribeHearsEveryNode,
		"EvalReportsABadCallAcrossSlotsAlone": suiteEvalReportsABadCallAcrossSlotsAlone,
	} {
		clauses = append(clauses, clause{name, func(t *testing.T, s suite) { test(t, s, nodes) }})
	}
	run(t, open, clauses)
}

func run(t *testing.T, open OpenFunc, clauses []clause) {
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, suite{open})
		})
	}
}
