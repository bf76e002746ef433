// Package promises is the core: on real servers, one test for each promise of README.md, each kind
// of lock, each deployment and each class of faults. It needs no module beside rueidis and goleak,
// so that it compiles fast, and none of its tests takes longer than five seconds. What else is known
// to go wrong is tried in the other folders.
//
//	promise                               kind       deployment   fault                  test
//	One holder at a time                  all        all          all                    TestKindsUnderFaults (cmd/redlatch/internal/verify)
//	                                      mutex      one server   SIGSTOP                TestSuspendedHolderWakesWithoutItsLock
//	                                      all        one server   another kind           TestKindsExcludeEachOther
//	                                      multi      cluster      -                      TestMultiOverSeveralSlots
//	                                      mutex      quorum       -                      TestQuorumMutex
//	                                      mutex      quorum       nodes hang             TestQuorumHeldBeyondAMinority
//	                                      mutex      quorum       emptied node           TestQuorumForgetfulNode
//	Tokens strictly increase              mutex      one server   emptied                TestTokensGrowOverEverything
//	                                      mutex      one server   late write             TestLateWriteIsRefusedByRedis
//	                                      mutex      quorum       nodes differ           TestQuorumWritesTheTokenBack
//	First come, first served              mutex      one server   -                      TestFirstComeFirstServed
//	                                      mutex      one process  -                      TestRelayPassesOn
//	                                      mutex      cluster      slot moves             TestSlotMoves
//	A crash costs the rest of the TTL     all        one server   killed client          TestCrashedHolderCostsItsLease
//	                                      all        one server   kill -9                TestEveryKindHolderIsKilled
//	                                      all        one server   SIGSTOP                TestEveryKindHolderIsSuspended
//	A crashed waiter costs nothing        shared     one server   kill -9                TestCrashedWaiterBesideAHolderCostsNothing
//	                                      all        one server   kill -9                TestEveryKindWaiterIsKilled
//	A request may be sent twice           all        one server   lost requests          TestLostRequests
//	                                      mutex      one server   lost reply             TestLostReplyToTryLockIsAdopted
//	                                      all        one server   lost replies           TestEveryKindLostReplies
//	A grant is found without its message  all        one server   lost message           TestEveryKindSubscriptionIsLost
//	                                      mutex      one server   silent connection      TestSilentConnectionOfAWaiter
//	A holder is told of its loss          mutex      one server   hangs (SIGSTOP)        TestServerHangsForLongerThanTheTTL
//	                                      all        one server   emptied, or killed     TestEveryKindServerForgets
//	What is held stays held               all        one server   full                   TestFullServerKeepsWhatIsHeld
//	                                      mutex      Sentinel     kill -9 of the master  TestLeaseThatTheNewMasterKnowsGoesOn
//	                                      mutex      Sentinel     replicas hang          TestAcquisitionWaitsForReplicas
//	A lease goes on in another process    mutex      one server   kill -9                TestAdoptAfterKill
//	                                      all        quorum       a node is gone         TestQuorumAdopt
//	Each kind does what it is for         reentrant  one server   -                      TestReentrantOwnerAcrossProcesses
//	                                      rwmutex    one server   -                      TestReadersAreLetInTogether
//	                                      semaphore  one server   expiry                 TestPermitsThatAreFree
//	                                      slotpool   one server   expiry                 TestSlots
//	                                      election   one server   killed leader          TestObserveTellsEveryChange
//	                                      job        one server   -                      TestJobInAWindow
//	                                      multi      one server   -                      TestMultiOfWhichOneIsTaken
//	                                      countdown  one server   -                      TestCountDownTellsItsWaiters
//
// A master of a cluster that is killed, and nodes of a quorum that are, cost more time than this
// package has: deployments tries them.
//
// # Which file is about which hazard
//
//	crashes    processes that are killed or suspended
//	exclusion  two that hold at once; order; tokens that repeat, and a late write
//	lost       requests, replies, messages and connections that are lost; a server that is full, hangs, or comes back empty
//	majority   a quorum: its life, nodes that are gone, hang or forget
//	sentinel   a master that is killed; acquisitions that wait for replicas; a cluster: a slot moves, names in several slots
//	uses       what each kind but the mutex is for
package promises
