package mutants

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// mutantsVariable runs TestMutants, which takes minutes: for those whose names match it.
const mutantsVariable = "REDLATCH_MUTANTS"

// mutant is a known way to break redlatch: in a file, old becomes new. These tests must then fail.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // for -test.run: below tests, or beside the file
}

var mutants = []mutant{
	{
		"lease that ended on the way of its release, and was deleted", "internal/engine/lease/loss.go",
		"(gone.Fenced || !gone.Known) && l.validity()", "false && l.validity()", "TestReleaseThatComesTooLate",
	},
	{
		"lease that ended while an extend had no answer, and stays in Redis", "internal/engine/lease/lease.go",
		"!l.long() && !unanswered)", "!(l.long() || unanswered && false))", "TestExtendWithoutAnAnswer",
	},
	{
		"password that has to come before HELLO", "redlatchrueidis/rueidis.go",
		"|| password && retry.Says(err, \"NOAUTH\") {", "|| password && false {", "TestOwnClientWhosePasswordComesFirst",
	},
	{
		"map of slots that a node which left has emptied", "internal/driver/slots/slots.go",
		"news := err == nil && len(ranges) > 0", "news := err == nil", "TestMapIsLoadedInTheBackground",
	},
	{
		"node that left and says that no slot is served", "redlatchrueidis/cluster.go",
		"askSlots(ctx, node, addr); len(ranges) > 0 {", "askSlots(ctx, node, addr); err == nil {", "TestLaneOfANodeThatLeft",
	},
	{
		"script that ends while its slot moves, on Redis 8", "internal/base/retry/retry.go",
		"			\"during rehashing of the slot\")", "			\"BUSY \")", "TestErrorsAreToldApart",
	},
	{
		"missing right that a script has caught, on later servers", "internal/driver/adapter/adapter.go",
		"\"ERR ACL failure in script: \"", "\"ERR ACL failed: \"", "TestEval",
	},
	{
		"ticket at a node of a user that may not set when a key expires", "internal/protocol/script/lua/vote.lua",
		"if type(kept) == 'table' then", "if false then",
		"TestPlaceWithoutTheRightToExpire",
	},
	{
		"look that begins anew for each viewer of an instant", "internal/fleet/sweep.go",
		"s.rest(pause(busy, names), true)", "s.rest(pause(busy, names), false)",
		"TestScrapesGetAPicture",
	},
	{
		"word by which zsh looks for a program", "internal/fleet/command.go",
		"^[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:=@%+,-]*$", "^[A-Za-z0-9_./:=@%+,-]+$",
		"FuzzText",
	},
	{
		"password of which a quote hides the rest", "cmd/redlatch/internal/cli/talk/password.go",
		"://)\\S*(@)", "://)[^\\s']*(@)",
		"FuzzRedacted",
	},
	{
		"address that ends at an @ in a path", "cmd/redlatch/internal/cli/talk/password.go",
		"cutLast(rest[:end], \"@\")", "cutLast(rest, \"@\")",
		"FuzzRedacted",
	},
	{
		"replicas of a number that no server has", "cmd/redlatch/internal/doctor/server.go",
		"		if !told {", "		if !told && i < 0 {",
		"FuzzInfo",
	},
	{
		"range of a pattern without its slash", "internal/protocol/keys/glob.go",
		"matches == (begin == 2)", "matches || !matches",
		"FuzzMatch",
	},
	{
		"extend whose wait for another is no part of its time", "internal/engine/lease/extend.go",
		"most-l.keeper.Now().Since(since))", "most)",
		"TestExtendsThatWaitForEachOther",
	},
	{
		"extend that counts from the end of another", "internal/engine/lease/extend.go",
		"AskMissing(bounded, since,", "AskMissing(bounded, l.keeper.Now(),",
		"TestExtendsThatWaitForEachOther",
	},
	{
		"lock left free for others that a clock which is set back closes for long", "internal/protocol/script/lua/tickets.lua",
		"if address == YIELD and ms > tonumber(ttl) then ms = 0 end", "",
		"TestYieldAndAClockThatIsSetBack",
	},
	{
		"server that refuses RESP3", "redlatchrueidis/rueidis.go", "\"NOPROTO\"", "\"NOPE\"", "TestOwnClientWithoutRESP3",
	},
	{
		"notes of a user that may not set when a key expires", "internal/protocol/script/lua/note.lua",
		"if type(lasts) == 'table' then", "if false then", "TestRecordsOfAUserWhoMayNotLetKeysExpire",
	},
	{
		"end of an inner entry that gives up the entry of the others", "internal/engine/lease/lease.go",
		"	case !last: // the others", "	case false && !last: // the others",
		"TestEndOfALongEntryBesideAnother",
	},
	{
		"late extend that shortens a lease at a node", "internal/protocol/script/lua/confirm.lua",
		"tonumber(ARGV[2])) and agrees", "tonumber(ARGV[2]), true) and agrees",
		"TestQuorumExtendToIsLate",
	},
	{
		"suspend that neither the next extend nor the end heeds", "internal/engine/lease/lease.go",
		"return max(now.Drift(l.sentAt), 0) }", "return min(now.Drift(l.sentAt), 0) }",
		"TestSuspendThatALeaseOutlasts",
	},
	{
		"request for a lost place that outlasts its waiter", "internal/engine/line/grants.go",
		"			if ln.hasGivenUp(w) {", "			if ln.hasGivenUp(w) && ln.has(w) {",
		"TestPlaceThatComesLate",
	},
	{
		"lost place that is refused after a request without an answer", "internal/engine/line/grants.go",
		"				if answer.Resent {\n", "				if false {\n",
		"TestPlaceThatComesLate",
	},
	{
		"try of a lock that was given back with the time for asking", "internal/engine/acquire/linger.go",
		"a.try(ctx); !errors", "a.try(asking); !errors",
		"TestTryOfAKeptLockThatWasGivenBack",
	},
	{
		"text with an owner that was sent twice", "internal/engine/lease/detach.go",
		"if err != nil || !answer.Resent ||", "if err != nil || answer.Resent ||",
		"TestTextAfterTwoLateCopies",
	},
	{
		"adopted slot with a minimal hold", "adopt.go",
		"l.refusal(); err", "l.invalid; err",
		"TestAdoptRefusesWhatTheKindRefuses",
	},
	{
		"wish of a user that may not set when a key expires", "internal/protocol/script/lua/tickets.lua",
		"local there = redis.call('PEXPIRE', CLIENTS, long)", "local there = 0",
		"TestOneRightLess",
	},
	{
		"line of a user that may not set when a key expires", "internal/protocol/script/lua/acquire.lua",
		"local kept = first and", "local kept = false and",
		"TestPlaceWithoutTheRightToExpire",
	},
	{
		"wait for replicas that does not follow a slot", "redlatchrueidis/replicated.go",
		"			if at == nil {\n				break", "			if at == nil || !asking || asking {\n				break",
		"TestOwnClientOfACluster",
	},
	{
		"wait for replicas with the time of any read", "redlatchgoredis/goredis.go",
		"patient(at, wait).Pipeline()", "patient(at, 0).Pipeline()",
		"TestWaitMayTakeLongerThanARead",
	},
	{
		"scan of the masters that rueidis knows", "redlatchrueidis/cluster.go",
		"	if err := c.meetMasters(ctx); err != nil {\n		return nil, err\n	}\n", "",
		"TestScanOfANewMaster",
	},
	{
		"dial of a dead node that seems to succeed", "redlatchrueidis/shards.go",
		"	case err := <-lost: //", "	case err := <-(chan error)(nil): //",
		"TestChannelsOfADeadNode",
	},
	{
		"shared connection that stays at a replica", "redlatchrueidis/silence.go",
		"bool { return true }) }", "bool { return false }) }",
		"TestNameOfADemotedServer",
	},
	{
		"lane of a node that left", "redlatchrueidis/rueidis.go",
		"forget(c.places.Masters())", "forget(nil)",
		"TestLaneOfANodeThatLeft",
	},
	{
		"subscription at a node that left", "redlatchrueidis/subscribe.go",
		"			if left() {", "			if left() && ctx.Err() != nil {",
		"TestOwnClientOfACluster",
	},
	{
		"time that another program wrote, and that no duration holds", "internal/base/clock/clock.go",
		"	case n > most:\n", "	case n > most && n < 0:\n", "TestMillis",
	},
	{
		"entry that joins another which may be lost", "internal/engine/lease/reentry.go",
		" && l.state == held", "", "TestNotReentered",
	},
	{
		"entry that joins another which goes on in another process", "internal/engine/lease/reentry.go",
		" && l.parting == 0", "", "TestNotReentered",
	},
	{
		"entry that joins another with less time than it may have", "internal/engine/lease/reentry.go",
		" >= least\n", " >= least-least\n", "TestNotReentered",
	},
	{
		"entry that joins another which is held on other terms", "internal/engine/lease/reentry.go",
		"!alike(lead.lock, on) || ", "", "TestNotReentered",
	},
	{
		"bound on entries that the client does not count", "internal/engine/lease/reentry.go",
		"depth > 0 && int(n) > depth", "depth > 0 && int(n) < 0", "TestNotReentered",
	},
	{
		"bound on entries that Redis alone counts", "internal/engine/acquire/reentry.go",
		"depth == 0 || a.by", "true || a.by", "TestReentryOnAServer",
	},
	{
		"inner release that gives up the entry of those around it", "internal/engine/lease/release.go",
		"	if left > 0 && l.accompanied() {", "	if left < 0 && l.accompanied() {", "TestReentryAsksNothing",
	},
	{
		"last entry whose release is not sent", "internal/engine/lease/nest.go",
		"len(l.nest.leases) > 1 }", "len(l.nest.leases) > 0 }", "TestReentryAsksNothing",
	},
	{
		"inner entry that no watchdog extends when the outer one has ended", "internal/engine/lease/nest.go",
		"		n.follow(n.leases[len(n.leases)-1])\n", "", "TestOneExtendForAllEntries",
	},
	{
		"inner entry that is not extended", "internal/engine/lease/extend.go",
		"		l.extendOthers(by, sent, ttl, left, now)\n", "", "TestOneExtendForAllEntries",
	},
	{
		"longer lease of one entry that is that of all", "internal/engine/lease/nest.go",
		"		ttl = min(ttl, l.lock.TTL)\n", "", "TestOneExtendForAllEntries|TestMaxHoldOfEachEntry",
	},
	{
		"inner entry that does not learn of the loss", "internal/engine/lease/lease.go",
		"	l.loseOthers(why)\n", "", "TestLossReachesAllEntries",
	},
	{
		"outer entry that has reached its MaxHold and keeps the inner one from being extended", "internal/engine/lease/nest.go",
		"last > 0 && n.lead", "false && n.lead", "TestMaxHoldOfEachEntry",
	},
	{
		"outer entry that is extended beyond its MaxHold with the inner one", "internal/engine/lease/nest.go",
		"		if m.overdueLocked() {\n			m.reschedule(now)", "		if false {\n			m.reschedule(now)", "TestMaxHoldOfEachEntry",
	},
	{
		"text of an entry that others of the client share", "internal/engine/lease/detach.go",
		"	if shared {\n		to, err = l.enterApart(ctx)\n		return to, false, err\n	}\n", "	_ = shared\n", "TestDetachedEntryIsApart",
	},
	{
		"entry that is left to nobody when the last of its leases is detached", "internal/engine/lease/detach.go",
		"	if to.owner != \"\" && !l.accompanied() {", "	if false {", "TestDetachedEntryIsApart",
	},
	{
		"extend under way that is forgotten with the lease it was sent for", "internal/engine/lease/nest.go",
		"	next.pending, next.settled, old.pending, old.settled = old.pending, old.settled, false, nil\n", "", "TestReleaseOfAnEntryDuringAnExtend",
	},
	{
		"loss of an inner entry that is told before its grant", "internal/engine/lease/nest.go",
		"		if t.of.untold {", "		if false {", "TestNothingIsToldBeforeTheGrant",
	},
	{
		"writer that asks one of the readers that are kept", "internal/engine/line/linger.go",
		"		if l.Kind == script.RWMutex {", "		if false {", "TestKeptReadersAndWriters",
	},
	{
		"read-write mutex that does not tell a reader that is kept", "internal/protocol/script/lua/rwmutex.lua",
		"if met and not string.find(met, kept) then", "if false then", "TestKeptReadersAndWriters",
	},
	{
		"holder that an old copy names though it is done", "internal/engine/engine.go",
		"		e.Keeper.ReleaseAgain(s.Key())\n", "", "TestOldCopyNamesAHolderThatIsDone",
	},
	{
		"lease that is released again though it has run out", "internal/engine/lease/again.go",
		"now.Before(p.until)", "now.After(time.Time{})", "TestReleasedAgainInTime",
	},
	{
		"release that the clean-up has many times", "internal/engine/lease/again.go",
		" && !p.cleaned", "", "TestReleasedAgainInTime",
	},
	{
		"grant to a waiter that was served, which its client ignores", "internal/engine/engine.go",
		"			e.Keeper.GrantedAgain(m.Owner)\n", "", "TestOldCopyNamesAHolderThatIsDone",
	},
	{
		"lock that is kept though another asked for it while it was in use", "internal/engine/lease/linger.go",
		"k.shelf.byLock[key] != nil, k.shelf.asked.Has(l.owner)", "k.shelf.byLock[key] != nil", "TestTryAsksForAKeptLock",
	},
	{
		"lock that is kept when its client has just closed, or does not listen any more", "internal/engine/lease/linger.go",
		"	case k.Closing.Err() != nil, l.hearing != k.Listener.Plain().Session():\n		return false\n	}\n	if", "	}\n	if", "TestNothingIsShelvedTooLate",
	},
	{
		"lock that is kept since many others were asked for", "internal/engine/lease/linger.go",
		"AddAmong(owner, len(k.byOwner))", "Add(owner)", "TestAskedAmongMany",
	},
	{
		"name that is not kept though keeping it was worth a question", "internal/engine/linger/habits.go",
		"if n.taken-1-left >= worth {", "if false {", "TestWorthAQuestion",
	},
	{
		"lock that is kept until it has run out", "internal/engine/lease/linger.go",
		"Add(l.validity()*2/3)", "Add(2*l.validity())", "TestTakenUpWhenDue|TestNotKept",
	},
	{
		"lock that is kept, of which no event says that it is not any more", "internal/engine/lease/linger.go",
		"	defer l.unlock(lock.Event{What: lock.Unkept})", "	defer l.unlock()", "TestKeptLockIsTold",
	},
	{
		"refusal that is taken for the word that no earlier copy ran", "internal/link/ask/ask.go",
		"return Answer{Resent: n > 0}, a.Refused(", "return Answer{}, a.Refused(", "TestEveryKindRefusedAfterALostReply",
	},
	{
		"client that keeps what another asks for", "internal/engine/lease/linger.go",
		"	case onShelf != nil:\n		k.apart(l.giveBack)", "	case onShelf != nil:", "TestKeptLockGoesToAWaiter",
	},
	{
		"waiter that does not ask for what may only be kept", "internal/engine/line/linger.go",
		"if !first || !script.Kept(occupant) {", "if true {", "TestKeptLockGoesToAWaiter",
	},
	{
		"lock that is kept though it came out of the line", "internal/engine/acquire/linger.go",
		"s.Inside && s.Anew && !answer.Resent && !g.Resent", "!g.Resent", "TestLingeringClientsTakeTurns",
	},
	{
		"client of a cluster that is taken for deaf since it listens at another node", "internal/engine/line/linger.go",
		"ln.Conn.Target().Cluster {", "false {", "TestTryAsksForAKeptLockInACluster",
	},
	{
		"client that is told where it does not listen that its lock was taken", "internal/engine/force.go",
		" && !script.Kept(victim.Owner)", "", "TestForcedLockThatMayBeKeptInACluster",
	},
	{
		"client that listens for each name that it locks", "internal/engine/line/line.go",
		"s.Connected() && s.Sharded() == ln.Listener.Sharded()", "s.Connected()", "TestFreeLocksNeedNoSubscriptionInACluster",
	},
	{
		"try that does not ask for what may only be kept", "internal/engine/acquire/linger.go",
		"return a.first && script.Kept(a.occupant.Owner) &&", "return false &&", "TestTryAsksForAKeptLock",
	},
	{
		"client that asks itself for what it has in use", "internal/engine/acquire/linger.go",
		" && a.by.Keeper.Of(a.occupant.Owner) == nil", "", "TestOwnTryAsksNobody",
	},
	{
		"lock that was detached and seems to be kept only", "internal/engine/lease/detach.go",
		"		l.sayUsed(bounded)\n", "		_ = bounded\n", "TestDetachedLockIsInUse",
	},
	{
		"waiter behind a lock that was kept, which finds Redis out of reach", "internal/engine/acquire/linger.go",
		"	if err == nil && a.group != nil {", "	if false {", "TestWaitBehindALockThatWasKept",
	},
	{
		"client that does not say that its lock is in use", "internal/engine/lease/linger.go",
		"	case again:\n		l.answerUsed()", "	case false:\n		l.answerUsed()", "TestTryAsksForAKeptLock",
	},
	{
		"ask that does not read the answer", "internal/protocol/script/lua/ask.lua",
		"if used and -used > math.floor(now() / 1000) then return 2 end", "", "TestTryAsksForAKeptLock",
	},
	{
		"kept lock that has the same token again", "internal/engine/lease/linger.go",
		"Token: l.token + 1, Spare", "Token: l.token, Spare", "TestKeptLockIsTakenWithoutARequest",
	},
	{
		"client that keeps what was taken by force", "internal/engine/lease/loss.go",
		"	if kept != nil {\n		k.apart(kept.giveBack)\n	}", "	_ = kept", "TestKeptLockIsForced",
	},
	{
		"client that keeps locks though it may have missed a message", "internal/engine/engine.go",
		"		e.Keeper.DropKept()\n", "", "TestNothingIsKeptUnheard",
	},
	{
		"old message of a grant that is believed", "internal/engine/line/grants.go",
		"token <= w.fence || ", "", "TestGrantThatIsHeardTooLate",
	},
	{
		"poll that does not say which grants are old", "internal/protocol/script/lua/await.lua",
		"reply[5] = tonumber(redis.call('GET', FENCE) or 0)\n", "", "TestGrantThatIsHeardTooLate",
	},
	{
		"extend that takes a later acquisition of its owner for the first", "internal/engine/acquire/grant.go",
		"return g.Resent && g.Left(a.by.Now()) <= 0", "return false", "TestGrantThatIsExtendedTooLate",
	},
	{
		"entry that counts in a hash of another owner", "internal/protocol/script/lua/reentrant.lua",
		"redis.call('HEXISTS', K, owner) == 1 then return left, owner end", "redis.call('HLEN', K) > 0 then return left, owner end",
		"TestEntryIsLostToAnotherOwner",
	},
	{
		"line that forgets a sorted set which is no lock", "internal/protocol/script/lua/zset.lua",
		"if attribute then shorten() end", "shorten()", "TestSortedSetThatIsNoLockIsLeftAlone",
	},
	{
		"word of a forced release that the reply to an extend wipes out", "internal/engine/lease/lease.go",
		"l.doubted = true, l.pending", "l.doubted = true, false", "TestForceReleaseDuringAnExtend",
	},
	{
		"word to ask at once that is lost during a poll", "internal/engine/line/poll.go",
		"	if p.polling {\n		p.again = true\n		return nil", "	if p.polling {\n		return nil", "TestWordToAskDuringAPoll",
	},
	{
		"forced release that counts the tokens of a shared lock in a key of its own", "internal/protocol/script/lua/line.lua",
		"if KIND ~= 'reentrant' then return grant('') end", "if true then return grant('') end",
		"TestFencedLockIsGrantedInOneOrder",
	},
	{
		"text of a lease that does not say where the tokens are counted", "internal/engine/lock/text.go",
		"Fence: l.FenceKey,", "", "TestFencedLockIsGrantedInOneOrder",
	},
	{
		"lock at a bare majority that counts as a tie", "internal/engine/ballot/contest.go",
		"		if t.mayBeHeld() {", "		if false {", "TestQuorumHeldAtABareMajority",
	},
	{
		"count that a resend takes down twice", "internal/protocol/script/lua/countdown_down.lua",
		"if redis.call('ZSCORE', K, owner) then return {1, s.left} end\n", "", "TestCountDownMeetsMishaps|TestCountDownStragglers",
	},
	{
		"count that a late request of the round before takes down", "internal/protocol/script/lua/countdown.lua",
		"K, 1 + repeats(), -KEPT - 1)", "K, 1 + repeats(), -1)", "TestCountDownStragglers",
	},
	{
		"repeat of what has counted that counts in the next round", "internal/protocol/script/lua/countdown_down.lua",
		"  note_repeat(owner)\n", "", "TestCountDownStragglers",
	},
	{
		"repeats that go with what has counted", "internal/protocol/script/lua/countdown.lua",
		"1 + repeats(), -KEPT - 1", "1, -KEPT - 1", "TestCountDownRemembersEnough",
	},
	{
		"repeats without an end", "internal/protocol/script/lua/countdown.lua",
		"redis.call('ZREMRANGEBYRANK', K, 1, math.max(0, repeats() - KEPT))", "", "TestRepeatsAreBounded",
	},
	{
		"count that a late request sets once more", "internal/protocol/script/lua/countdown_set.lua",
		"if tonumber(ARGV[5]) ~= fence then return {2, fence} end", "", "TestCountIsSetLate",
	},
	{
		"count that is set again when it was deleted before the answer", "countdown.go",
		"if count.Again && before.Fence >= 0 && answer.Resent {", "if count.Again && before.Fence > 1<<60 && answer.Resent {", "TestCountIsSetAndGoneBeforeTheAnswer",
	},
	{
		"two requests of a countdown, each with a time of its own", "countdown.go",
		"err := do(bounded)", "_ = bounded; err := do(ctx)", "TestTwoRequestsEndInTime",
	},
	{
		"text that names an owner which a late copy can bring back", "internal/engine/lease/detach.go",
		"needed, shared := l.resent && ", "needed, shared := false && ", "TestTextAfterALateCopy",
	},
	{
		"lease of an unknown owner that goes on", "internal/engine/lease/detach.go",
		"		events = l.giveUpLocked(err)\n", "", "TestDetachWhoseOwnerIsUnknown",
	},
	{
		"holder that has missed messages, and does not ask", "internal/engine/engine.go",
		"		e.Keeper.Recheck(s.Key())\n", "", "TestForceWhileDeaf",
	},
	{
		"extend by the program that leaves nodes without the lease", "internal/engine/lease/extend.go",
		"\"extend\", call, l.mend)", "\"extend\", call, func(int) {})", "TestQuorumExtendMends",
	},
	{
		"try over a quorum that asks for slots when its time is over", "internal/engine/ballot/contest.go",
		" || c.now().Since(begun) >= patience {", " {", "TestQuorumTryEndsInTime",
	},
	{
		"size that only the dead know, which Available minds", "semaphore.go",
		"used := len(info.Holders) > 0 ||", "used := true ||", "TestAvailableOfWhatOnlyTheDeadKnow",
	},
	{
		"several names that are given back one after the other", "internal/engine/acquire/several.go",
		"		releases.Go(func() {", "		func(f func()) { f() }(func() {", "TestMultiGivesBackAtOnce",
	},
	{
		"count that is taken for zero when it is gone", "internal/protocol/script/lua/countdown_wait.lua",
		"if not s or round > 0 and (round < s.first or round > s.round) then return {0} end",
		"if not s and round == 0 then return {0} end if not s or round > 0 and round < s.first then return {1, 0, round, 0} end",
		"TestCountDownWithoutACount",
	},
	{
		"waiter that missed its zero, and waits for the next", "internal/protocol/script/lua/countdown_wait.lua",
		"if round > 0 and round < s.round then return {1, 0, round, 0} end", "", "TestCountDownUnheard",
	},
	{
		"waiters that are not told of the zero", "internal/protocol/script/lua/countdown_down.lua",
		"if s.left == 0 then tell_zero(s.round) end", "", "TestCountDownTellsItsWaiters",
	},
	{
		"waiter of a countdown that does not ask by itself", "countdown.go",
		"timer := time.NewTimer(d.pause(outage))", "timer := time.NewTimer(time.Hour)", "TestCountDownUnheard",
	},
	{
		"waiter of a countdown that leaves its ticket behind", "countdown.go",
		"			l.abandon(owner, ticket)\n", "", "TestCountDownGivenUp",
	},
	{
		"delete that hits a later round", "internal/protocol/script/lua/countdown_delete.lua",
		" or s.round ~= tonumber(ARGV[1])", "", "TestCountDownStragglers",
	},
	{
		"count that needs memory to go down", "internal/protocol/script/lua/countdown_down.lua",
		"redis.call('PEXPIRE', K, s.ms)\n", "", "TestCountDownAtAFullServer",
	},
	{
		"lease on no permits", "internal/protocol/script/lua/semaphore.lua",
		"math.max(free, 1)", "free", "TestPermitsThatAreFree",
	},
	{
		"permits of holders that count as free", "semaphore.go",
		"free -= h.Permits", "free -= 0 * h.Permits", "TestPermitsThatAreFree",
	},
	{
		"force that robs itself when it is sent again", "internal/protocol/script/lua/seize.lua",
		"if extend(successor, ttl) then return inside_reply(successor) end", "", "TestTakeByForceMeetsMishaps",
	},
	{
		"holder that is robbed in one step, and not told", "internal/protocol/script/lua/seize.lua",
		"if taken then tell_forced(owner, ARGV[5], ARGV[6], ARGV[3], ARGV[4]) end", "", "TestTakeByForceIsOneStep",
	},
	{
		"force that cannot take what is shut", "internal/protocol/script/lua/seize.lua",
		" or open(owner))", ")", "TestTakeByForceOfWhatIsFreeOrShut",
	},
	{
		"force that leaves a lock behind", "internal/engine/acquire/seize.go",
		"a.abandon(a.owner, \"\") //", "//", "TestTakeByForceMeetsMishaps",
	},
	{
		"waiter that no holder is told of", "internal/protocol/script/lua/tickets.lua",
		"    tell_holders(past)\n", "", "TestWantedIsPushed",
	},
	{
		"goroutine that waits, and that no holder is told of", "internal/engine/acquire/turns.go",
		"	a.by.Keeper.TellHolder(g)\n", "", "TestWantedByItsOwnProcess",
	},
	{
		"goroutine that waited before, and that no holder is told of", "internal/engine/lease/wanted.go",
		"l.keeper.Handoffs.Others(group) > 0", "false", "TestWantedByItsOwnProcess",
	},
	{
		"holder that is told by messages alone", "internal/engine/lease/extend.go",
		"		if l.wishing() {", "		if false {", "TestWantedWithoutMessages",
	},
	{
		"holder whose wish another holder forgets", "internal/protocol/script/lua/want.lua",
		"if redis.call('EXISTS', QUEUE) == 1 then", "if true then", "TestWantedIsForThoseThatAsk",
	},
	{
		"late request that shortens the lease of a mutex", "internal/protocol/script/lua/mutex.lua",
		"if exactly or tonumber(ttl) > 0 and redis.call('PTTL', K) < tonumber(ttl) then", "if true then",
		"TestExtendToEveryKind",
	},
	{
		"look that ends a lease without an expiry", "internal/protocol/script/lua/mutex.lua",
		"exactly or tonumber(ttl) > 0 and redis", "exactly or redis", "TestWantedOfALockWithoutAnExpiry",
	},
	{
		"late request that shortens a lease on a sorted set", "internal/protocol/script/lua/zset.lua",
		"if not exactly then ttl = math.max(ttl, left) end", "", "TestExtendToEveryKind",
	},
	{
		"late request that shortens an entry", "internal/protocol/script/lua/reentrant.lua",
		"exactly and ttl or math.max(ttl, left))", "ttl)", "TestExtendToEveryKind",
	},
	{
		"adoption that keeps a length which was not asked for", "internal/protocol/script/lua/adopt.lua",
		"if extend(owner, ttl, true) then", "if extend(owner, ttl) then", "TestAdoptAsAsked",
	},
	{
		"watchdog that shortens a lease", "internal/engine/lease/extend.go",
		"ttl := max(d, lead.leftInRedis(), l.leftInRedis())", "ttl := d", "TestExtendToAndTheWatchdog",
	},
	{
		"watchdog that looks away for as long as a lease lasts", "internal/engine/lease/lease.go",
		"l.long() {\n		return full", "false {\n		return full", "TestExtendToAndTheWatchdog",
	},
	{
		"length of a lease that goes to the next goroutine", "internal/engine/lease/pass.go",
		"due := l.long() || ", "due := ", "TestExtendToIsNotPassedOn",
	},
	{
		"extend that counts as confirmed for longer than it asked", "internal/engine/lease/nest.go",
		"	l.sentAt, l.ttl = sent, ttl\n", "	l.sentAt, l.ttl = sent, max(ttl, l.longest)\n", "TestExtendToMeetsMishaps",
	},
	{
		"value of a leader that an old request brings back", "internal/protocol/script/lua/proclaim.lua",
		"if of == owner and tonumber(last) >= number then return 1 end", "", "TestProclaimLate",
	},
	{
		"value of a leader that no observer is told of", "internal/protocol/script/lua/proclaim.lua",
		"publish_change('proclaimed')", "", "TestProclaimIsObserved",
	},
	{
		"observer that heeds a subscription which has ended", "internal/engine/engine.go",
		"				up.Store(true)\n", "				n = 0\n", "TestObserveIgnoresLateConfirmations",
	},
	{
		"observer that knows a leader by its term alone", "election.go",
		" && leader.Value == sent.Value", "", "TestProclaimIsObserved",
	},
	{
		"value of a term that is over, and no word of it", "election.go",
		"script.Done(answer.Reply) {", "script.Done(answer.Reply) || true {", "TestProclaimIsRefused",
	},
	{
		"hand-over that is announced to another library", "internal/protocol/script/lua/tickets.lua",
		"or redis.call('EXISTS', KEYS[1]) == 1 then", "then", "TestAnnouncesWhatIsFree",
	},
	{
		"free lock that is not announced", "internal/protocol/script/lua/release.lua",
		"if left then announce(ARGV[7], ARGV[8], ARGV[9]) end", "", "TestAnnouncesWhatIsFree",
	},
	{
		"forced release that is not announced", "internal/protocol/script/lua/force.lua",
		"announce(ARGV[7], ARGV[8], ARGV[9])", "", "TestAnnouncesWhatIsFree",
	},
	{
		"announcement of another library that is not heard", "internal/engine/line/heed.go",
		"func(string) { heard() }", "func(string) {}", "TestAnnouncementIsHeard",
	},
	{
		"semaphore that yields to libraries which have no such lock", "latch.go",
		"!shared(kind) || c.engine.Quorum", "c.engine.Quorum", "TestYieldOfAClient",
	},
	{
		"line that never yields", "internal/protocol/script/lua/release.lua",
		"if n < FAR + every then", "if true then", "TestYieldLetsOthersIn",
	},
	{
		"waiter that is not told when the line goes on", "internal/protocol/script/lua/line.lua",
		"if yielding and moved and behind then", "if false then", "TestYieldEnds",
	},
	{
		"newcomer that takes a lock that is left free for one of another kind", "internal/protocol/script/lua/acquire.lua",
		" and kind ~= YIELD then", " then", "TestYieldWithNobodyLeft",
	},
	{
		"counter of another library that expires", "internal/protocol/script/lua/token.lua",
		"'KEEPTTL'", "'EX', 1000", "TestTokensOfFencedLock",
	},
	{
		"forced release that nothing remembers", "internal/protocol/script/lua/forced.lua",
		"'last', owner, 'of ' .. owner, note)", "'last', '', 'of ', note)", "TestForcedLossTellsByWhom",
	},
	{
		"note of a forced release that stays for ever", "internal/protocol/script/lua/forced.lua",
		"if there == 0 then redis.call('PEXPIRE', FORCED, ms) end", "", "TestForcedLossTellsByWhom",
	},
	{
		"notes of forced releases without a bound", "internal/protocol/script/lua/forced.lua",
		"if redis.call('HLEN', FORCED) > 128 then", "if false then", "TestForceNotesAreBounded",
	},
	{
		"forced release that names no owner to its holder", "internal/protocol/script/lua/renew.lua",
		"redis.call('HGET', FORCED, 'of ' .. ARGV[1]) or ''", "''", "TestForcedLossTellsByWhom|TestForceReleaseOfAllTellsEach",
	},
	{
		"release of a lost lease that does not ask why", "internal/engine/lease/release.go",
		"gone = l.askGone(ctx)", "_ = l.askGone(ctx)", "TestForcedLossIsToldAtTheRelease",
	},
	{
		"lease that was deleted and counts as forgotten", "internal/engine/lease/loss.go",
		"	case gone.Fenced:", "	case !gone.Fenced:", "TestLossThatRedisTellsOfEveryKind",
	},
	{
		"context of a released lease that does not say so", "internal/engine/lease/release.go",
		"	l.cancel(l.err)\n	l.pending", "	l.cancel(nil)\n	l.pending", "TestCausesTell",
	},
	{
		"taken mutex that names nobody", "internal/protocol/script/lua/mutex.lua",
		"return met or ''", "return ''", "TestTakenNamesTheHolder",
	},
	{
		"waiter that names the holder of long ago", "internal/engine/line/poll.go",
		"	p.inside = lock.OccupantAt(stand.Occupant, stand.Remaining, ln.Now())\n", "	_ = lock.Occupant{}\n", "TestTakenNamesTheHolderOfNow",
	},
	{
		"slot at rest that is told as held", "internal/protocol/script/lua/zset.lua",
		"rest and free - rest <= millis() and met .. '\\tshut' or met", "met", "TestTakenWhileClosed",
	},
	{
		"goroutine that is not told that its own process holds the mutex", "internal/engine/lease/pass.go",
		"	g.MarkHolder(&l.owner)\n", "", "TestTakenNamesTheHolder",
	},
	{
		"outage that no waiter is told of", "internal/engine/line/waiters.go",
		"	if changed && p.news != nil {", "	if false && changed {", "TestWaiterTellsAnOutage",
	},
	{
		"quorum that is unreachable after one round", "internal/engine/acquire/contest.go",
		"now.Since(*h.outage) >= a.by.Timeout", "true", "TestQuorumWaiterTellsAnOutage",
	},
	{
		"lease that is never found to be forgotten", "client.go",
		"		runtime.AddCleanup(lent, (*lease.Lease).TellForgotten, l)\n", "", "TestForgottenLeaseIsTold",
	},
	{
		"lease that tells at each extend that it outlives its context", "internal/engine/lease/stray.go",
		"	if l.outlived == 2 {\n", "	if false {\n", "TestLeaseThatOutlivesItsContext",
	},
	{
		"Close that does not tell what it leaves", "client.go",
		"	if len(left.Leases) > 0 {", "	if false {", "TestForgottenLeaseIsTold",
	},
	{
		"cycle in which a holder is outside", "internal/engine/survey/deadlocks.go",
		"if h.Foreign || h.Resting || h.Dead || !inside[h.Owner] {", "if h.Foreign || h.Resting || h.Dead {",
		"TestDeadlockThatIsNone|TestLockOfWhatOthersShare",
	},
	{
		"cycle of processes that is not told", "internal/engine/survey/deadlocks.go",
		"in.Holds = w.Holds", "in.Holds = nil", "TestDeadlockBetweenProcesses",
	},
	{
		"waiter behind another that is in no cycle", "internal/engine/survey/deadlocks.go",
		"here = here || in.Client == w.Client", "", "TestDeadlockWithAWaiterBehindAnother",
	},
	{
		"cycle of goroutines that waits for ever", "internal/engine/waitgraph/graph.go",
		"	cycle := g.add(id, &wait{on, holds})\n", "	cycle := g.add(id, &wait{on, nil})\n", "TestLockInACycleOfGoroutines",
	},
	{
		"lease that is over and keeps others waiting", "internal/engine/waitgraph/graph.go",
		" && h.SeemsHeld() })", " })", "TestEnterTellsCycles",
	},
	{
		"names that a MultiMutex has and does not tell", "internal/engine/acquire/several.go",
		"		a.beside = *leases\n", "", "TestLockOfSeveralInACycle",
	},
	{
		"labels that stay when the lease is over", "internal/engine/lease/keeper.go",
		"	k.Ended(l.owner)\n", "", "TestLabelsOfHoldersAndWaiters",
	},
	{
		"callers that stay noted when the wait is over", "internal/engine/line/waiters.go",
		"		ln.Notes.Drop(w.owner)\n", "", "TestCallersOfAWaiter",
	},
	{
		"callers that are noted once", "internal/engine/line/grants.go",
		"if n != max(w.callers, 1) &&", "if w.callers == 0 && n > 1 &&", "TestCallersOfAWaiter",
	},
	{
		"labels that are not refused", "latch.go",
		"w.Labels, err = set.labels, set.invalid", "w.Labels = set.labels", "TestLabelsThatAreRefused",
	},
	{
		"journal without an end", "internal/protocol/script/lua/journal.lua",
		"'MAXLEN', '~', ARGV[1], ", "", "TestJournalIsBounded",
	},
	{
		"journal that never expires", "internal/protocol/script/lua/journal.lua",
		"redis.pcall('PEXPIRE', KEYS[1], ARGV[2])", "1", "TestJournalTellsWhatHappened",
	},
	{
		"entry that each node tells", "internal/record/journal/read.go",
		"if !ok || r.seen[e.ID] {", "if !ok {", "TestJournalOfAQuorum",
	},
	{
		"trouble that is told again and again", "internal/record/journal/journal.go",
		"first = err != nil && j.pause == 0", "first = err != nil", "TestJournalWithoutTheRight",
	},
	{
		"entry in line whose owner is inside, and that waits", "internal/protocol/script/lua/await.lua",
		"if rank then token, detail = join(owner, tonumber(ttl), param) end", "", "TestEntryInLineWhoseOwnerComesIn",
	},
	{
		"lease of a slot that outlives a panic", "slotpool.go",
		"	defer func() { err = fault.Join(err, s.Release(ctx)) }()\n	return f(s.Context(), s)\n",
		"	err = f(s.Context(), s)\n	return fault.Join(err, s.Release(ctx))\n", "TestTryDoReleasesAfterAPanic",
	},
	{
		"try to run that runs without the lock", "rwmutex.go",
		"	lease, err := m.TryRLock(ctx)\n	if err != nil {\n		return err\n	}\n	return lease.runHeld(ctx, f)\n",
		"	lease, err := m.TryRLock(ctx)\n	if err != nil {\n		_ = f(ctx, nil)\n		return err\n	}\n	return lease.runHeld(ctx, f)\n",
		"TestTryDoReadsBesideReaders",
	},
	{
		"lease that is noted as old again and again", "internal/engine/recorder.go",
		"	if lasts {\n		r.aged[id] = true\n	} else {", "	if !lasts {", "TestJournalTellsWhatHappened",
	},
	{
		"attempts on several names that have no end", "internal/engine/acquire/several.go",
		"	defer func() { tellAllFailed(attempts, err) }()\n", "", "TestMultiTellsEveryName",
	},
	{
		"attempt on several names that is told twice", "internal/engine/acquire/tell.go",
		"	if a.begun {\n		return\n	}\n", "", "TestMultiTellsEveryName",
	},
	{
		"attempt that fails after it was granted", "internal/engine/acquire/tell.go",
		"if !a.begun || a.ended {", "if !a.begun {", "TestMultiTellsEveryName|TestHookThatPanicsIsToldTheEnd",
	},
	{
		"release that is told each time", "internal/engine/lease/release.go",
		"	if was == ended { //", "	if false { //", "TestReleaseIsToldOnce",
	},
	{
		"lease whose grant the hook did not survive, and that has no end", "internal/engine/acquire/grant.go",
		"	if a.ended { //", "	if false { //", "TestHookThatPanicsIsToldTheEnd",
	},
	{
		"attempt that the hook did not survive, and that has no end", "internal/engine/acquire/acquirer.go",
		"	defer func() { a.tellFailed(err) }()\n", "	defer func() {\n		if err != nil {\n			a.tellFailed(err)\n		}\n	}()\n",
		"TestHookThatPanicsIsToldTheEnd",
	},
	{
		"Close that stops at a hook that panics", "internal/engine/lease/loss.go",
		"		defer l.Lose", "		l.Lose", "TestHookThatPanicsWhenTheClientIsClosed",
	},
	{
		"hook that is not called after one that panics", "event.go",
		"		defer callAll(ctx, hooks[1:], e)\n		hooks[0](ctx, e)\n", "		hooks[0](ctx, e)\n		callAll(ctx, hooks[1:], e)\n",
		"TestHookThatPanicsIsToldTheEnd",
	},
	{
		"request that is sent again and does not say so", "internal/link/ask/ask.go",
		"call.Resent = n > 0", "call.Resent = false", "TestMetricsOfBothModulesAreTheSame",
	},
	{
		"extend that does not tell the age of its lease", "internal/engine/lease/lease.go",
		"e.What == lock.Extended || ", "", "TestMetricsOfBothModulesAreTheSame",
	},
	{
		"quorum whose connections are not wrapped", "open.go",
		"wrapped[i] = o.wrap(nodes[i])", "wrapped[i] = nodes[i]", "TestWrapConn",
	},
	{
		"event without the mode of its lease", "internal/engine/lock/lock.go",
		"return \"write\"", "return \"read\"", "TestEventsOfADowngrade",
	},
	{
		"adopted lease that stays the old owner's", "internal/protocol/script/lua/adopt.lua",
		"rename(owner, successor)", "rename(owner, owner)", "TestAdoptEveryKind",
	},
	{
		"adoption that is asked for again and finds itself", "internal/protocol/script/lua/adopt.lua",
		"elseif not extend(successor, ttl) then", "else", "TestAdoptWhoseRequestIsLost",
	},
	{
		"node that gave another slot and counts for an adoption", "internal/protocol/script/lua/adopt.lua",
		"return agrees(successor, ARGV[4]) and 1 or 0", "return 1", "TestQuorumAdoptAnotherSlot",
	},
	{
		"adopted writer that readers do not see", "internal/protocol/script/lua/rwmutex.lua",
		"if writer == owner then change_mark(kind, writer, successor) end", "", "TestAdoptRWMutex",
	},
	{
		"adopted run that is undone as if it had not begun", "internal/engine/lock/undo.go",
		"owner, \"\", true, u.Sharded()), 0", "owner, \"\", false, u.Sharded()), 0", "TestAdoptThatFailsKeepsTheWindow",
	},
	{
		"adopted run that is given back as if it had not begun", "internal/engine/acquire/grant.go",
		"case g.Adopted:", "case false:", "TestAdoptThatFailsKeepsTheWindow",
	},
	{
		"adopted lease whose deadline counts from the reply", "internal/engine/acquire/adopt.go",
		"Sent: answer.Sent", "Sent: a.by.Now()", "TestAdoptWhoseReplyIsLate",
	},
	{
		"detached lease that is cleaned up", "internal/engine/lease/lease.go",
		"l.state == released || l.state == lost ||", "l.state > ended ||", "TestQuorumDetachedLeaseIsNotCleanedUp",
	},
	{
		"text whose argument is none of the kind, and is read", "internal/engine/lock/text.go",
		"case !params[t.Kind].MatchString(t.Param):", "case false:", "TestAdoptTextWithAnotherParam",
	},
	{
		"lease that is detached unextended", "internal/engine/lease/detach.go",
		"if err := l.Extend(ctx); err != nil {", "if err := l.Err(); err != nil {", "TestDetachWithoutAnAnswer",
	},
	{
		"detached lease whose group waits for it", "internal/engine/lease/detach.go",
		"	l.cancel(l.err)\n	l.detachLocked()\n", "	l.cancel(l.err)\n", "TestAdoptBesideWaitersOfTheSameClient",
	},
	{
		"text that was changed and is read", "internal/engine/lock/text.go",
		" || t.String() != text", "", "TestAdoptNoText",
	},
	{
		"releases that leave together and open what they should shut", "internal/protocol/script/bundle.go",
		" && len(call.Args) <= b.ticket+2", "", "TestManyReleasesLeaveTheirNamesShut",
	},
	{
		"lease that is passed on before its minimal hold is over", "latch.go",
		" && l.MinHold == 0", "", "TestEveryKindOpensInTime",
	},
	{
		"name that is given back and shut", "internal/engine/acquire/several.go",
		"		l.MarkUnused()\n", "		_ = l\n", "TestGivenBackIsNotShut",
	},
	{
		"waiter that is not told when what is shut will open", "internal/protocol/script/lua/release.lua",
		"grant('', gone or yields or ms > 0)", "grant('', gone or yields)", "TestEveryKindOpensInTime",
	},
	{
		"release in the background that opens what it should shut", "internal/engine/lease/lease.go",
		"		l.keeper.Cleanup.Add(node, l.releasing(l.ticket), after",
		"		l.keeper.Cleanup.Add(node, l.lock.Release(l.owner, l.ticket, false, false), after", "TestEveryKindLostReleasesLeaveItShut",
	},
	{
		"leader that resigned and seems to lead", "election.go",
		" || p.Holders[0].Resting", "", "TestOfficeThatIsShut",
	},
	{
		"force that cannot open what is shut", "internal/protocol/script/lua/force.lua",
		" and not open(ARGV[2])", "", "TestEveryKindReleasedTooEarly",
	},
	{
		"resend that is refused the place which its request took", "internal/protocol/script/lua/acquire.lua",
		" and not redis.call('ZSCORE', QUEUE, ticket)", "", "TestLostReplyToTheLastPlace",
	},
	{
		"line that is full of the dead", "internal/protocol/script/lua/acquire.lua",
		"if alive_for(other, address) > 0 then found", "if true then found", "TestEveryKindFullOfTheDead",
	},
	{
		"place in line that is restored only if there is room", "internal/engine/line/grants.go",
		"address, arrival, 0)", "address, arrival, 1)", "TestRestoredLineMayBeFull",
	},
	{
		"goroutines that share a place in a bounded line", "latch.go",
		"		l.options.MaxWaiters == 0 && ", "		", "TestEveryKindFullLine",
	},
	{
		"newcomer that is refused and undoes nothing all the same", "internal/engine/acquire/server.go",
		"(errors.Is(err, fault.ErrLineFull) || retry", "(retry", "TestFullLineSendsNothingElse",
	},
	{
		"forced release that seems to be an accident", "internal/engine/lease/lease.go",
		"l.forced, l.doubted = true, l.pending", "l.doubted = l.pending", "TestForcedLossWithAnUnreadableNote",
	},
	{
		"release that ends at a full disk", "internal/link/ask/ask.go",
		"!(script.Releases(call) && retry.RefusesWrites(result.Err))", "true", "TestReleaseWhileWritesAreRefused",
	},
	{
		"late copy of a request that is not looked for", "internal/link/cleanup/queue.go",
		"		return !r.copies\n", "		return true\n", "TestLostRequests",
	},
	{
		"vote that arrives after the release", "internal/engine/lease/votes.go",
		"if missed || l.state == lost {", "if l.state == lost {", "TestQuorumVoteAfterTheRelease",
	},
	{
		"vote that is heard of before the release that it came after", "internal/engine/lease/votes.go",
		"if votes.Miss(node) {", "if votes.Miss(node) && false {", "TestQuorumVoteCrossesTheRelease",
	},
	{
		"vote for another slot that arrives after the release", "internal/engine/ballot/round.go",
		" || slices.Contains(t.replaced, true)", "", "TestQuorumVoteForAnotherSlot",
	},
	{
		"own late request that seems to be another holder", "internal/engine/ballot/contest.go",
		"SlotPool.Name, past)", "SlotPool.Name, nil)", "TestQuorumLostRequestsOfAJob",
	},
	{
		"run that is released as if it had not begun", "internal/engine/lease/needs.go",
		"on.Release(owner, ticket, true,", "on.Release(owner, ticket, false,", "TestJobThatIsLostKeepsItsWindow",
	},
	{
		"release that is not tried again", "internal/engine/lease/release.go",
		" || err != nil && !l.keeper.Quorum {", " {", "TestReleaseIsTriedUntilItIsKnown",
	},
	{
		"loss after which a late request brings the lock back", "internal/engine/lease/lease.go",
		"Told():\n		l.undoLocked(0)\n", "Told():\n", "TestStragglerAfterALoss",
	},
	{
		"go-redis that goes on asking a dead master", "redlatchgoredis/goredis.go",
		"c.cluster.ReloadState(context.Background())", "_ = context.Background()", "TestClusterMasterIsKilledOverGoRedis",
	},
	{
		"extend that is waited for until its lease is over", "internal/link/ask/ask.go",
		"limit > left/2 && limit", "limit < 0 && limit", "TestLostReplyOfAShortLease",
	},
	{
		"extend of the program that is waited for until its lease is over", "internal/link/ask/ask.go",
		"if !ok || !script.Renews(call) {", "if !ok || script.Renews(call) {", "TestLostReplyToTheProgramsExtend",
	},
	{
		"connection that died in silence and is kept", "redlatchrueidis/silence.go",
		"asked != 0 && now-asked >= s.limit", "asked < 0 && now-asked >= s.limit", "TestSilentConnection",
	},
	{
		"connections given up one after the other", "redlatchrueidis/silence.go",
		"now-last >= s.pause", "now-last >= 0*s.pause", "TestFrozenServerSeesNoStorm",
	},
	{
		"subscription that is checked late", "internal/link/dial/dial.go",
		"min(max(o.Timeout/2, time.Second), 3*time.Second)", "6 * time.Second", "TestSilentSubscriptionIsReplaced",
	},
	{
		"heartbeat from another address than the ticket's", "internal/engine/line/poll.go",
		"return batch[0].address, tickets", "return ln.Subscription(batch[0].lock).Address(), tickets", "TestTicketsOfTwoAddresses",
	},
	{
		"word of a forced release that a lease without a watchdog ignores", "internal/engine/lease/lease.go",
		"	case !l.renews():\n		return []lock.Event", "	case false:\n		return []lock.Event", "TestForceReleaseTellsTheHolder",
	},
	{
		"term that is taken for lost since another lock was", "election.go",
		"errors.As(term.Err(), new(*LostError))", "errors.As(err, new(*LostError))", "TestElectionRunReturnsTheErrorOfTheWork",
	},
	{
		"term that was lost whose result is returned as the context ends", "election.go",
		"if !errors.As(term.Err()", "if ctx.Err() != nil || !errors.As(term.Err()", "TestElectionRunIsEndedAsItsTermIsLost",
	},
	{
		"campaigns in a hot loop", "election.go",
		"retry.Sleep(ctx, retry.Pause(short))", "retry.Sleep(ctx, 0*retry.Pause(short))", "TestElectionRunDoesNotSpin",
	},
	{
		"grant that was given back and is called taken", "internal/engine/acquire/server.go",
		"a.answered, a.occupant = a.answered || !s.Inside,", "a.answered, a.occupant = true,", "TestGrantThatIsGivenBackIsNotTaken",
	},
	{
		"ticket of one who gave up that is forgotten in an outage", "internal/engine/lock/undo.go",
		"	if ticket != \"\" {\n", "	if false {\n", "TestTicketsGivenUpInAnOutage",
	},
	{
		"ticket whose release was refused, and forgotten", "internal/link/cleanup/queue.go",
		"return retry.WrongType(result.Err)", "return !retry.Transient(result.Err)",
		"TestTicketGivenUpWhileWritesAreRefused",
	},
	{
		"second look that does not wait", "internal/link/cleanup/queue.go",
		"due := all || !r.next.After(now)", "due := all || !r.next.After(now.Add(time.Hour))", "TestStragglerAmongOthersWhoGiveUp",
	},
	{
		"silent node of a cluster that holds up the releases of all", "internal/link/cleanup/queue.go",
		"find != nil {", "false && find != nil {", "TestStoppedMasterHoldsUpNoReleases",
	},
	{
		"undoing a request without its ticket", "internal/engine/lease/lease.go",
		"l.ticket = g.Ticket", "l.ticket = \"\"", "TestStragglerWithATicket",
	},
	{
		"grant that a panic leaves behind", "internal/engine/acquire/grant.go",
		"		if got == nil {\n", "		if got == nil && err != nil {\n", "TestHookPanicsAtGrant",
	},
	{
		"waiter that a panic leaves behind", "internal/engine/acquire/server.go",
		"if !told {", "if !told && false {", "TestHookPanicsAtWait",
	},
	{
		"slot that counts for another", "internal/protocol/script/lua/confirm.lua",
		" and agrees(ARGV[1], ARGV[3])", "", "TestQuorumCountsOneSlot",
	},
	{
		"grants of a cluster that go to all its nodes", "internal/protocol/script/lua/line.lua",
		"  if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end\n", "", "TestGrantsStayOnTheirShard",
	},
	{
		"deadline of a quorum counted from the last reply", "internal/engine/acquire/contest.go",
		"Sent: sent", "Sent: a.by.Now()", "TestQuorumDeadline",
	},
	{
		"token of a quorum that is not written back", "internal/engine/ballot/contest.go",
		"t.Won() && !agreed {", "false && !agreed {", "TestQuorumWritesTheTokenBack",
	},
	{
		"token that is written back where somebody else is inside", "internal/protocol/script/lua/raise.lua",
		"if not (extend(ARGV[2], tonumber(ARGV[3])) and agrees(ARGV[2], ARGV[5])) then return 0 end\n", "", "TestRaiseForAnother",
	},
	{
		"node that votes whatever it forgot", "internal/protocol/script/lua/quorum_token.lua",
		"return epoch[1] == process(), ", "return true, ", "TestQuorumForgetfulNode",
	},
	{
		"mutex of a node that votes whatever it forgot", "internal/protocol/script/lua/mutex_vote.lua",
		"if right and redis.call('SET'", "if redis.call('SET'", "TestQuorumForgetfulNode|TestQuorumStaleNode",
	},
	{
		"right to vote that outlives the process", "internal/protocol/script/lua/quorum_token.lua",
		"return epoch[1] == process(), ", "return epoch[1] ~= false, ", "TestQuorumStaleNode",
	},
	{
		"node that votes without a rest", "internal/link/quorum/epochs.go",
		"	return bound\n}\n\n// boundBy", "	return 0\n}\n\n// boundBy", "TestQuorumForgetfulNode$",
	},
	{
		"node that counts on from nothing", "internal/link/quorum/epochs.go",
		"isNew), number, bound)", "isNew), number-number, bound)", "TestQuorumFloor",
	},
	{
		"rest of a node that is never too short", "internal/protocol/script/lua/epoch.lua",
		"begun + ARGV[3] > math.max(ms, rest)", "false", "TestQuorumForgetfulNodeAndASilentOne",
	},
	{
		"rest of a node of a new quorum", "internal/protocol/script/lua/epoch.lua",
		"rest > begun and ", "", "TestQuorumWhoseFounderIsNotDone",
	},
	{
		"rest of a node by what was known when it began", "internal/link/quorum/epochs.go",
		"bound := right.boundBy(nodes)", "bound := right.Bound", "TestQuorumForgetfulNodeAndASilentOne",
	},
	{
		"majority of two in five", "internal/link/quorum/conn.go",
		"return len(q.nodes)/2 + 1", "return len(q.nodes) / 2", "TestQuorumMajorityIsKilled",
	},
	{
		"leases that nodes are not told of again", "internal/engine/lease/watchdog.go",
		"func(node, i int) { leases[i].mend(node) }", "func(int, int) {}", "TestQuorumRollingRestart",
	},
	{
		"votes that are not given back", "internal/engine/acquire/contest.go",
		"		c.leave(l, owner, &t)\n", "", "TestQuorumManyContenders",
	},
	{
		"refusals by half of the nodes that are taken for those of a majority", "internal/engine/ballot/tally.go",
		" && t.number(Vote.voted) >= t.Majority", "", "TestQuorumHeld",
	},
	{
		"nodes that count as silent though nobody waited for them", "internal/engine/ballot/contest.go",
		"	case <-ctx.Done():\n		t.stop()\n",
		"	case <-ctx.Done():\n		t.stop()\n		t.silence(patience)\n",
		"TestQuorumWaitEndsInARound",
	},
	{
		"round that was cut short and tells more than the one before", "internal/engine/acquire/contest.go",
		"if h.votes == nil || found != ballot.CutShort {", "if true {", "TestQuorumWaitEndsInARound",
	},
	{
		"turn at the right to vote that is waited for whatever the context", "internal/link/quorum/epochs.go",
		"		t.leave()\n	case <-ctx.Done():", "		t.leave()\n	case <-context.Background().Done():",
		"TestQuorumSeatHeedsTheContext",
	},
	{
		"reader under a writer whose client may keep the lock", "rwmutex.go",
		"	if how == \"r\" {", "	if false {", "TestReaderUnderAWriterThatMayBeKept",
	},
	{
		"writer that became a reader and whose client may keep the lock", "rwmutex.go",
		"	if err := m.keepNoMore(ctx, write.core.Owner()); err != nil {", "	if err := error(nil); err != nil {", "TestReaderUnderAWriterThatMayBeKept",
	},
	{
		"context of a writer that is done, and counts as that of the next", "latch.go",
		"		if l.Kind == script.RWMutex && !v.Held() {", "		if false {", "TestContextOfAWriterThatIsDone",
	},
	{
		"lease that got another owner and is not detached in that step", "internal/engine/lease/detach.go",
		"		events, done = append(events, l.detaching(to)), true\n", "", "TestReleaseDuringRename",
	},
	{
		"late request for several names that shortens them", "internal/protocol/script/lua/multi.lua",
		"  elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then", "  else", "TestLateCopyOfSeveral",
	},
	{
		"detached entry with the token of one whose owner was out", "internal/engine/lease/detach.go",
		"return heir{owner, standing.Token}, nil", "return heir{owner, 0}, nil", "TestDetachOfAnEntryThatWasTaken",
	},
	{
		"message of a force before the lease begins", "internal/engine/lease/keeper.go",
		"	return k.early.Has(l.owner)", "	return false", "TestForcedBeforeTheLeaseBegins",
	},
	{
		"lock that is kept though it was taken by force while it was released", "internal/engine/lease/linger.go",
		", k.early.Has(l.owner):", ":", "TestForcedWhileItIsReleased",
	},
	{
		"entry that is not looked at because its lead is overdue", "internal/engine/lease/watchdog.go",
		"	if l.state <= inJeopardy {\n		l = l.leading()\n	}\n", "", "TestRecheckBehindAnOverdueLead",
	},
	{
		"extend that shortens an inner entry", "internal/engine/lease/extend.go",
		", lead.leftInRedis(), l.leftInRedis())", ", lead.leftInRedis())", "TestExtendShortensNoInnerEntry",
	},
	{
		"detached entry that is shorter than it was", "internal/engine/lease/detach.go",
		"ttl := max(l.lock.TTL, l.leftInRedis())", "ttl := l.lock.TTL", "TestDetachedEntryKeepsItsLength",
	},
	{
		"follower whose earlier end no schedule has", "internal/engine/lease/nest.go",
		"		if m.validity()-now.Since(m.sentAt) < l.validity()-now.Since(l.sentAt) {", "		if false {", "TestFollowerWithTheShorterTime",
	},
	{
		"long lease that nothing knows of without an answer", "internal/engine/lease/lease.go",
		"max(l.ttl, l.longest) > l.lock.TTL", "l.ttl > l.lock.TTL", "TestLongLeaseIsNotKept|TestLongExtendWithoutAnAnswer",
	},
	{
		"long lease that Redis forgot and that is released for hours", "internal/engine/lease/lease.go",
		"(reason.Told() || !l.long() && !unanswered)", "(!l.long() && !unanswered)", "TestLongExtendThatRedisForgot",
	},
	{
		"look at a lease by an extend that has begun", "internal/engine/lease/extend.go",
		"	ttl := l.lengthen(d)\n", "	left, ttl := l.Remaining(), l.lengthen(d)\n", "TestHookPanicsInExtend",
	},
	{
		"wish of a lead that has left", "internal/engine/lease/wanted.go",
		"		l = l.leading() // another may by now\n", "", "TestWishOfALeadThatLeaves",
	},
	{
		"wishes that go with an empty line", "internal/protocol/script/lua/tickets.lua",
		"redis.call('ZREMRANGEBYSCORE', CLIENTS, '(0', '+inf')", "redis.call('DEL', CLIENTS)", "TestReleaseLeavesWishesAlone",
	},
	{
		"hook that holds up messages when a kept lock is given back", "internal/engine/lease/linger.go",
		"		k.apart(l.giveBack)\n", "		l.giveBack()\n", "TestUnkeptHoldsUpNoMessages",
	},
	{
		"Close that misses a follower", "internal/engine/lease/keeper.go",
		"			for _, m := range l.nest.leases { // which l may have left by now\n", "			for _, m := range l.others() {\n", "TestCloseMissesNoFollower",
	},
	{
		"lease that is noted as old after its end", "internal/engine/recorder.go",
		"	if lasts && r.ended.Has(key) {", "	if false {", "TestLongHeldIsNotedOnce",
	},
	{
		"waiter of a quorum that tries when the first node has room", "internal/engine/ballot/waiters.go",
		"if told += n; told >= majority {", "if told += n; told > 0 {", "TestWaiterTriesWhenAMajorityHasRoom",
	},
	{
		"ticket that is withdrawn before the nodes have answered", "internal/engine/ballot/places.go",
		"	if !hasLatch || p.open == 0 {", "	if true {", "TestTicketsAreWithdrawnWhereTheyMayBe",
	},
	{
		"ticket that is left where a node answered late", "internal/engine/ballot/places.go",
		"				at.hear(t.Votes[node].Stand(), number == p.last)\n", "				_ = number\n", "TestTicketsAreWithdrawnWhereTheyMayBe",
	},
	{
		"printed name that is another once it is typed", "internal/fleet/command.go",
		"	if hides(arg) {", "	if false {", "TestShellWord",
	},
	{
		"quorum that is heard for ever", "internal/link/quorum/subscribe.go",
		"		e.end(errDeaf)\n", "		_ = e.end\n", "TestQuorumGrantWhileDeaf",
	},
	{
		"waiters of a quorum who do not look when the subscription is lost", "internal/engine/engine.go",
		"	e.tries.WakeAll()\n", "", "TestQuorumGrantWhileDeaf",
	},
	{
		"waiters of a quorum who are not told", "internal/protocol/script/lua/quorum_line.lua",
		"  redis.pcall('PUBLISH', address, 'free\\t' .. waiter)\n", "", "TestQuorumManyContenders",
	},
	{
		"slot that is extended while it rests", "internal/protocol/script/lua/zset.lua",
		"or free - rest <= millis()", "or free <= millis()", "TestSlots",
	},
	{
		"size that is forgotten while somebody waits", "internal/protocol/script/lua/zset.lua",
		"math.max(last - millis(), redis.call('PTTL', QUEUE))", "last - millis()", "TestResizeOutlivesTheLastHolder",
	},
	{
		"mark that outlives the last holder", "internal/protocol/script/lua/zset.lua",
		"elseif redis.call('PTTL', K) > ms then", "elseif false then", "TestEveryKindEndsWithItsLastPlace",
	},
	{
		"mark that outlives a lease which was shortened", "internal/protocol/script/lua/zset.lua",
		"  if ttl < left then shorten() end\n", "", "TestEveryKindEndsWithItsLastPlace",
	},
	{
		"reentrant mutex that outlives its last entry", "internal/protocol/script/lua/reentrant.lua",
		"    shorten(left, last)\n  end\n  return n\n", "  end\n  return n\n", "TestReentrantEndsWithItsLastEntry",
	},
	{
		"reentrant mutex that outlives an entry which was shortened", "internal/protocol/script/lua/reentrant.lua",
		"  if exactly and ttl < left then\n", "  if false then\n", "TestReentrantEndsWithItsLastEntry",
	},
	{
		"reentrant mutex that ends before its longest entry", "internal/protocol/script/lua/reentrant.lua",
		"n + 1, math.max(last, left)", "n + 1, left", "TestReentrantKeepsItsLongestEntry",
	},
	{
		"size that the dead have left", "internal/protocol/script/lua/acquire.lua",
		"local function last()\n", "if detail then return {-1, detail} end\nlocal function last()\n", "TestSizeThatOnlyTheDeadKnow",
	},
	{
		"place in line for another size", "internal/protocol/script/lua/acquire.lua",
		"if detail then return {-1, detail} end -- the reason\n", "", "TestSizeThatIsOfOneInLine",
	},
	{
		"size that the dead have left at a node", "internal/protocol/script/lua/vote.lua",
		"  if not first and not unfinished then tidy() end\n", "", "TestQuorumSizeThatOnlyTheDeadKnow",
	},
	{
		"one reader at a time out of the line", "internal/protocol/script/lua/rwmutex.lua",
		"how, how == 'r'\nend\nadmit", "how, false\nend\nadmit", "TestReadersAreLetInTogether",
	},
	{
		"readers beside a writer", "internal/protocol/script/lua/rwmutex.lua",
		"if inside > 0 and (how == 'w' or writer ~= '') then", "if inside > 0 and how == 'w' then", "TestTryDoReadsBesideReaders",
	},
	{
		"writer that is dead and stays", "internal/protocol/script/lua/rwmutex.lua",
		"    change_mark(kind, writer, '')\n    writer = ''\n", "", "TestReaderThatOutlivesItsWriter",
	},
	{
		"slot that stays taken after a release", "internal/protocol/script/lua/slotpool.lua",
		"  clear(slot)\n  drop(owner)", "  drop(owner)", "TestSlots",
	},
	{
		"slot whose number is told after the loss", "slotpool.go",
		"\tif err := s.Err(); err != nil {\n\t\treturn 0, err\n\t}\n\treturn s.id, nil", "\treturn s.id, nil", "TestSlots",
	},
	{
		"job that keeps its window shut though its run never began", "internal/protocol/script/lua/job.lua",
		"if begun == '1' and", "if", "TestContextEndsBeforeTheReply",
	},
	{
		"window of a run that died", "internal/protocol/script/lua/job.lua",
		"  close(ends)\n  return", "  return", "TestJobOfAProcessThatDied",
	},
	{
		"re-entry that shortens the lease", "internal/protocol/script/lua/reentrant.lua",
		"local ms = math.max(ttl, redis.call('PTTL', K))", "local ms = ttl", "TestReentryTakesTheLaterEnd",
	},
	{
		"re-entry that waits for itself", "internal/protocol/script/lua/acquire.lua",
		"if not detail then token, detail = join(owner, ttl, param) end\n", "", "TestOwnersInsideGoPastTheLine",
	},
	{
		"several names of which one is taken", "internal/protocol/script/lua/multi.lua",
		"if held and held ~= owner or not held and", "if not held and", "TestMultiOfWhichOneIsTaken",
	},
	{
		"several names in any order", "multimutex.go",
		"\tslices.Sort(m.names)\n", "", "TestMultiTakesOneRequest|TestMultiDoesNotDeadlock",
	},
	{
		"acquisition that no replica acknowledged", "internal/engine/acquire/grant.go",
		"case acks < n:", "case acks < 0:", "TestAcquisitionWaitsForReplicas",
	},
	{
		"release without looking at the owner", "internal/protocol/script/lua/mutex.lua",
		"if redis.call('GET', K) ~= owner then return false end\n  redis.call('DEL', K)", "redis.call('DEL', K)",
		"TestExtendOfAnothersLock",
	},
	{
		"extend without looking at the owner", "internal/protocol/script/lua/mutex.lua",
		"if met ~= owner then return false end\n  if exactly or",
		"if not met then return false end\n  if exactly or",
		"TestExtendOfAnothersLock",
	},
	{
		"extend that creates", "internal/protocol/script/lua/renew.lua",
		"if extend(ARGV[1], tonumber(ARGV[2]), ARGV[3]) then return 1 end",
		"if extend(ARGV[1], tonumber(ARGV[2]), ARGV[3]) or redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end",
		"TestExtendNeverCreates|TestStragglingRenewalIsNothing",
	},
	{
		"tokens that are counted", "internal/protocol/script/lua/token.lua",
		"local function mint(n)\n", "local function mint(n)\n  do return redis.call('INCR', FENCE) end\n",
		"TestTokensOfAnotherKindGrowOverEverything",
	},
	{
		"tokens by the clock alone", "internal/protocol/script/lua/token.lua",
		"if last and last >= time then", "if false then",
		"TestTokensOfAnotherKindGrowOverEverything",
	},
	{
		"acquisition halfway, for want of a right", "internal/protocol/script/lua/zset.lua",
		"if made then redis.call('DEL', unpack(together)) elseif undo then undo() end", "", "TestOneRightLess",
	},
	{
		"holders that a user may not see are none", "internal/protocol/script/lua/inspect.lua",
		"if reason and", "if false and", "TestOneRightLess",
	},
	{
		"entry halfway, for want of a right", "internal/protocol/script/lua/reentrant.lua",
		"    redis.call('DEL', K, INSIDE)\n    if type", "    if type", "TestOneRightLess",
	},
	{
		"right that a script lacks by another code", "internal/driver/adapter/adapter.go",
		`"executing the script can't run this command"`, `"no text"`, "TestOneRightLess",
	},
	{
		"force-release without a new token", "internal/protocol/script/lua/force.lua",
		"mint()\n", "", "TestForceReleaseMakesTheOldTokenStale",
	},
	{
		"resent acquire that does not find its lock", "internal/protocol/script/lua/acquire.lua",
		"if extend(owner, ttl) then return inside_reply(owner) end\nif not", "if not", "TestLostReplyToTryLockIsAdopted",
	},
	{
		"resent acquire that takes another place", "internal/protocol/script/lua/acquire.lua",
		"redis.call('ZADD', QUEUE, 'NX', arrival, ticket)", "redis.call('ZADD', QUEUE, arrival, ticket)",
		"TestLostReplyToAPlaceInLineIsAdopted",
	},
	{
		"newcomers overtake the line", "internal/protocol/script/lua/acquire.lua",
		"if not tried and redis.call('EXISTS', QUEUE) == 0 then", "if true then", "TestEveryKindNewcomerFindsTheLine",
	},
	{
		"free mutex whose line is overtaken", "internal/protocol/script/lua/mutex_acquire.lua",
		" and redis.call('EXISTS', KEYS[3]) == 0", "", "TestEveryKindNewcomerFindsTheLine",
	},
	{
		"tokens of a free mutex by the clock alone", "internal/protocol/script/lua/mutex_acquire.lua",
		"if last and last >= token then", "if false then", "TestTokensGrowOverEverything",
	},
	{
		"group without its tokens where the mutex is free", "internal/protocol/script/lua/mutex_acquire.lua",
		" and ARGV[4] == ''", "", "TestRelayPassesOn",
	},
	{
		"release of a mutex that is another's", "internal/protocol/script/lua/mutex_release.lua",
		" and redis.call('GET', KEYS[1]) == ARGV[2]", "", "TestExtendOfAnothersLock",
	},
	{
		"release of a mutex that forgets its line", "internal/protocol/script/lua/mutex_release.lua",
		" and redis.call('EXISTS', KEYS[3]) == 0", "", "TestFirstComeFirstServed",
	},
	{
		"release of a mutex before its time", "internal/protocol/script/lua/mutex_release.lua",
		" and not ARGV[5]", "", "TestEveryKindLostReleasesLeaveItShut",
	},
	{
		"last come first served", "internal/protocol/script/lua/tickets.lua",
		"redis.call('ZRANGE', QUEUE, 0, size - 1)", "redis.call('ZREVRANGE', QUEUE, 0, size - 1)", "TestFirstComeFirstServed",
	},
	{
		"grant to a client believed dead", "internal/protocol/script/lua/tickets.lua",
		"ms = tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) - math.floor(now() / 1000)", "ms = 3600000", "TestSuspendedWaiterCostsItsHorizon|TestWaiterBelievedDeadIsPassedOver",
	},
	{
		"grant for longer than the client is believed alive", "internal/protocol/script/lua/line.lua",
		"math.min(tonumber(ttl), ms)", "ttl", "TestSuspendedWaiterCostsItsHorizon",
	},
	{
		"grant that is not heard, where the user may not ask for listeners", "internal/protocol/script/lua/line.lua",
		"if hearers == 0 and", "if false and", "TestKilledWaiterIsSkippedByAUserWhoMayNotAsk",
	},
	{
		"dead waiter that keeps out who fits", "internal/protocol/script/lua/acquire.lua",
		"(ROOMY or ms == -2 or ms == 0 or line_full())", "(ms == -2 or ms == 0)", "TestCrashedWaiterBesideAHolderCostsNothing",
	},
	{
		"free lock that is refused once for the dead in line", "internal/protocol/script/lua/acquire.lua",
		"  if not tail[1] then\n    token", "  if false then\n    token", "TestCrashedWaiterOfAFreeLockCostsNothing",
	},
	{
		"name that the dead in line keep for another kind", "internal/protocol/script/lua/acquire.lua",
		"local ms, tail = remaining(), last()\n",
		"local ms, tail = remaining(), last()\nlocal was = tail[1] and string.match(tail[1], '^%u(%l+)')\n" +
			"if was and was ~= KIND then return {-1, 'kind\\t' .. was} end\n",
		"TestCrashedWaiterOfAnotherKindCostsNothing",
	},
	{
		"dead who seem alive to a tool", "internal/protocol/script/lua/tickets.lua",
		"return reply.err ~= nil or tonumber(reply[2]) > 0", "return true", "TestCrashedWaiterOfAFreeLockCostsNothing",
	},
	{
		"dead of a cluster who seem alive", "internal/protocol/script/lua/tickets.lua",
		"mode == 'S' and 'SHARDNUMSUB' or 'NUMSUB'", "mode == 'S' and 'NUMPATTERNS' or 'NUMSUB'",
		"TestCrashedWaiterInAClusterCostsNothing",
	},
	{
		"second in line that is not told when to ask", "internal/protocol/script/lua/line.lua",
		"  publish(mode, address, 'first\\t' .. ms .. '\\t' .. owner)\n", "", "TestCrashedHolderCostsItsLease",
	},
	{
		"release that drops all the dead at once", "internal/protocol/script/lua/tickets.lua",
		"local BUDGET = 10000", "local BUDGET = 1e9", "TestManyDeadTickets",
	},
	{
		"line that is busy for an hour, and deleted", "internal/protocol/script/lua/acquire.lua",
		"or redis.call('PTTL', QUEUE) < LINGER / 2", "", "TestBusyLineIsKept",
	},
	{
		"clients that are remembered for as long as others wait", "internal/protocol/script/lua/tickets.lua",
		"  redis.call('ZREMRANGEBYSCORE', CLIENTS, '-inf', ms)\n", "", "TestClientsThatLeftAreForgotten",
	},
	{
		"hash of who is inside without a TTL", "internal/protocol/script/lua/zset.lua",
		"local function keep_keys(ms)\n", "local function keep_keys(ms)\n  if redis.call('PTTL', K) >= ms then return end\n",
		"TestEveryKindLeavesNothingForEver",
	},
	{
		"entry that waits for itself when it asks late", "internal/protocol/script/lua/reentrant.lua",
		"or held(entry) then return false, not_a_lock() end", "or redis.call('HEXISTS', INSIDE, entry) == 1 then return false end",
		"TestLateEntryBesideItsOwner",
	},
	{
		"hash of somebody else's that is waited for", "internal/protocol/script/lua/reentrant.lua",
		"return 'kind\\thash'", "return nil", "TestHashThatIsNoLock",
	},
	{
		"extend that a full server refuses", "internal/protocol/script/lua/zset.lua",
		"  keep_keys(ttl + rest)\n  redis.call('ZADD', K, millis() + ttl + rest, owner)\n",
		"  redis.call('ZADD', K, millis() + ttl + rest, owner)\n  keep_keys(ttl + rest)\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"permits that a full server does not take back", "internal/protocol/script/lua/semaphore.lua",
		"some.\n  redis.call('ZREM', K, owner)\n", "some.\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"slots that a full server does not take back", "internal/protocol/script/lua/slotpool.lua",
		"some.\n  redis.call('ZREM', K, owner)\n", "some.\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"heartbeat that a full server refuses", "internal/protocol/script/lua/await.lua",
		"keep_line()\nmark_alive(address, ARGV[3])\n",
		"mark_alive(address, ARGV[3])\nkeep_line()\n", "TestFullServerKeepsWhatIsHeld",
	},
	{
		"job whose end a full server forgets", "internal/protocol/script/lua/job.lua",
		"    redis.call('ZREM', K, owner)\n", "", "TestJobEndsOnAFullServer",
	},
	{
		"release that lets nobody in", "internal/protocol/script/lua/release.lua",
		"if left or gone then grant('', gone or yields or ms > 0) end", "", "TestFirstComeFirstServed",
	},
	{
		"waiters that give up and stay in line", "internal/protocol/script/lua/release.lua",
		"ARGV[3] ~= '' and redis.call('ZREM', QUEUE, ARGV[3]) == 1", "false", "TestCancelledWaitersLeaveNoTrace",
	},
	{
		"tokens that are passed on and not reserved", "internal/protocol/script/lua/token.lua",
		"(n or 1) - 1", "0", "TestRelayPassesOn",
	},
	{
		"mutex that is never given back", "internal/engine/handoff/queue.go",
		"const maxRun = 128", "const maxRun = 1 << 20", "TestRelayGivesBack",
	},
	{
		"run that newcomers join", "internal/engine/lease/pass.go",
		"l.spare = min(l.spare, int16(others))", "l.spare = int16(others) + 1<<10", "TestRelayGivesBack",
	},
	{
		"place in line that is lost with who stood there", "internal/engine/acquire/turns.go",
		"Handoffs.Next(g, a.arrival)", "Handoffs.Next(g, 0)", "TestRelayKeepsItsPlace",
	},
	{
		"outage of one that ran out of time", "internal/engine/acquire/server.go",
		"	if a.group.Reachable() {\n", "	if false {\n", "TestRelayTurnOfOneThatIsOutOfTime",
	},
	{
		"outage of one that ran out of time in a try", "internal/engine/acquire/server.go",
		"return nil, a.outOfTime(ctx, answer.Resent, err)", "return nil, err", "TestRelayTurnOutOfTimeInOneProcess",
	},
	{
		"outage that the next in line forgets", "internal/engine/acquire/server.go",
		"				a.group.MarkSilent()\n", "", "TestRelayTurnOfOneThatIsOutOfTime",
	},
	{
		"outage that is told one after the other", "internal/engine/acquire/turns.go",
		"		return nextAcquires\n	}\n	return dissolveGroup\n",
		"		return nextAcquires\n	}\n	return nextAcquires\n", "TestRelayWithoutRedis",
	},
	{
		"late grant whose first extend would come after its end", "internal/engine/lease/lease.go",
		"(l.validity()-age)/10", "l.validity()/10", "TestLateGrantIsExtendedInTime",
	},
	{
		"lease of which a wait for replicas leaves next to nothing", "internal/engine/acquire/grant.go",
		"if err := a.replicate(ctx, g); err != nil {", "if err := a.replicate(ctx, g); true {", "TestLateReplicasCostNoTime",
	},
	{
		"lease that is extended beyond what replicas have acknowledged", "internal/engine/acquire/grant.go",
		"	g.Sent, g.TTL = sent, a.TTL\n", "	_ = sent\n", "TestPromptReplicasKnowTheDeadline",
	},
	{
		"lease passed on that is not extended in between", "internal/engine/lease/lease.go",
		"	if !g.Passed {\n", "	if true {\n", "TestRelayIsExtendedInTime",
	},
	{
		"word of a forced release that hides the one before", "internal/base/recent/recent.go",
		"s.newer[text] = true", "s.newer = map[string]bool{text: true}", "TestSetRemembersTheLast",
	},
	{
		"forced release that does not tell the client's own lease", "internal/engine/force.go",
		"if victim.Client == e.ID {", "if false {", "TestForceReleaseOfOnesOwn",
	},
	{
		"dead waiter that looks alive", "internal/protocol/script/lua/inspect.lua",
		"alive_for(line[i], '') > 0 and 1 or 0", "1", "TestInspectTells",
	},
	{
		"last heartbeat by the time that the client that looks is believed alive", "internal/engine/survey/picture.go",
		"sign.Process.LiveFor > 0", "false", "TestInspectTellsMissingHeartbeats",
	},
	{
		"holder that is deaf and looks alive", "internal/engine/survey/picture.go",
		"h.Dead = sign.Deaf", "h.Dead = false", "TestInspectTellsDeadHolders",
	},
	{
		"waiter that one node believes dead", "internal/engine/survey/picture.go",
		"p.Dead && o.Dead", "p.Dead || o.Dead",
		"TestQuorumInspectBelievesTheNodesThatHear",
	},
	{
		"list that inspects what is only remembered", "internal/engine/survey/list.go",
		"line := keys.StateOf(key, keys.QueueSuffix)", "line := keys.StateOf(key, keys.FenceSuffix)", "TestListCostsWhatIsInUse",
	},
	{
		"pattern that Redis does not know", "internal/engine/survey/list.go",
		"keys.Escape(l.Prefix) + keys.Sieve(pattern)", "keys.Escape(l.Prefix) + keys.Sieve(\"*\")", "TestListCostsWhatIsInUse",
	},
	{
		"pattern that is matched by bytes", "internal/protocol/keys/glob.go",
		"		case '*', '?':\n			b.WriteByte('*')\n", "		case '*', '?':\n			b.WriteByte(c)\n", "TestListPatterns",
	},
	{
		"list that asks a dead server about each name", "internal/engine/survey/survey.go",
		"down = p.err", "down = nil", "TestListFailsAtOnce",
	},
	{
		"goroutines apart since they wait for other times", "options.go",
		"lock.Terms{TTL: o.TTL,", "lock.Terms{TTL: o.TTL + o.MaxWait,", "TestRelayWhateverTheWait",
	},
	{
		"name that was lost before the last was locked", "internal/engine/acquire/several.go",
		"cmp.Or(errs[i], l.Err())", "cmp.Or(errs[i], func(*lease.Lease) error { return nil }(l))", "TestMultiLosesOneWhileItWaits",
	},
	{
		"lease without renewal that aged in a wait", "internal/engine/acquire/several.go",
		"!k.Renews && l.Remaining()", "false && l.Remaining()", "TestMultiWithoutRenewalBeginsFresh",
	},
	{
		"names that a panic leaves behind", "internal/engine/acquire/several.go",
		"		if !got { // also", "		if !got && err != nil { // also", "TestMultiHookPanics",
	},
	{
		"names granted at once that a panic leaves behind", "internal/engine/acquire/several.go",
		"if len(leases) < len(owners) {", "if err != nil {", "TestMultiHookPanics",
	},
	{
		"context that waits for the schedule", "internal/engine/lease/context.go",
		"l.remainingAt(now) <= 0", "l.err != nil", "TestContextAnswersByTheClock",
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
		"turn of one whose hook panics", "internal/engine/acquire/turns.go",
		"			a.by.leaveGroup(a.Lock, g, w)\n", "			c.Handoffs.Dissolve(g)\n", "TestHookPanicsInItsTurn",
	},
	{
		"turn of one that just gave up", "internal/engine/acquire/turns.go",
		"			next.HandOver(turn.Baton)\n", "", "TestRelayTurnOfOneThatHasGivenUp",
	},
	{
		"loss that is not told in the process", "internal/engine/lease/lease.go",
		"	l.cancel(err)\n	l.detachLocked()\n", "	l.cancel(err)\n", "TestRelayAfterALoss",
	},
	{
		"batch in which newcomers overtake the line", "internal/protocol/script/lua/acquires.lua",
		"redis.call('EXISTS', QUEUE) == 0 and ", "", "TestBundleDoesNotOvertake",
	},
	{
		"batch of releases that lets nobody in", "internal/protocol/script/lua/releases.lua",
		"redis.call('EXISTS', QUEUE) == 0 and ", "", "TestBundleOfWhichSomeAreTaken",
	},
	{
		"burst under one time limit", "internal/link/batch/sender.go",
		"room := maxInFlight - s.inFlight", "room := len(s.queue)", "TestBurstIsBounded",
	},
	{
		"batch of which one cannot be done", "internal/link/batch/plan.go",
		"if refused || err == nil &&", "if err == nil &&", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"batch that forgets what its first half did", "internal/link/batch/plan.go",
		"Sent: sent, Resent: refused}", "Sent: sent}", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"resend of what progresses after an ever longer pause", "internal/link/ask/ask.go",
		"			wait = retry.Pause(0)\n", "", "TestFreeLockBehindManyDeadTickets",
	},
	{
		"request in a queue that ignores its context", "internal/link/batch/sender.go",
		"	case <-ctx.Done():\n		s.cancel", "	case <-context.Background().Done():\n		s.cancel",
		"TestRequestInABatchHeedsItsContext",
	},
	{
		"request on the goroutine of its caller that ignores its context", "redlatchrueidis/direct.go",
		"		close(r.over)\n", "", "TestRequestEndsWithItsContext",
	},
	{
		"request in a lane that ignores its context", "redlatchrueidis/direct.go",
		"			return r.lane.socket.Load()\n", "", "TestRequestInALaneEndsWithItsContext",
	},
	{
		"request that goes direct after a failure", "redlatchrueidis/node.go",
		"n.steadyAt.Load() == n.troubles.Load()+1", "n.steadyAt.Load() > 0",
		"TestRequestAfterAFailureEndsWithItsContext",
	},
	{
		"request whose key has moved, and that is left at that", "redlatchrueidis/run.go",
		"return c.astray(at, err) }", "return false }", "TestPipelineInACluster",
	},
	{
		"request in a lane whose key has moved, and that is left at that", "redlatchrueidis/run.go",
		"	case c.astray(at, outcome.Err):\n", "	case false:\n", "TestLaneInACluster",
	},
	{
		"lane that comes after Close", "redlatchrueidis/direct.go",
		"	d.lanesTo = nil\n", "", "TestLaneInACluster",
	},
	{
		"grant that has run out, and is extended all the same", "internal/engine/acquire/grant.go",
		"	if !script.Done(reply.Reply) {\n		g.Gone = true\n		return fault.ErrTooLate\n	}\n", "", "TestAttempt",
	},
	{
		"deadline from the reply", "internal/link/ask/ask.go",
		"return Answer{result.Reply, result.Sent, n > 0", "result.Sent = a.now()\n\t\t\treturn Answer{result.Reply, result.Sent, n > 0",
		"TestDeadlineIsSoundUnderEveryDelay",
	},
	{
		"deadline from the grant's arrival", "internal/engine/line/grants.go",
		"Sent: w.sentAt, TTL: min(", "Sent: ln.Now(), TTL: min(", "TestDeadlineIsSoundUnderEveryDelay",
	},
	{
		"deadline moved by an extend that failed", "internal/engine/lease/extend.go",
		"	events := l.doubting(now, err)\n", "	events := l.doubting(now, err)\n	l.sentAt = sent\n", "TestLostRepliesToExtendEndTheLeaseAtItsDeadline",
	},
	{
		"watchdog that gives up at the first failure", "internal/engine/lease/extend.go",
		"doubting(now, err)\n	l.extendAfter = now.Since(l.sentAt)", "doubting(now, err)\n	l.extendAfter = time.Hour + now.Since(l.sentAt)",
		"TestServerHangsForLessThanTheTTL|TestServerIsAwayForLessThanTheTTL",
	},
	{
		"lost lease with a token", "lease.go",
		"if !l.Held() {\n		return 0\n	}\n	return l.core.Number()", "return l.core.Number()", "TestSuspendedHolderWakesWithoutItsLock|TestServerHangs",
	},
	{
		"release that heeds its context", "internal/engine/lease/release.go",
		"ctx = context.WithoutCancel(ctx)\n", "", "TestReleaseHeedsNoContext",
	},
	{
		"resent release that calls itself a loss", "internal/engine/lease/release.go",
		"answer.Resent || l.unsure)", "l.unsure)", "TestLostReplyToReleaseIsConfirmedByTheResend",
	},
	{
		"nothing undone when the caller gave up", "internal/link/cleanup/queue.go",
		"	q.addLocked(r)\n", "	_ = r\n",
		"TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp|TestCancelAtTheMomentOfTheGrant",
	},
	{
		"no second look at what a request may still bring", "internal/link/cleanup/queue.go",
		"return r.once || r.absent == enough", "return r.once || r.absent > 0", "TestStragglerAfter",
	},
	{
		"no look at what a resent request may still bring after the release", "internal/engine/lease/release.go",
		"if l.resent || err != nil", "if err != nil", "TestStragglerAfterTheRelease",
	},
	{
		"no place asked for again", "internal/engine/line/grants.go",
		"		ln.restoreLocked(w)\n", "		_ = ln.restoreLocked\n", "TestFlush|TestServerKilledAndRestartedEmpty",
	},
	{
		"sharded channels of which each has a connection", "redlatchrueidis/rueidis.go",
		"c.target.ShardsTogether = true, true", "c.target.ShardsTogether = true, false", "TestManyNamesOfACluster",
	},
	{
		"channel whose slot moved and that is not heard any more", "internal/driver/trunk/trunk.go",
		"t.refuse(name, nil, ErrMoved) }", "}", "TestSlotsMoveWhileManyWait",
	},
	{
		"lost connection of which the channels are not told", "internal/driver/trunk/trunk.go",
		"		c.end(why)\n", "		_ = c.end\n", "TestManyWaitersLoseTheirConnections",
	},
	{
		"one pipeline for all nodes of a cluster", "internal/link/batch/nodes.go",
		"		return n.sender(addr)\n", "		return n.sender(\"\")\n", "TestStoppedMasterDelaysOnlyItsOwn",
	},
	{
		"subscription that counts again by the wall clock alone", "internal/link/subscribe/listener.go",
		"s.listener.now().Since(*missed)", "s.listener.now().Time().Sub(missed.Time())+s.listener.now().Drift(*missed)",
		"TestSubscriptionCountsAgain",
	},
	{
		"subscription that counts again by a clock that stands still in sleep", "internal/link/subscribe/listener.go",
		"s.listener.now().Since(*missed)", "s.listener.now().Time().Sub(missed.Time())", "TestSubscriptionCountsAgain",
	},
	{
		"waiter that listens at a replica and asks for the place that it lost", "internal/engine/line/grants.go",
		"		s.MarkUncounted()\n", "", "TestWaiterThatListensAtAReplica",
	},
	{
		"no look when the subscription is lost", "internal/link/subscribe/listener.go",
		"			n = 0\n			l.handler.Changed(s)\n", "			n = 0\n", "TestGrantWhileDeaf",
	},
	{
		"no look at a holder that grants nothing", "internal/engine/line/pace.go",
		"	if foreign {\n", "	if false {\n", "TestForeignReleaseIsNoticed",
	},
	{
		"no look when the holder's lease is over", "internal/engine/line/pace.go",
		"	if remaining >= 0 {\n", "	if false {\n", "TestKilledHolderCostsItsRemainingTTL",
	},
	{
		"renewals without end", "internal/engine/lease/lease.go",
		"l.lock.Renews && l.leads() && !l.overdueLocked()", "l.lock.Renews", "TestMaxHold",
	},
	{
		"release that overtakes a renewal", "internal/engine/lease/release.go",
		"for l.pending && !l.accompanied() {", "for false {", "TestReleaseWaitsForTheRenewalUnderWay",
	},
	{
		"leases that outlive their client", "internal/engine/lease/loss.go",
		"		defer l.Lose(lock.ReasonClosed)\n", "		_ = l\n", "TestCloseEndsWaitsAndLeases",
	},
	{
		"marks that let old tokens through", "fence/marks.go",
		"token <= 0 || token < k.newest", "token <= 0", "TestLateWriteIsRefusedByMarks",
	},
	{
		"script that lets old tokens through", "fence/fenceredis/script.go",
		" or mine < newest", "", "TestLateWriteIsRefusedByRedis",
	},
	{
		"script that takes NaN for a token", "fence/fenceredis/script.go",
		"not (mine >= 1 and mine <= MAX)", "mine <= 0", "TestTokenThatIsNoneTurnsNoGuardOff",
	},
	{
		"script that takes NaN for a mark", "fence/fenceredis/script.go",
		"not newest or not (newest >= 0 and newest <= MAX)", "not newest", "TestTokenThatIsNoneTurnsNoGuardOff",
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
	source := readTestSource(t, "../..")
	for _, m := range mutants {
		text := check.Value(os.ReadFile(filepath.Join("../..", m.file))).OK(t)
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s contains %q %d times, want once: adapt the mutant to the code", m.name, m.file, m.old, n)
		}
		if m.beside(source) {
			tests, err := filepath.Glob(filepath.Join("../..", filepath.Dir(m.file), "*_test.go"))
			check.OK(t, "Glob", err)
			named := parseTests(t, "", tests).has(regexp.MustCompile("^(" + m.tests + ")"))
			check.That(t, named, "%s: there is no test %s below tests, or beside %s", m.name, m.tests, m.file)
		}
	}
}

// copies is how many mutants are tried at once. Their tests wait more than they compute.
const copies = 6

// TestMutants breaks copies of the repository, each in one way after another, and checks that the
// tests notice.
func TestMutants(t *testing.T) {
	wanted, err := regexp.Compile(os.Getenv(mutantsVariable))
	if err != nil || wanted.String() == "" {
		t.Skipf("set %s=. to run it, or make mutants: it takes minutes (%v)", mutantsVariable, err)
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !wanted.MatchString(m.name) })
	check.Must(t, len(chosen) != 0, "no mutant's name matches %q", wanted)
	repositories := make(chan string, copies)
	for range copies {
		repository := t.TempDir()
		copySources(t, "../..", repository)
		// A test that fails waits out its patience.
		change(t, filepath.Join(repository, "internal", "testkit", "locktest", "locktest.go"), "const Patience = 30 * time.Second", "const Patience = 15 * time.Second")
		repositories <- repository
	}
	var all []string
	source := readTestSource(t, "../..")
	for _, m := range chosen {
		if !m.beside(source) {
			all = append(all, m.tests)
		}
	}
	repository := <-repositories
	if len(all) > 0 {
		survives, output := try(t, repository, strings.Join(all, "|"), source)
		check.Must(t, survives, "the tests fail without any change:\n%s", output)
	}
	repositories <- repository
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			repository := <-repositories
			defer func() { repositories <- repository }()
			file := filepath.Join(repository, m.file)
			undo := change(t, file, m.old, m.new)
			defer undo()
			try := try
			if m.beside(source) {
				try = m.tryBeside
			}
			survives, output := try(t, repository, m.tests, source)
			check.That(t, !survives, "%s survived %s:\n%s", m.name, m.tests, output)
		})
	}
}

// beside reports whether the tests are component tests: beside the file that changes, not below tests.
func (m mutant) beside(source []*testSource) bool {
	return !slices.ContainsFunc(source, func(s *testSource) bool { return s.has(regexp.MustCompile("^(" + m.tests + ")")) })
}

// tryBeside is try of component tests.
func (m mutant) tryBeside(t *testing.T, repository, tests string, _ []*testSource) (succeed bool, output string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-trimpath", "-timeout", "4m", "-v", "-run", "^("+tests+")", "./"+filepath.Dir(m.file))
	run.Dir = repository
	text, err := run.CombinedOutput()
	check.Must(t, strings.Contains(string(text), "=== RUN "), "no test began:\n%s", text)
	return err == nil, string(text)
}

// quickly has the compiler spend no time on making the code fast. With -trimpath, what is the same in
// two copies, or as it was in an earlier run, is compiled once.
const quickly = "-N -l -dwarf=false"

// try builds these tests of a copy, those of each folder as a binary, and reports whether they
// succeed. It runs the binaries one after the other, up to the first that fails.
func try(t *testing.T, repository, tests string, source []*testSource) (succeed bool, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tests = "^(" + tests + ")"
	binaries := filepath.Join(repository, "mutant") + string(filepath.Separator)
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-gcflags=all="+quickly, "-ldflags=-s -w", "-o", binaries)
	build.Dir = filepath.Join(repository, "tests")
	var chosen []*testSource
	for _, s := range source {
		if s.has(regexp.MustCompile(tests)) {
			s.write(t, filepath.Join(build.Dir, s.dir), regexp.MustCompile(tests))
			chosen, build.Args = append(chosen, s), append(build.Args, "./"+s.dir)
		}
	}
	check.Must(t, chosen != nil, "there is no test %s", tests)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not build: %v\n%s", err, text)
	}
	for _, s := range chosen {
		run := exec.CommandContext(ctx, filepath.Join(binaries, s.binary()), "-test.run", tests, "-test.timeout", "4m", "-test.failfast", "-test.v")
		run.Dir = filepath.Join(build.Dir, s.dir)
		text, err := run.CombinedOutput()
		check.Must(t, err == nil || errors.As(err, new(*exec.ExitError)), "the tests do not run: %v\n%s", err, text)
		if !strings.Contains(string(text), "=== RUN ") { // it must not pass for a mutant that is caught
			t.Fatalf("no test began:\n%s", text)
		}
		if output += string(text); err != nil {
			return false, output
		}
	}
	return true, output
}

// change replaces text in a file, and returns how to undo it.
func change(t *testing.T, file, old, new string) (undo func()) {
	t.Helper()
	before := check.Value(os.ReadFile(file)).OK(t)
	after := strings.ReplaceAll(string(before), old, new)
	check.Must(t, after != string(before), "%s does not contain %q", file, old)
	save := func(text string) {
		check.OK(t, "WriteFile", os.WriteFile(file, []byte(text), 0o600))
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
