package conntest

import (
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Run tests a Conn that leads to a single server. The subtests run in parallel once the test
// function has returned, so release what they need with t.Cleanup, not with defer. Nearly all the
// time they take is waiting.
func Run(t *testing.T, open OpenFunc) {
	s := suite{open: open}
	run(t, []clause{{"SubscribeNoticesAFrozenServer", s.subscribeNoticesAFrozenServer}}) // it waits longest
	RunAgain(t, open)
}

// RunAgain is [Run] without SubscribeNoticesAFrozenServer, which waits for the time limits of the
// client library: for a client that differs from one that Run has tried only in ways that do not
// affect these limits.
func RunAgain(t *testing.T, open OpenFunc) {
	s := suite{open: open}
	run(t, append([]clause{
		// These wait longest, so they go first.
		{"FrozenServerHoldsNoDialer", s.frozenServerHoldsNoDialer},
		{"LoadingIsAReplyError", s.loadingIsAReplyError},

		{"EvalSendsAnUnknownScriptInFull", s.evalSendsAnUnknownScriptInFull},
		{"EvalSendsScriptsAgainAfterARestart", s.evalSendsScriptsAgainAfterARestart},

		{"EvalReplicatedCountsReplicas", s.evalReplicatedCountsReplicas},

		{"ErrorReplyKeepsItsText", s.errorReplyKeepsItsText},
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
		{"SubscribeAgainAtOnce", s.subscribeAgainAtOnce},
		{"SubscribeLeavesNothingBehind", s.subscribeLeavesNothingBehind},
		{"SubscribeReportsACutConnection", s.subscribeReportsACutConnection},
		{"SubscribeReportsADeadServer", s.subscribeReportsADeadServer},

		{"EveryKind", s.everyKind},

		{"TargetNamesTheServerWithoutPassword", s.targetNamesTheServerWithoutPassword},
		{"CloseSucceeds", s.closeSucceeds},
		{"TLS", s.overTLS},
		{"UnknownAuthorityGivesNoReplyError", s.unknownAuthorityGivesNoReplyError},
		{"UserWithFewPermissions", s.userWithFewPermissions},
	}, s.inMemory()...))
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
		{"EvalReplicatedFollowsASlotThatMoves", c.evalReplicatedFollowsASlotThatMoves},
		{"BadCallSpoilsNoOther", c.badCallSpoilsNoOther},
		{"SubscribeHearsEveryNode", c.subscribeHearsEveryNode},
		{"SubscribeIsToldThatItsNodeLeft", c.subscribeIsToldThatItsNodeLeft},
		{"SubscribeShardedFollowsItsSlot", c.subscribeShardedFollowsItsSlot},
		{"ShardedChannelsShareAConnection", c.shardedChannelsShareAConnection},
		{"ScanCoversEveryMaster", c.scanCoversEveryMaster},
		{"EveryKind", c.everyKind},
	})
}

// RunInMemory tests a Conn to its own server that has no address, such as one in memory: the
// clauses of [Run] for which the suite need not reach the server in another way, each in a bubble
// of testing/synctest. open returns a Conn to an empty server.
func RunInMemory(t *testing.T, open func(t *testing.T) conn.Conn) {
	for _, c := range (suite{memory: open}).inMemory() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.test)
		})
	}
}

// inMemory returns the clauses for which the suite need not reach the server in another way.
func (s suite) inMemory() []clause {
	return []clause{
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
