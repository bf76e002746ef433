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
		"heartbeat from another address than the ticket's", "line.go",
		"address := waiters[0].address", "address := c.earFor(l).address", "TestTicketsOfTwoAddresses",
	},
	{
		"word of a forced release that a lease without a watchdog ignores", "watchdog.go",
		"	case !l.renews():\n		return []Event", "	case false:\n		return []Event", "TestForceReleaseTellsTheHolder",
	},
	{
		"ticket of one who gave up that is forgotten in an outage", "orphan.go",
		"	if ticket != \"\" {\n", "	if false {\n", "TestTicketsGivenUpInAnOutage",
	},
	{
		"second look that does not wait", "orphan.go",
		"due := last || !o.next.After(now)", "due := last || !o.next.After(now.Add(time.Hour))", "TestStragglerAmongOthersWhoGiveUp",
	},
	{
		"undoing a request without its ticket", "lease.go",
		"l.ticket = g.ticket", "l.ticket = \"\"", "TestStragglerWithATicket",
	},
	{
		"grant that a panic leaves behind", "latch.go",
		"if !begun {", "if !begun && false {", "TestHookPanicsAtGrant",
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
		"anchor: t.sent", "anchor: a.client.now()", "TestQuorumDeadline",
	},
	{
		"token of a quorum that is not written back", "ballot.go",
		"if t.won() && !t.agreed() {", "if false {", "TestQuorumWritesTheTokenBack",
	},
	{
		"token that is written back where somebody else is inside", "internal/script/lua/raise.lua",
		"if not (extend(ARGV[2], tonumber(ARGV[3])) and agrees(ARGV[2], ARGV[5])) then return 0 end\n", "", "TestRaiseForAnother",
	},
	{
		"node that votes whatever it forgot", "internal/script/lua/count.lua",
		"return epoch[1] == process(), ", "return true, ", "TestQuorumForgetfulNode",
	},
	{
		"right to vote that outlives the process", "internal/script/lua/count.lua",
		"return epoch[1] == process(), ", "return epoch[1] ~= false, ", "TestQuorumStaleNode",
	},
	{
		"node that votes without a rest", "seat.go",
		"rest := bound\n", "rest := time.Duration(0)\n", "TestQuorumForgetfulNode",
	},
	{
		"node that counts on from nothing", "seat.go",
		"script.Seat(key, e.Process, number, bound)", "script.Seat(key, e.Process, number-number, bound)", "TestQuorumFloor",
	},
	{
		"majority of two in five", "internal/quorum/conn.go",
		"return len(q.nodes)/2 + 1", "return len(q.nodes) / 2", "TestQuorumMajorityIsKilled",
	},
	{
		"leases that nodes are not told of again", "watchdog.go",
		"func(node, i int) { c.mend(leases[i], node) }", "nil", "TestQuorumRollingRestart",
	},
	{
		"votes that are not given back", "ballot.go",
		"	leave(t.votes, func(v vote) bool { return v.Err == nil && v.Inside })\n", "", "TestQuorumManyContenders",
	},
	{
		"waiters of a quorum who are not told", "internal/script/lua/hint.lua",
		"  redis.pcall('PUBLISH', address, 'free\\t' .. waiter)\n", "", "TestQuorumManyContenders",
	},
	{
		"slot that is extended while it rests", "internal/script/lua/holds.lua",
		"or free - rest <= millis()", "or free <= millis()", "TestSlots",
	},
	{
		"size that is forgotten while somebody waits", "internal/script/lua/holds.lua",
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
		"run that failed and uses its window up all the same", "internal/script/lua/once.lua",
		"if result == 'done' and", "if", "TestOnceThatFails",
	},
	{
		"window of a run that died", "internal/script/lua/once.lua",
		"  if always == '1' then close(ends) end\n", "", "TestOnceOfAProcessThatDied",
	},
	{
		"re-entry that shortens the lease", "internal/script/lua/reentrant.lua",
		"  if redis.call('PTTL', K) >= ttl then return end\n", "", "TestReentryTakesTheLaterEnd",
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
		"several names in any order", "multi.go",
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
		"last come first served", "internal/script/lua/line.lua",
		"redis.call('ZRANGE', QUEUE, 0, 1)", "redis.call('ZREVRANGE', QUEUE, 0, 1)", "TestFirstComeFirstServed",
	},
	{
		"grant to a client believed dead", "internal/script/lua/line.lua",
		"if alive > 0 then", "alive = 3600000\n    if true then", "TestSuspendedWaiterCostsItsHorizon|TestWaiterBelievedDeadIsPassedOver",
	},
	{
		"grant for longer than the client is believed alive", "internal/script/lua/line.lua",
		"math.min(tonumber(ttl), alive)", "ttl", "TestSuspendedWaiterCostsItsHorizon",
	},
	{
		"grant that nobody hears", "internal/script/lua/line.lua",
		"mode == 'A' or mode == 'T' or address == caller then", "true then", "TestKilledWaiterIsSkipped",
	},
	{
		"release that lets nobody in", "internal/script/lua/release.lua",
		"if left or gone then grant('', gone) end", "", "TestFirstComeFirstServed",
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
		"mutex that is never given back", "relay.go",
		"const maxRun = 128", "const maxRun = 1 << 20", "TestRelayGivesBack",
	},
	{
		"run that newcomers join", "relay.go",
		"l.spare = min(l.spare, others)", "l.spare = others + 1<<20", "TestRelayGivesBack",
	},
	{
		"place in line that is lost with who stood there", "relay.go",
		"rs.next(r, a.arrival)", "rs.next(r, 0)", "TestRelayKeepsItsPlace",
	},
	{
		"outage that is told one after the other", "relay.go",
		"default: // it may be the same for all: they find out at the same time, not one after the other\n		rs.dissolve(r)\n",
		"default:\n		rs.next(r, 0)\n", "TestRelayWithoutRedis",
	},
	{
		"lease passed on that is not extended in between", "lease.go",
		"	if !g.passed {\n", "	if true {\n", "TestRelayIsExtendedInTime",
	},
	{
		"turn of one that just gave up", "relay.go",
		"			next <- t\n", "", "TestRelayTurnOfOneThatGivesUp",
	},
	{
		"loss that is not told in the process", "lease.go",
		"	l.cancel(err)\n	l.leave()\n", "	l.cancel(err)\n", "TestRelayAfterALoss",
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
		"batch of which one cannot be done", "wire.go",
		"if (refused || err == nil &&", "if (err == nil &&", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"batch that forgets what its first half did", "wire.go",
		"sent: sent, twice: refused}", "sent: sent}", "TestBundleOfWhichOneCannotBeDone",
	},
	{
		"request in a queue that ignores its context", "wire.go",
		"	case <-ctx.Done():\n		w.mu", "	case <-c.closing.Done():\n		w.mu", "TestRequestInABatchHeedsItsContext",
	},
	{
		"deadline from the reply", "request.go",
		"return answer{result.Reply, result.sent, n > 0", "result.sent = c.now()\n\t\t\treturn answer{result.Reply, result.sent, n > 0",
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
		"nothing undone when the caller gave up", "orphan.go",
		"c.orphans.add(orphan{", "_ = (orphan{",
		"TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp|TestCancelAtTheMomentOfTheGrant",
	},
	{
		"no second look at what a request may still bring", "orphan.go",
		"o.looks == 2", "o.looks == 1", "TestStragglerAfter",
	},
	{
		"no look at what a resent request may still bring after the release", "lease.go",
		"if resent {", "if resent && false {", "TestStragglerAfterTheRelease",
	},
	{
		"no place asked for again", "line.go",
		"\t\tc.restore(w)\n", "\t\t_ = c.restore\n", "TestFlush|TestServerKilledAndRestartedEmpty",
	},
	{
		"no look when the subscription is lost", "listen.go",
		"c.hurry(e) // from now", "// from now", "TestGrantWhileDeaf",
	},
	{
		"no look at a holder that grants nothing", "line.go",
		"\tif foreign {\n", "\tif false {\n", "TestForeignReleaseIsNoticed",
	},
	{
		"no look when the holder's lease is over", "line.go",
		"\tif remaining >= 0 {\n", "\tif false {\n", "TestKilledHolderCostsItsRemainingTTL",
	},
	{
		"renewals without end", "watchdog.go",
		"!l.latch.options.NoRenew && !l.overdueLocked()", "!l.latch.options.NoRenew", "TestMaxHold",
	},
	{
		"release that overtakes a renewal", "lease.go",
		"for l.flight != nil {", "for false {", "TestReleaseWaitsForTheRenewalUnderWay",
	},
	{
		"leases that outlive their client", "client.go",
		"\t\t\tlease.lose(errDisowned)\n", "\t\t\t_ = lease\n", "TestCloseEndsWaitsAndLeases",
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

// TestMutants breaks a copy of the repository in one way after another, and checks that the tests notice.
func TestMutants(t *testing.T) {
	if os.Getenv(mutantsVariable) == "" {
		t.Skipf("set %s=1 to run it, or make mutants: it takes minutes", mutantsVariable)
	}
	repository := t.TempDir()
	copySources(t, "..", repository)
	// Whoever fails waits out its patience.
	change(t, filepath.Join(repository, "tests", "client_test.go"), "const patience = 30 * time.Second", "const patience = 15 * time.Second")
	var all []string
	for _, m := range mutants {
		all = append(all, m.tests)
	}
	if survives, output := try(t, repository, strings.Join(all, "|")); !survives {
		t.Fatalf("the tests fail without any change:\n%s", output)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
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
	run := exec.CommandContext(ctx, binary, "-test.run", "^("+tests+")", "-test.timeout", "2m")
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
