package tests

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutantsVariable runs TestMutants, which takes minutes.
const mutantsVariable = "REDLATCH_MUTANTS"

// mutant is a known way to break redlatch: in a file, old becomes new. These tests must then fail.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // for -test.run
}

var mutants = []mutant{
	{
		"lease of a slot that outlives a panic", "slotpool.go",
		"	defer func() { err = join(err, s.Release(ctx)) }()\n	return f(s.Context(), s)\n",
		"	err = f(s.Context(), s)\n	return join(err, s.Release(ctx))\n", "TestTryDoReleasesAfterAPanic",
	},
	{
		"try to run that runs without the lock", "rwmutex.go",
		"	lease, err := m.TryRLock(ctx)\n	if err != nil {\n		return err\n	}\n	return lease.runHeld(ctx, f)\n",
		"	lease, err := m.TryRLock(ctx)\n	if err != nil {\n		_ = f(ctx, nil)\n		return err\n	}\n	return lease.runHeld(ctx, f)\n",
		"TestTryDoReadsBesideReaders",
	},
	{
		"attempts on several names that have no end", "multimutex.go",
		"	defer func() { tellAllFailed(attempts, err) }()\n", "", "TestMultiTellsEveryName",
	},
	{
		"attempt on several names that is told twice", "hook.go",
		"	if a.begun {\n		return\n	}\n", "", "TestMultiTellsEveryName",
	},
	{
		"attempt that fails after it was granted", "hook.go",
		"if !a.begun || a.ended {", "if !a.begun {", "TestMultiTellsEveryName|TestHookThatPanicsIsToldTheEnd",
	},
	{
		"release that is told each time", "lease.go",
		"	if was == ended { //", "	if false { //", "TestReleaseIsToldOnce",
	},
	{
		"lease whose grant the hook did not survive, and that has no end", "latch.go",
		"		if a.ended { //", "		if false { //", "TestHookThatPanicsIsToldTheEnd",
	},
	{
		"attempt that the hook did not survive, and that has no end", "latch.go",
		"	defer func() { a.tellFailed(err) }()\n", "	defer func() {\n		if err != nil {\n			a.tellFailed(err)\n		}\n	}()\n",
		"TestHookThatPanicsIsToldTheEnd",
	},
	{
		"Close that stops at a hook that panics", "client.go",
		"		defer l.lose", "		l.lose", "TestHookThatPanicsWhenTheClientIsClosed",
	},
	{
		"hook that is not called after one that panics", "hook.go",
		"		defer callAll(ctx, hooks[1:], e)\n		hooks[0](ctx, e)\n", "		hooks[0](ctx, e)\n		callAll(ctx, hooks[1:], e)\n",
		"TestHookThatPanicsIsToldTheEnd",
	},
	{
		"event without the mode of its lease", "latch.go",
		"return \"write\"", "return \"read\"", "TestEventsOfADowngrade",
	},
	{
		"adopted lease that stays the old owner's", "internal/script/lua/adopt.lua",
		"rename(owner, successor)", "rename(owner, owner)", "TestAdoptEveryKind",
	},
	{
		"adoption that is asked for again and finds itself", "internal/script/lua/adopt.lua",
		"elseif not extend(successor, ttl) then", "else", "TestAdoptWhoseRequestIsLost",
	},
	{
		"node that gave another slot and counts for an adoption", "internal/script/lua/adopt.lua",
		"return agrees(successor, ARGV[4]) and 1 or 0", "return 1", "TestQuorumAdoptAnotherSlot",
	},
	{
		"adopted writer that readers do not see", "internal/script/lua/rwmutex.lua",
		"if writer == owner then remark(kind, writer, successor) end", "", "TestAdoptRWMutex",
	},
	{
		"adopted run that is undone as if it had not begun", "undo.go",
		"a.owner, \"\", a.result, c", "a.owner, \"\", \"\", c", "TestAdoptThatFailsKeepsTheWindow",
	},
	{
		"adopted run that is given back as if it had not begun", "latch.go",
		"if g.adopted {", "if false {", "TestAdoptThatFailsKeepsTheWindow",
	},
	{
		"adopted lease whose deadline counts from the reply", "adopt.go",
		"anchor: answer.sent", "anchor: a.client.now()", "TestAdoptWhoseReplyIsLate",
	},
	{
		"detached lease that is cleaned up", "lease.go",
		"l.state == released || l.state == lost ||", "l.state > ended ||", "TestQuorumDetachedLeaseIsNotCleanedUp",
	},
	{
		"lease that is detached unextended", "adopt.go",
		"if err := l.Extend(ctx); err != nil {", "if err := l.Err(); err != nil {", "TestDetachWithoutAnAnswer",
	},
	{
		"detached lease whose group waits for it", "adopt.go",
		"	l.cancel(l.err)\n	l.detachLocked()\n", "	l.cancel(l.err)\n", "TestAdoptBesideWaitersOfTheSameClient",
	},
	{
		"text that was changed and is read", "leasetext.go",
		" || t.String() != text", "", "TestAdoptNoText",
	},
	{
		"releases that leave together and open what they should shut", "internal/script/bundle.go",
		" && len(call.Args) <= b.ticket+2", "", "TestManyReleasesLeaveTheirNamesShut",
	},
	{
		"lease that is passed on before its minimal hold is over", "handoff.go",
		" && l.options.MinHold == 0", "", "TestEveryKindOpensInTime",
	},
	{
		"name that is given back and shut", "multimutex.go",
		"		l.unused = true\n", "		_ = l\n", "TestGivenBackIsNotShut",
	},
	{
		"waiter that is not told when what is shut will open", "internal/script/lua/release.lua",
		"grant('', gone or ms > 0)", "grant('', gone)", "TestEveryKindOpensInTime",
	},
	{
		"release in the background that opens what it should shut", "lease.go",
		"l.releasing(l.ticket, result), after", "l.latch.undoing(l.owner, l.ticket), after", "TestEveryKindLostReleasesLeaveItShut",
	},
	{
		"leader that resigned and seems to lead", "election.go",
		" || info.Holders[0].Resting", "", "TestOfficeThatIsShut",
	},
	{
		"force that cannot open what is shut", "internal/script/lua/force.lua",
		" and not open(ARGV[2])", "", "TestEveryKindReleasedTooEarly",
	},
	{
		"state that outlives the last place that was shut", "internal/script/lua/zset.lua",
		"redis.call('PEXPIRE', key, last)", "redis.call('PTTL', key)", "TestSemaphoreBoundsHowOften",
	},
	{
		"resend that is refused the place which its request took", "internal/script/lua/acquire.lua",
		" and not redis.call('ZSCORE', QUEUE, ticket)", "", "TestLostReplyToTheLastPlace",
	},
	{
		"line that is full of the dead", "internal/script/lua/acquire.lua",
		"if alive(other, address) > 0 then found", "if true then found", "TestEveryKindFullOfTheDead",
	},
	{
		"place in line that is restored only if there is room", "waiting.go",
		"address, arrival, 0)", "address, arrival, w.latch.options.MaxWaiters)", "TestRestoredLineMayBeFull",
	},
	{
		"goroutines that share a place in a bounded line", "handoff.go",
		"		l.options.MaxWaiters == 0 && ", "		", "TestEveryKindFullLine",
	},
	{
		"newcomer that is refused and undoes nothing all the same", "latch.go",
		"case errors.Is(err, ErrLineFull) && !answer.resent:", "case false:", "TestFullLineSendsNothingElse",
	},
	{
		"forced release that seems to be an accident", "watchdog.go",
		"l.forced, l.extendAt = true, ", "l.extendAt = ", "TestLossTellsItsReason",
	},
	{
		"release that ends at a full disk", "request.go",
		"!(script.Releases(call) && retry.RefusesWrites(result.Err))", "true", "TestReleaseWhileWritesAreRefused",
	},
	{
		"late copy of a request that is not looked for", "internal/cleanup/queue.go",
		"		return !r.copies\n", "		return true\n", "TestLostRequests",
	},
	{
		"own late request that seems to be another holder", "ballot.go",
		", past: a.past}", "}", "TestQuorumLostRequestsOfAJob",
	},
	{
		"run that is undone as if it had not begun", "lease.go",
		"	result := l.latch.result\n", "	result := \"\"\n", "TestJobThatIsLostKeepsItsWindow",
	},
	{
		"run that succeeded and is undone as one that failed", "lease.go",
		"l.done = result == script.Completed", "l.done = false", "TestJobWhoseEndGotNoAnswer",
	},
	{
		"job that opens its window by a release", "lease.go",
		"l.release(ctx, l.latch.result)", "l.release(ctx, \"\")", "TestJobReleasedByItsJob",
	},
	{
		"release that is not tried again", "lease.go",
		" || err != nil && c.quorum == nil {", " {", "TestReleaseIsTriedUntilItIsKnown",
	},
	{
		"loss after which a late request brings the lock back", "lease.go",
		"LossForced:\n		l.undoLocked(0)\n", "LossForced:\n", "TestStragglerAfterALoss",
	},
	{
		"go-redis that goes on asking a dead master", "redlatchgoredis/goredis.go",
		"c.cluster.ReloadState(context.Background())", "_ = context.Background()", "TestClusterMasterIsKilledOverGoRedis",
	},
	{
		"extend that is waited for until its lease is over", "request.go",
		"limit > left/2 && limit", "limit < 0 && limit", "TestLostReplyOfAShortLease",
	},
	{
		"extend of the program that is waited for until its lease is over", "request.go",
		"if !ok || !script.Renews(call) {", "if !ok || script.Renews(call) {", "TestLostReplyToTheProgramsExtend",
	},
	{
		"connection that died in silence and is kept", "redlatchrueidis/rueidis.go",
		"if err != nil && c.silence != nil {", "if false {", "TestSilentConnection",
	},
	{
		"connections given up one after the other", "redlatchrueidis/silence.go",
		"now-last >= s.pause", "now-last >= 0*s.pause", "TestFrozenServerSeesNoStorm",
	},
	{
		"subscription that is checked late", "client.go",
		"min(max(o.RequestTimeout/2, time.Second), 3*time.Second)", "6 * time.Second", "TestSilentSubscriptionIsReplaced",
	},
	{
		"heartbeat from another address than the ticket's", "waiting.go",
		"return batch[0].address, tickets", "return ws.client.subscriptionFor(batch[0].latch).Address(), tickets", "TestTicketsOfTwoAddresses",
	},
	{
		"word of a forced release that a lease without a watchdog ignores", "watchdog.go",
		"	case !l.renews():\n		return []Event", "	case false:\n		return []Event", "TestForceReleaseTellsTheHolder",
	},
	{
		"term that is taken for lost since another lock was", "election.go",
		"errors.As(term.Err(), new(*LostError))", "errors.As(err, new(*LostError))", "TestElectionRunReturnsTheErrorOfTheWork",
	},
	{
		"campaigns in a hot loop", "election.go",
		"retry.Sleep(ctx, retry.Pause(short))", "retry.Sleep(ctx, 0*retry.Pause(short))", "TestElectionRunDoesNotSpin",
	},
	{
		"grant that was given back and is called taken", "latch.go",
		"a.answered = a.answered || !inside", "a.answered = true", "TestGrantThatIsGivenBackIsNotTaken",
	},
	{
		"ticket of one who gave up that is forgotten in an outage", "undo.go",
		"	if ticket != \"\" {\n", "	if false {\n", "TestTicketsGivenUpInAnOutage",
	},
	{
		"ticket whose release was refused, and forgotten", "internal/cleanup/queue.go",
		"return retry.WrongType(result.Err)", "return !retry.Transient(result.Err)",
		"TestTicketGivenUpWhileWritesAreRefused",
	},
	{
		"second look that does not wait", "internal/cleanup/queue.go",
		"due := all || !r.next.After(now)", "due := all || !r.next.After(now.Add(time.Hour))", "TestStragglerAmongOthersWhoGiveUp",
	},
	{
		"undoing a request without its ticket", "lease.go",
		"l.ticket = g.ticket", "l.ticket = \"\"", "TestStragglerWithATicket",
	},
	{
		"grant that a panic leaves behind", "latch.go",
		"		if begun {\n			return\n", "		if begun || true {\n			return\n", "TestHookPanicsAtGrant",
	},
	{
		"waiter that a panic leaves behind", "latch.go",
		"if !told {", "if !told && false {", "TestHookPanicsAtWait",
	},
	{
		"slot that counts for another", "internal/script/lua/confirm.lua",
		" and agrees(ARGV[1], ARGV[3])", "", "TestQuorumCountsOneSlot",
	},
	{
		"grants of a cluster that go to all its nodes", "internal/script/lua/line.lua",
		"  if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end\n", "", "TestGrantsStayOnTheirShard",
	},
	{
		"deadline of a quorum counted from the last reply", "ballot.go",
		"anchor: sent", "anchor: a.client.now()", "TestQuorumDeadline",
	},
	{
		"token of a quorum that is not written back", "ballot.go",
		"t.Won() && !agreed {", "false && !agreed {", "TestQuorumWritesTheTokenBack",
	},
	{
		"token that is written back where somebody else is inside", "internal/script/lua/raise.lua",
		"if not (extend(ARGV[2], tonumber(ARGV[3])) and agrees(ARGV[2], ARGV[5])) then return 0 end\n", "", "TestRaiseForAnother",
	},
	{
		"node that votes whatever it forgot", "internal/script/lua/quorum_token.lua",
		"return epoch[1] == process(), ", "return true, ", "TestQuorumForgetfulNode",
	},
	{
		"right to vote that outlives the process", "internal/script/lua/quorum_token.lua",
		"return epoch[1] == process(), ", "return epoch[1] ~= false, ", "TestQuorumStaleNode",
	},
	{
		"node that votes without a rest", "internal/quorum/epochs.go",
		"probation := bound\n", "probation := time.Duration(0)\n", "TestQuorumForgetfulNode",
	},
	{
		"node that counts on from nothing", "internal/quorum/epochs.go",
		"script.Restore(key, n.Process, number, bound)", "script.Restore(key, n.Process, number-number, bound)", "TestQuorumFloor",
	},
	{
		"majority of two in five", "internal/quorum/conn.go",
		"return len(q.nodes)/2 + 1", "return len(q.nodes) / 2", "TestQuorumMajorityIsKilled",
	},
	{
		"leases that nodes are not told of again", "watchdog.go",
		"func(node, i int) { leases[i].mend(node) }", "nil", "TestQuorumRollingRestart",
	},
	{
		"votes that are not given back", "ballot.go",
		"		a.leave(owner, &t)\n", "", "TestQuorumManyContenders",
	},
	{
		"refusals by half of the nodes that are taken for those of a majority", "internal/quorum/tally.go",
		" && t.number(Vote.voted) >= t.Majority", "", "TestQuorumHeld",
	},
	{
		"nodes that count as silent though nobody waited for them", "ballot.go",
		"		case <-ctx.Done():\n			return t\n",
		"		case <-ctx.Done():\n			t.silence(patience)\n			return t\n",
		"TestQuorumWaitEndsInARound",
	},
	{
		"round that was cut short and tells more than the one before", "ballot.go",
		"if h.votes == nil || found != quorum.CutShort {", "if true {", "TestQuorumWaitEndsInARound",
	},
	{
		"turn at the right to vote that is waited for whatever the context", "internal/quorum/epochs.go",
		"		t.leave()\n	case <-ctx.Done():", "		t.leave()\n	case <-context.Background().Done():",
		"TestQuorumSeatHeedsTheContext",
	},
	{
		"quorum that is heard for ever", "internal/quorum/subscribe.go",
		"		e.end(errDeaf)\n", "		_ = e.end\n", "TestQuorumGrantWhileDeaf",
	},
	{
		"waiters of a quorum who do not look when the subscription is lost", "listen.go",
		"	c.quorumWaiters.wakeAll()\n", "", "TestQuorumGrantWhileDeaf",
	},
	{
		"waiters of a quorum who are not told", "internal/script/lua/quorum_line.lua",
		"  redis.pcall('PUBLISH', address, 'free\\t' .. waiter)\n", "", "TestQuorumManyContenders",
	},
	{
		"slot that is extended while it rests", "internal/script/lua/zset.lua",
		"or free - rest <= millis()", "or free <= millis()", "TestSlots",
	},
	{
		"size that is forgotten while somebody waits", "internal/script/lua/zset.lua",
		"if redis.call('EXISTS', QUEUE) == 0 then tidy() end", "tidy()", "TestResizeOutlivesTheLastHolder",
	},
	{
		"one reader at a time out of the line", "internal/script/lua/rwmutex.lua",
		"how, how == 'r'\nend\n\nlocal function leave", "how, false\nend\n\nlocal function leave", "TestReadersAreLetInTogether",
	},
	{
		"readers beside a writer", "internal/script/lua/rwmutex.lua",
		"if inside > 0 and (how == 'w' or writer ~= '') then", "if inside > 0 and how == 'w' then", "TestKindsBehaveLikeTheirModels",
	},
	{
		"writer that is dead and stays", "internal/script/lua/rwmutex.lua",
		"    remark(kind, writer, '')\n    writer = ''\n", "", "TestKindsBehaveLikeTheirModels",
	},
	{
		"slot that stays taken after a release", "internal/script/lua/slotpool.lua",
		"  clear(slot)\n  drop(owner)", "  drop(owner)", "TestSlots",
	},
	{
		"slot whose number is told after the loss", "slotpool.go",
		"\tif err := s.Err(); err != nil {\n\t\treturn 0, err\n\t}\n\treturn s.id, nil", "\treturn s.id, nil", "TestSlots",
	},
	{
		"run that failed and uses its window up all the same", "internal/script/lua/job.lua",
		"if result == 'done' and", "if", "TestJobThatFails",
	},
	{
		"window of a run that died", "internal/script/lua/job.lua",
		"  if always == '1' then close(ends) end\n", "", "TestJobOfAProcessThatDied",
	},
	{
		"re-entry that shortens the lease", "internal/script/lua/reentrant.lua",
		"local ms = math.max(ttl, redis.call('PTTL', K))", "local ms = ttl", "TestReentryTakesTheLaterEnd",
	},
	{
		"re-entry that waits for itself", "internal/script/lua/acquire.lua",
		"if not got then token, got = join(owner, ttl, arg) end\n", "", "TestOwnersInsideGoPastTheLine",
	},
	{
		"several names of which one is taken", "internal/script/lua/multi.lua",
		"if held and held ~= owner or not held and", "if not held and", "TestMultiOfWhichOneIsTaken",
	},
	{
		"several names in any order", "multimutex.go",
		"\tslices.Sort(m.names)\n", "", "TestMultiTakesOneRequest|TestMultiDoesNotDeadlock",
	},
	{
		"acquisition that no replica acknowledged", "latch.go",
		"case acks < n:", "case acks < 0:", "TestAcquisitionWaitsForReplicas",
	},
	{
		"release without looking at the owner", "internal/script/lua/mutex.lua",
		"if redis.call('GET', K) ~= owner then return false end\n  redis.call('DEL', K)", "redis.call('DEL', K)",
		"TestExtendOfAnothersLock",
	},
	{
		"extend without looking at the owner", "internal/script/lua/mutex.lua",
		"if redis.call('GET', K) ~= owner then return false end\n  redis.call('PEXPIRE', K, ttl)",
		"if redis.call('EXISTS', K) == 0 then return false end\n  redis.call('PEXPIRE', K, ttl)",
		"TestExtendOfAnothersLock",
	},
	{
		"extend that creates", "internal/script/lua/renew.lua",
		"return extend(ARGV[1], tonumber(ARGV[2])) and 1 or 0",
		"return (extend(ARGV[1], tonumber(ARGV[2])) or redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])) and 1 or 0",
		"TestExtendNeverCreates|TestStragglingRenewalIsNothing",
	},
	{
		"tokens that are counted", "internal/script/lua/token.lua",
		"local function mint(n)\n", "local function mint(n)\n  do return redis.call('INCR', FENCE) end\n",
		"TestTokensGrowOverEverything",
	},
	{
		"tokens by the clock alone", "internal/script/lua/token.lua",
		"if last and last >= time then", "if false then",
		"TestTokensGrowOverEverything",
	},
	{
		"force-release without a new token", "internal/script/lua/force.lua",
		"mint()\n", "", "TestForceReleaseMakesTheOldTokenStale",
	},
	{
		"resent acquire that does not find its lock", "internal/script/lua/acquire.lua",
		"if extend(owner, ttl) then return inside(owner) end\nif not", "if not", "TestLostReplyToTryLockIsAdopted",
	},
	{
		"resent acquire that takes another place", "internal/script/lua/acquire.lua",
		"redis.call('ZADD', QUEUE, 'NX', arrival, ticket)", "redis.call('ZADD', QUEUE, arrival, ticket)",
		"TestLostReplyToAPlaceInLineIsAdopted",
	},
	{
		"newcomers overtake the line", "internal/script/lua/acquire.lua",
		"if redis.call('EXISTS', QUEUE) == 0 then", "if true then", "TestBehavesLikeTheModel",
	},
	{
		"last come first served", "internal/script/lua/tickets.lua",
		"redis.call('ZRANGE', QUEUE, 0, size - 1)", "redis.call('ZREVRANGE', QUEUE, 0, size - 1)", "TestFirstComeFirstServed",
	},
	{
		"grant to a client believed dead", "internal/script/lua/tickets.lua",
		"ms = tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) - math.floor(now() / 1000)", "ms = 3600000", "TestSuspendedWaiterCostsItsHorizon|TestWaiterBelievedDeadIsPassedOver",
	},
	{
		"grant for longer than the client is believed alive", "internal/script/lua/line.lua",
		"math.min(tonumber(ttl), ms)", "ttl", "TestSuspendedWaiterCostsItsHorizon",
	},
	{
		"grant that is not heard, where the user may not ask for listeners", "internal/script/lua/line.lua",
		"if hearers == 0 and", "if false and", "TestKilledWaiterIsSkippedByAUserWhoMayNotAsk",
	},
	{
		"dead waiter that keeps out who fits", "internal/script/lua/acquire.lua",
		"(ROOMY or ms == -2 or ms == 0 or long())", "(ms == -2 or ms == 0)", "TestCrashedWaiterBesideAHolderCostsNothing",
	},
	{
		"free lock that is refused once for the dead in line", "internal/script/lua/acquire.lua",
		"  if not tail[1] then\n    token", "  if false then\n    token", "TestCrashedWaiterOfAFreeLockCostsNothing",
	},
	{
		"name that the dead in line keep for another kind", "internal/script/lua/acquire.lua",
		"local ms, tail = remaining(), last()\n",
		"local ms, tail = remaining(), last()\nlocal was = tail[1] and string.match(tail[1], '^%u(%l+)')\n" +
			"if was and was ~= KIND then return {-1, 'kind\\t' .. was} end\n",
		"TestCrashedWaiterOfAnotherKindCostsNothing",
	},
	{
		"dead who seem alive to a tool", "internal/script/lua/tickets.lua",
		"return reply.err ~= nil or tonumber(reply[2]) > 0", "return true", "TestCrashedWaiterOfAFreeLockCostsNothing",
	},
	{
		"dead of a cluster who seem alive", "internal/script/lua/tickets.lua",
		"mode == 'S' and 'SHARDNUMSUB' or 'NUMSUB'", "mode == 'S' and 'NUMPATTERNS' or 'NUMSUB'",
		"TestCrashedWaiterInAClusterCostsNothing",
	},
	{
		"second in line that is not told when to ask", "internal/script/lua/line.lua",
		"  tell_of(mode, address, 'first\\t' .. ms .. '\\t' .. owner)\n", "", "TestCrashedHolderCostsItsLease",
	},
	{
		"release that drops all the dead at once", "internal/script/lua/tickets.lua",
		"local BUDGET = 10000", "local BUDGET = 1e9", "TestManyDeadTickets",
	},
	{
		"line that is busy for an hour, and deleted", "internal/script/lua/acquire.lua",
		"or redis.call('PTTL', QUEUE) < LINGER / 2", "", "TestBusyLineIsKept",
	},
	{
		"clients that are remembered for as long as others wait", "internal/script/lua/tickets.lua",
		"  redis.call('ZREMRANGEBYSCORE', CLIENTS, '-inf', ms)\n", "", "TestClientsThatLeftAreForgotten",
	},
	{
		"hash of who is inside without a TTL", "internal/script/lua/zset.lua",
		"local function outlive(ms)\n", "local function outlive(ms)\n  if redis.call('PTTL', K) >= ms then return end\n",
		"TestEveryKindLeavesNothingForEver",
	},
	{
		"entry that waits for itself when it asks late", "internal/script/lua/reentrant.lua",
		"or held(entry) then return false, alien() end", "or redis.call('HEXISTS', INSIDE, entry) == 1 then return false end",
		"TestLateEntryBesideItsOwner|TestKindsBehaveLikeTheirModels/tests.reentrantKind",
	},
	{
		"hash of somebody else's that is waited for", "internal/script/lua/reentrant.lua",
		"return 'kind\\thash'", "return nil", "TestHashThatIsNoLock",
	},
	{
		"extend that a full server refuses", "internal/script/lua/zset.lua",
		"  outlive(ttl + rest) -- first: a server that is out of memory refuses a script whose first write could need some\n" +
			"  redis.call('ZADD', K, millis() + ttl + rest, owner)\n",
		"  redis.call('ZADD', K, millis() + ttl + rest, owner)\n  outlive(ttl + rest)\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"permits that a full server does not take back", "internal/script/lua/semaphore.lua",
		"  redis.call('ZREM', K, owner) -- first: a server that is out of memory refuses a script whose first write could need some\n",
		"", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"slots that a full server does not take back", "internal/script/lua/slotpool.lua",
		"  redis.call('ZREM', K, owner) -- first: a server that is out of memory refuses a script whose first write could need some\n",
		"", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"heartbeat that a full server refuses", "internal/script/lua/await.lua",
		"keep() -- first: a server that is out of memory allows PEXPIRE, and ZADD after it\nbelieve(address, ARGV[3])\n",
		"believe(address, ARGV[3])\nkeep()\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"job whose end a full server forgets", "internal/script/lua/job.lua",
		"    redis.call('ZREM', K, owner) -- first: a server that is out of memory refuses a script whose first write could need some\n",
		"", "TestJobEndsOnAFullServer",
	},
	{
		"release that lets nobody in", "internal/script/lua/release.lua",
		"if left or gone then grant('', gone or ms > 0) end", "", "TestFirstComeFirstServed",
	},
	{
		"waiters that give up and stay in line", "internal/script/lua/release.lua",
		"ARGV[3] ~= '' and redis.call('ZREM', QUEUE, ARGV[3]) == 1", "false", "TestCancelledWaitersLeaveNoTrace",
	},
	{
		"tokens that are passed on and not reserved", "internal/script/lua/token.lua",
		"(n or 1) - 1", "0", "TestRelayPassesOn",
	},
	{
		"mutex that is never given back", "internal/handoff/queue.go",
		"const maxRun = 128", "const maxRun = 1 << 20", "TestRelayGivesBack",
	},
	{
		"run that newcomers join", "handoff.go",
		"l.spare = min(l.spare, others)", "l.spare = others + 1<<20", "TestRelayGivesBack",
	},
	{
		"place in line that is lost with who stood there", "handoff.go",
		"handoffs.Next(g, a.arrival)", "handoffs.Next(g, 0)", "TestRelayKeepsItsPlace",
	},
	{
		"outage that is told one after the other", "handoff.go",
		"		return nextAcquires\n	}\n	return dissolveGroup\n",
		"		return nextAcquires\n	}\n	return nextAcquires\n", "TestRelayWithoutRedis",
	},
	{
		"lease passed on that is not extended in between", "lease.go",
		"	if !g.passed {\n", "	if true {\n", "TestRelayIsExtendedInTime",
	},
	{
		"word of a forced release that hides the one before", "internal/handoff/owners.go",
		"o.newer[owner] = true", "o.newer = map[string]bool{owner: true}", "TestRelayIsRevokedAmongOthers",
	},
	{
		"forced release that does not tell the client's own lease", "inspect.go",
		"if h.Client == c.id {", "if false {", "TestForceReleaseOfOnesOwn",
	},
	{
		"dead waiter that looks alive", "internal/script/lua/inspect.lua",
		"alive(line[i], '') > 0 and 1 or 0", "1", "TestInspectTells",
	},
	{
		"last heartbeat by the horizon of the client that looks", "lockinfo.go",
		"sign.Process.Horizon > 0", "false", "TestInspectTellsMissingHeartbeats",
	},
	{
		"holder that is deaf and looks alive", "lockinfo.go",
		"h.Dead = sign.Deaf", "h.Dead = false", "TestInspectTellsDeadHolders",
	},
	{
		"waiter that one node believes dead", "inspect_quorum.go",
		"p.LastSeen, p.Dead = later(p.LastSeen, v.LastSeen), p.Dead && v.Dead\n\t\t}\n\t\tinfo.Waiters",
		"p.LastSeen, p.Dead = later(p.LastSeen, v.LastSeen), p.Dead || v.Dead\n\t\t}\n\t\tinfo.Waiters",
		"TestQuorumInspectBelievesTheNodesThatHear",
	},
	{
		"list that inspects what is only remembered", "list.go",
		"line := keys.StateOf(key, keys.QueueSuffix)", "line := keys.StateOf(key, keys.FenceSuffix)", "TestListCostsWhatIsInUse",
	},
	{
		"pattern that Redis does not know", "list.go",
		"escapeGlob(prefix) + sieve(pattern)", "escapeGlob(prefix) + sieve(\"*\")", "TestListCostsWhatIsInUse",
	},
	{
		"pattern that is matched by bytes", "list.go",
		"		case '*', '?':\n			b.WriteByte('*')\n", "		case '*', '?':\n			b.WriteByte(c)\n", "TestListPatterns",
	},
	{
		"list that asks a dead server about each name", "inspect.go",
		"down = v.err", "down = nil", "TestListFailsAtOnce",
	},
	{
		"goroutines apart since they wait for other times", "options.go",
		"leaseTerms{ttl: o.TTL,", "leaseTerms{ttl: o.TTL + o.MaxWait,", "TestRelayWhateverTheWait",
	},
	{
		"name that was lost before the last was locked", "multimutex.go",
		"cmp.Or(errs[i], l.Err())", "cmp.Or(errs[i], func(*Lease) error { return nil }(l))", "TestMultiLosesOneWhileItWaits",
	},
	{
		"lease without renewal that aged in a wait", "multimutex.go",
		"o.Renew == Off && l.Remaining()", "false && l.Remaining()", "TestMultiWithoutRenewalBeginsFresh",
	},
	{
		"names that a panic leaves behind", "multimutex.go",
		"		if l == nil { // also", "		if l == nil && err != nil { // also", "TestMultiHookPanics",
	},
	{
		"names granted at once that a panic leaves behind", "multimutex.go",
		"if len(leases) < len(owners) {", "if err != nil {", "TestMultiHookPanics",
	},
	{
		"context that waits for the schedule", "owner.go",
		"		c.lease.Remaining() // which", "		// which", "TestContextAnswersByTheClock",
	},
	{
		"context of several that waits for the schedule", "multimutex.go",
		"		_ = c.lease.Err() // which", "		// which", "TestContextAnswersByTheClock",
	},
	{
		"try under one's own lease that seems taken by another", "mutex.go",
		"func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {\n	if err := m.latch.checkDeadlock(ctx); err != nil {",
		"func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {\n	if err := ctx.Err(); err != nil {", "TestTryUnderOnesOwnLease",
	},
	{
		"turn of one whose hook panics", "handoff.go",
		"			a.leaveGroup(g, w)\n", "			c.handoffs.Dissolve(g)\n", "TestHookPanicsInItsTurn",
	},
	{
		"turn of one that just gave up", "handoff.go",
		"			next.HandOver(turn.Baton)\n", "", "TestRelayTurnOfOneThatHasGivenUp",
	},
	{
		"loss that is not told in the process", "lease.go",
		"	l.cancel(err)\n	l.detachLocked()\n", "	l.cancel(err)\n", "TestRelayAfterALoss",
	},
	{
		"batch in which newcomers overtake the line", "internal/script/lua/acquires.lua",
		"redis.call('EXISTS', QUEUE) == 0 and ", "", "TestBundleDoesNotOvertake",
	},
	{
		"batch of releases that lets nobody in", "internal/script/lua/releases.lua",
		"redis.call('EXISTS', QUEUE) == 0 and ", "", "TestBundleOfWhichSomeAreTaken",
	},
	{
		"burst under one time limit", "internal/batch/sender.go",
		"s.inFlight+len(batch) < maxInFlight", "s.inFlight >= 0", "TestBurstIsBounded",
	},
	{
		"batch of which one cannot be done", "internal/batch/plan.go",
		"if refused || err == nil &&", "if err == nil &&", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"batch that forgets what its first half did", "internal/batch/plan.go",
		"Sent: sent, Resent: refused}", "Sent: sent}", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"request in a queue that ignores its context", "internal/batch/sender.go",
		"	case <-ctx.Done():\n		s.cancel", "	case <-context.Background().Done():\n		s.cancel",
		"TestRequestInABatchHeedsItsContext",
	},
	{
		"deadline from the reply", "request.go",
		"return answer{result.Reply, result.Sent, n > 0", "result.Sent = c.now()\n\t\t\treturn answer{result.Reply, result.Sent, n > 0",
		"TestDeadlineIsSoundUnderEveryDelay",
	},
	{
		"deadline from the grant's arrival", "listen.go",
		"anchor: w.anchor, ttl: min(", "anchor: c.now(), ttl: min(", "TestDeadlineIsSoundUnderEveryDelay",
	},
	{
		"deadline moved by an extend that failed", "watchdog.go",
		"l.state = inJeopardy\n", "l.state, l.anchor = inJeopardy, sent\n", "TestLostRepliesToExtendEndTheLeaseAtItsDeadline",
	},
	{
		"watchdog that gives up at the first failure", "watchdog.go",
		"l.state = inJeopardy\n\tl.extendAt = now.Time().Add(", "l.state = inJeopardy\n\tl.extendAt = now.Time().Add(time.Hour + ",
		"TestServerHangsForLessThanTheTTL|TestServerIsAwayForLessThanTheTTL",
	},
	{
		"lost lease with a token", "lease.go",
		"if !l.Held() {\n\t\treturn 0\n\t}\n\treturn l.token", "return l.token", "TestSuspendedHolderWakesWithoutItsLock|TestServerHangs",
	},
	{
		"release that heeds its context", "lease.go",
		"ctx = context.WithoutCancel(ctx)\n", "", "TestReleaseHeedsNoContext",
	},
	{
		"resent release that calls itself a loss", "lease.go",
		" || answer.resent", "", "TestLostReplyToReleaseIsConfirmedByTheResend",
	},
	{
		"nothing undone when the caller gave up", "internal/cleanup/queue.go",
		"	q.addLocked(r)\n", "	_ = r\n",
		"TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp|TestCancelAtTheMomentOfTheGrant",
	},
	{
		"no second look at what a request may still bring", "internal/cleanup/queue.go",
		"return r.absent == enough", "return r.absent > 0", "TestStragglerAfter",
	},
	{
		"no look at what a resent request may still bring after the release", "lease.go",
		"if l.resent || err != nil", "if err != nil", "TestStragglerAfterTheRelease",
	},
	{
		"no place asked for again", "waiting.go",
		"\t\tws.restoreLocked(w)\n", "\t\t_ = ws.restoreLocked\n", "TestFlush|TestServerKilledAndRestartedEmpty",
	},
	{
		"no look when the subscription is lost", "internal/subscribe/listener.go",
		"			n = 0\n			l.handler.Changed(s)\n", "			n = 0\n", "TestGrantWhileDeaf",
	},
	{
		"no look at a holder that grants nothing", "waiting.go",
		"\tif foreign {\n", "\tif false {\n", "TestForeignReleaseIsNoticed",
	},
	{
		"no look when the holder's lease is over", "waiting.go",
		"\tif remaining >= 0 {\n", "\tif false {\n", "TestKilledHolderCostsItsRemainingTTL",
	},
	{
		"renewals without end", "watchdog.go",
		"l.latch.options.Renew == On && !l.overdueLocked()", "l.latch.options.Renew == On", "TestMaxHold",
	},
	{
		"release that overtakes a renewal", "lease.go",
		"for l.pending != nil {", "for false {", "TestReleaseWaitsForTheRenewalUnderWay",
	},
	{
		"leases that outlive their client", "client.go",
		"\t\tdefer l.lose(LossClosed)\n", "\t\t_ = l\n", "TestCloseEndsWaitsAndLeases",
	},
	{
		"marks that let old tokens through", "fence/marks.go",
		"token <= 0 || token < k.newest", "token <= 0", "TestLateWriteIsRefusedByMarks",
	},
	{
		"script that lets old tokens through", "fence/fenceredis/script.go",
		"mine <= 0 or mine < newest", "mine <= 0", "TestLateWriteIsRefusedByRedis",
	},
	{
		"table that lets old tokens through", "fence/fencesql/table.go",
		"if newest > token {", "if newest < 0 {", "TestSQLGuard",
	},
	{
		"table that forgets the newest token", "fence/fencesql/dialect.go",
		"max(mark.token, excluded.token)", "excluded.token", "TestSQLGuard",
	},
}

// TestMutantsStillApply keeps the table from going stale.
func TestMutantsStillApply(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s contains %q %d times, want once: adapt the mutant to the code", m.name, m.file, m.old, n)
		}
	}
}

// copies is how many mutants are tried at once. Their tests wait more than they compute.
const copies = 6

// TestMutants breaks copies of the repository, each in one way after another, and checks that the
// tests notice.
func TestMutants(t *testing.T) {
	if os.Getenv(mutantsVariable) == "" {
		t.Skipf("set %s=1 to run it, or make mutants: it takes minutes", mutantsVariable)
	}
	repositories := make(chan string, copies)
	for range copies {
		repository := t.TempDir()
		copySources(t, "..", repository)
		// A test that fails waits out its patience.
		change(t, filepath.Join(repository, "tests", "help_client_test.go"), "const patience = 30 * time.Second", "const patience = 15 * time.Second")
		repositories <- repository
	}
	var all []string
	for _, m := range mutants {
		all = append(all, m.tests)
	}
	repository := <-repositories
	if survives, output := try(t, repository, strings.Join(all, "|")); !survives {
		t.Fatalf("the tests fail without any change:\n%s", output)
	}
	repositories <- repository
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			repository := <-repositories
			defer func() { repositories <- repository }()
			file := filepath.Join(repository, m.file)
			undo := change(t, file, m.old, m.new)
			defer undo()
			if survives, output := try(t, repository, m.tests); survives {
				t.Errorf("%s survived %s:\n%s", m.name, m.tests, output)
			}
		})
	}
}

// try builds the tests of a copy and reports whether these succeed.
func try(t *testing.T, repository, tests string) (succeed bool, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	binary := filepath.Join(repository, "mutant.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".")
	build.Dir = filepath.Join(repository, "tests")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not build: %v\n%s", err, text)
	}
	run := exec.CommandContext(ctx, binary, "-test.run", "^("+tests+")", "-test.timeout", "2m", "-test.failfast")
	run.Dir = build.Dir
	text, err := run.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("the tests do not run: %v\n%s", err, text)
	}
	if strings.Contains(string(text), "no tests to run") {
		t.Fatalf("there is no test %s", tests)
	}
	return err == nil, string(text)
}

// change replaces text in a file, and returns how to undo it.
func change(t *testing.T, file, old, new string) (undo func()) {
	t.Helper()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.ReplaceAll(string(before), old, new)
	if after == string(before) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	save := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(after)
	return func() { save(string(before)) }
}

// copySources copies what the go command needs.
func copySources(t *testing.T, from, to string) {
	t.Helper()
	kinds := []string{".go", ".lua", ".c", ".mod", ".sum", ".work"}
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		}
		if !slices.Contains(kinds, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(from, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
