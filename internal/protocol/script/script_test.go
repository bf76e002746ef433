package script

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestHeadersTellWhatIsSent compares the header of every operation with the call that Go makes of
// it.
func TestHeadersTellWhatIsSent(t *testing.T) {
	t.Parallel()
	set := check.Value(keys.Of("p:", "x")).OK(t)
	for file, call := range map[string]conn.Call{
		// A kind that has more keys lists them in its own file.
		"acquire":  Mutex.Acquire(set, Request{Most: 1}),
		"await":    Mutex.Await(set, "a", time.Second, time.Hour, []string{"t"}),
		"release":  For(AtLeast(Mutex.Release(set, "o", "", false, time.Hour), 1, time.Second), Neighbours{Channel: "c", Every: 1}),
		"renew":    Mutex.Exactly(Mutex.Renew(set, "o", time.Second, "")),
		"inspect":  Mutex.InspectInside(set),
		"force":    For(Mutex.Force(set, "o", "", "", time.Hour, "note", time.Hour), Neighbours{Channel: "c"}),
		"adopt":    Mutex.Adopt(set, "o", "p", time.Second, "", time.Second),
		"resize":   Semaphore.Resize(set, 1, time.Hour),
		"seize":    Mutex.Seize(set, Seizure{}),
		"want":     Mutex.Want(set, "o", "address", time.Second),
		"ask":      Mutex.Ask(set, "o", "address", true),
		"used":     Mutex.Used(set, "o", time.Second),
		"proclaim": Election.Proclaim(set, "o", "value", 1),
		"sniff":    Sniff(set),
		"acquires": Bundle([]conn.Call{Mutex.Acquire(set, Request{})}),
		"releases": Bundle([]conn.Call{Mutex.Release(set, "o", "", false, time.Hour)}),
		"renews":   Bundle([]conn.Call{Mutex.Renew(set, "o", time.Second, "")}),
		"multi":    Multi([]keys.Set{set}, []string{"o"}, time.Second, time.Hour),
		"record":   Record("r", "text", time.Second),
		"recall":   Recall("r", "n", "address", "o"),
		"note":     Note("n", time.Second, false, []string{"o", "text"}),
		"waits":    Waits("n"),

		"journal":   Journal("j", 1, time.Hour, []string{"event"}),
		"journaled": Journaled("j", "-", "+", false, 1),
		"vote":      Mutex.Quorum().Vote(set, Ballot{}),
		"raise":     Mutex.Quorum().Raise(set, "o", time.Second, 1, "", time.Hour),
		"confirm":   Mutex.Quorum().Renew(set, "o", time.Second, ""),
		"mend":      Mutex.Quorum().Mend(set, Ballot{}, 1, "", 0),
		"epoch":     Look("e"),

		"countdown_set":    SetCount(set, "o", 1, time.Hour, time.Hour, -1),
		"countdown_down":   CountDown(set, "o", "id"),
		"countdown_wait":   WaitCount(set, 1, "t", "a", time.Second),
		"countdown_delete": DeleteCount(set, 1),
	} {
		head := header(t, file)
		if got, want := count(head["KEYS"]), min(len(call.Keys), 4); got != want {
			t.Errorf("%s.lua lists %d KEYS (%s), Go sends %d", file, got, head["KEYS"], want)
		}
		if got, want := count(regexp.MustCompile("then for each (ticket|owner|event): ").ReplaceAllString(head["ARGV"], "")), len(call.Args); got != want {
			t.Errorf("%s.lua lists %d ARGV (%s), Go sends %d", file, got, head["ARGV"], want)
		}
		for _, field := range []string{"Reply", "Cost"} {
			check.That(t, head[field] != "", "%s.lua does not tell its %s", file, field)
		}
	}
}

// header returns the fields of the comment that opens a file. A field goes on in lines that are
// indented as its text is.
func header(t *testing.T, file string) map[string]string {
	t.Helper()
	data := check.Value(files.ReadFile(path.Join("lua", file+".lua"))).OK(t)
	fields := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^-- (KEYS|ARGV|Reply|Cost) +(.+(?:\n--  {6}.+)*)$`).FindAllStringSubmatch(string(data), -1) {
		fields[m[1]] = strings.ReplaceAll(m[2], "\n--      ", "")
	}
	return fields
}

// count is the number of things in a list with commas, remarks in parentheses aside.
func count(list string) int {
	if list == "none" {
		return 0
	}
	return strings.Count(regexp.MustCompile(`\(.*?\)`).ReplaceAllString(list, ""), ",") + 1
}

// TestEveryKeyIsInKEYS looks for keys that a script makes up: in a cluster they could be anywhere.
func TestEveryKeyIsInKEYS(t *testing.T) {
	t.Parallel()
	entries := check.Value(files.ReadDir("lua")).OK(t)
	call := regexp.MustCompile(`redis\.p?call\('(\w+)', ([^,)]+)`)
	for _, e := range entries {
		for _, m := range call.FindAllStringSubmatch(assemble(strings.TrimSuffix(e.Name(), ".lua")), -1) {
			switch m[2] {
			case "K", "FENCE", "QUEUE", "CLIENTS", "INSIDE", "BITS", "LAST", "EPOCH", "FORCED", "KEYS[1]", "KEYS[2]", "KEYS[3]", "KEYS[i]", "KEYS[i + 2]", "unpack(together", "key":
			default:
				if m[1] != "PUBLISH" && m[1] != "SPUBLISH" && m[1] != "PUBSUB" && m[1] != "INFO" {
					t.Errorf("%s: %s touches %s, which is not in KEYS", e.Name(), m[1], m[2])
				}
			}
		}
	}
}

func TestTTLsAreNeverRoundedToZero(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", 0: "0"} {
		check.Equal(t, millis(d), want, "millis(%v)", d)
	}
}

func FuzzParseTicket(f *testing.F) {
	f.Add(Ticket{Address: "{redlatch:c}:grants", TTL: time.Second, Owner: "rl-c-1"}.String())
	f.Add("A\ta b\t1\tx\ty\tz")
	f.Add("H\t\t-1\t\t")
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := ParseTicket(text)
		if err != nil {
			return
		}
		if again, err := ParseTicket(ticket.String()); err != nil || again != ticket {
			t.Errorf("ParseTicket(%q) = %+v, and of what that prints %+v, %v", text, ticket, again, err)
		}
	})
}

// FuzzReplies has a server, or what stands between, answer what no script answers. It is an error, or
// a value, of each reply that is read.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("\x03\x03\x00\x01\x00\x07\x01\x01a"))
	f.Add([]byte("\x03\x07\x00\x00\x00\x09\x00\x00\x01\x05nan-1\x00\x01\x01\x06holder\x00\x05"))
	f.Add([]byte("\x03\x06\x01\x019\x00\x09\x03\x01\x03\x05\x01\x01o\x00\x01\x01\x012\x01\x00\x00\x00\x03\x00\x00\x07\x03\x00"))
	f.Add([]byte("\x03\x02\x00\xff\x01\x03kind"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _ := answers.Reply(data, 4)
		if s, err := ParseAcquire(r); err == nil && s.Inside && s.Refused != "" {
			t.Errorf("ParseAcquire(%+v) = %+v, both inside and refused", r, s)
		}
		for n := range 4 {
			if l, err := ParseAwait(r, n); err == nil && len(l.Tickets) != n {
				t.Errorf("ParseAwait(%+v) tells of %d tickets, want %d", r, len(l.Tickets), n)
			}
			if tokens, err := ParseMulti(r, n); err == nil && len(tokens) != n && len(tokens) != 0 {
				t.Errorf("ParseMulti(%+v) = %v, want %d tokens or none", r, tokens, n)
			}
		}
		if v, err := ParseVote(r); err == nil && v.Inside && (v.Nonvoting || v.Refused != "") {
			t.Errorf("ParseVote(%+v) = %+v, which contradicts itself", r, v)
		}
		_, _ = ParseMend(r)
		_, _ = ParseEpoch(r)
		_, _ = ParseSetCount(r)
		if c, err := ParseCount(r); err == nil {
			_, _ = CountOf(c.Refused)
		}
		if use, err := ParseSniff(r); err == nil && use.Kind != nil {
			_ = use.Kind.Detail(use.Parameter)
		}
		if s, err := ParseInspect(r); err == nil {
			for _, w := range s.Waiters {
				_, _ = ParseTicket(w.Ticket)
			}
			_, _, _ = ParseNote(s.Note)
		}
		_ = ParseGone(r)
		_, _ = ParseResize(r)
		_, _ = ParseRecall(r)
		_, _ = ParseWaits(r)
		_, _ = ParseJournaled(r)
		_, _ = ParseSeize(r)
		_ = Waited(r)
	})
}

// TestStripLeavesStringsAlone: two hyphens begin a comment, but not inside a string.
func TestStripLeavesStringsAlone(t *testing.T) {
	t.Parallel()
	for lua, want := range map[string]string{
		"  local a = 1 -- one\n":                "local a = 1\n",
		"-- all of it\n":                        "",
		"local a = 'x--y' -- one\n":             "local a = 'x--y'\n",
		`local a = "it's -- it" -- one` + "\n":  `local a = "it's -- it"` + "\n",
		`local a = 'it\'s -- it' -- one` + "\n": `local a = 'it\'s -- it'` + "\n",
		"a = b - -c --d\n":                      "a = b - -c\n",
	} {
		check.Equal(t, strip(lua), want, "strip(%q)", lua)
	}
}

// TestHotPartComesFirst: the common case of an operation returns before the functions that it does
// not need.
func TestHotPartComesFirst(t *testing.T) {
	t.Parallel()
	text, ok := Text("mutex", "acquire")
	check.Must(t, ok, "there is no script to acquire a mutex")
	common, rest := strings.Index(text, "if token then return"), strings.Index(text, "local function grant")
	if common < 0 || rest < common || strings.Contains(text, "--") {
		t.Errorf("the common case returns at %d and grant begins at %d, want it behind, and no comments:\n%s", common, rest, text)
	}
	_, ok = Text("quorum-rwmutex", "vote")
	check.That(t, !ok, "there is a script for a kind that a quorum cannot have")
	_, ok = Text("quorum-mutex", "vote")
	check.That(t, ok, "there is no script to vote for a mutex")
}

// TestEveryScriptIsWhole: each is put together when it is first needed, so a file that is not there
// would be missed late.
func TestEveryScriptIsWhole(t *testing.T) {
	t.Parallel()
	for name, files := range Sources() {
		check.That(t, len(files) > 0 && assemble(files...) != "", "%s is put together of %v", name, files)
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	owner := Owner("CLIENT", 37)
	if client, ok := OwnerClient(owner); client != "CLIENT" || !ok || !HandsOver(owner) || owner == Owner("CLIENT", 38) {
		t.Errorf("OwnerClient(%q) = %q, %v, want CLIENT, true, and another owner each time", owner, client, ok)
	}
	_, ok := OwnerClient("somebody's")
	check.That(t, !ok && !HandsOver("somebody's"), "an owner of another library is taken for ours")
	check.That(t, HandsOver(Window), "the end of a window lets no waiter in")
}
