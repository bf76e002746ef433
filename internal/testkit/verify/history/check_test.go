package history_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// script is a history in a few words, for tests. Times are in milliseconds.
type script struct {
	h   *history.History
	ops map[string]int64
}

func newScript() *script { return &script{history.New(), make(map[string]int64)} }

// hold adds a lease that was believed held between first and last.
func (s *script) hold(worker string, kind string, token int64, called, granted, first, last int64, more ...func(*history.Hold)) *script {
	s.ops[worker]++
	k := &history.Hold{
		Worker: worker, Op: s.ops[worker], Kind: kind, Name: "a", N: 1, Token: token, TTL: 100 * time.Millisecond,
		Called: ms(called), Granted: ms(granted), First: ms(first), Last: ms(last), Release: ms(last), Released: ms(last),
	}
	for _, f := range more {
		f(k)
	}
	s.h.Holds = append(s.h.Holds, k)
	return s
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

func mode(m string) func(*history.Hold)   { return func(k *history.Hold) { k.Mode = m } }
func permits(n int64) func(*history.Hold) { return func(k *history.Hold) { k.N = n } }
func slot(n int) func(*history.Hold)      { return func(k *history.Hold) { k.Slot = n } }
func owner(o string) func(*history.Hold)  { return func(k *history.Hold) { k.Owner = o } }

// vanishes has the holder die, sure of its lease until then.
func vanishes(sure int64) func(*history.Hold) {
	return func(k *history.Hold) { k.Sure, k.Release, k.Released = ms(sure), history.Never, history.Never }
}

func (s *script) access(name string, write bool, token, value, called, returned int64, ok bool) *script {
	s.h.Access = append(s.h.Access, &history.Access{
		Worker: "1", Name: name, Write: write, Token: token, Value: value, Called: ms(called), Returned: orNever(returned), OK: ok,
	})
	return s
}

// orNever is a time, or Never for -1.
func orNever(n int64) int64 {
	if n < 0 {
		return history.Never
	}
	return ms(n)
}

func (s *script) wait(called, ended int64, granted bool) *script {
	k := &history.Hold{Worker: "1", Kind: history.Mutex, Name: "a", Called: ms(called), Granted: history.Never, Ended: orNever(ended)}
	if granted {
		k.Granted = k.Ended
	}
	s.h.Waits = append(s.h.Waits, k)
	return s
}

var rules = history.Rules{
	Permits: 3, Rest: 50 * time.Millisecond, Window: 100 * time.Millisecond, Bound: 100 * time.Millisecond,
}

// TestChecks has each check find what it is for, and nothing in what is right.
func TestChecks(t *testing.T) {
	t.Parallel()
	mutex, rw, sem, pool, job := history.Mutex, history.RWMutex, history.Semaphore, history.SlotPool, history.Job
	forgot := rules
	forgot.Losses = []history.Loss{{Name: "a", From: ms(15), Until: ms(16)}}
	for name, c := range map[string]struct {
		script *script
		rules  history.Rules
		bad    string // the checks that must find something
		says   string // in what they tell
		count  int    // how much they find; 0 for once
	}{
		"one after the other":      {newScript().hold("1", mutex, 1, 0, 10, 10, 20).hold("2", mutex, 2, 5, 21, 21, 30), rules, "", "", 0},
		"two at once":              {newScript().hold("1", mutex, 1, 0, 10, 10, 20).hold("2", mutex, 2, 5, 19, 19, 30), rules, "exclusion", "together for 1ms", 0},
		"at the same moment":       {newScript().hold("1", mutex, 1, 0, 10, 10, 20).hold("2", mutex, 2, 5, 20, 20, 30), rules, "exclusion", "", 0},
		"within a long one":        {newScript().hold("1", mutex, 1, 0, 10, 10, 90).hold("2", mutex, 2, 5, 20, 20, 30).hold("2", mutex, 3, 31, 40, 40, 50), rules, "exclusion", "from 0.010000s to 0.090000s", 2},
		"one yes is no time":       {newScript().hold("1", mutex, 1, 0, 10, 10, 9).hold("2", mutex, 2, 0, 10, 10, 30), rules, "", "", 0},
		"never believed":           {newScript().hold("1", mutex, 1, 0, 10, 0, 0).hold("2", mutex, 2, 0, 10, 10, 30), rules, "", "", 0},
		"two leaders":              {newScript().hold("1", history.Election, 1, 0, 10, 10, 20).hold("2", history.Election, 2, 5, 19, 19, 30), rules, "exclusion", "election", 0},
		"forgotten":                {newScript().hold("1", mutex, 1, 0, 10, 10, 60).hold("2", mutex, 2, 5, 19, 19, 30), forgot, "", "", 0},
		"forgotten after the TTL":  {newScript().hold("1", mutex, 1, 0, 10, 10, 160).hold("2", mutex, 2, 5, 19, 19, 160), forgot, "exclusion", "", 0},
		"before it was forgotten":  {newScript().hold("1", mutex, 1, 0, 10, 10, 60).hold("2", mutex, 2, 5, 12, 12, 30), forgot, "exclusion", "", 0},
		"after it was forgotten":   {newScript().hold("1", mutex, 1, 17, 18, 18, 60).hold("2", mutex, 2, 17, 19, 19, 30), forgot, "exclusion", "", 0},
		"entries of one owner":     {newScript().hold("1", history.Reentrant, 1, 0, 10, 10, 20, owner("x")).hold("1", history.Reentrant, 1, 11, 12, 12, 19, owner("x")), rules, "", "", 0},
		"entries of two owners":    {newScript().hold("1", history.Reentrant, 1, 0, 10, 10, 20, owner("x")).hold("1", history.Reentrant, 2, 1, 12, 12, 19, owner("y")), rules, "exclusion", "", 0},
		"all permits":              {newScript().hold("1", sem, 1, 0, 10, 10, 20, permits(2)).hold("2", sem, 2, 5, 12, 12, 19), rules, "", "", 0},
		"a permit too many":        {newScript().hold("1", sem, 1, 0, 10, 10, 20, permits(2)).hold("2", sem, 2, 5, 12, 12, 19, permits(2)), rules, "permits", "4 of 3 permits", 0},
		"readers together":         {newScript().hold("1", rw, 1, 0, 10, 10, 20, mode("r")).hold("2", rw, 2, 5, 12, 12, 19, mode("r")), rules, "", "", 0},
		"writer beside a reader":   {newScript().hold("1", rw, 1, 0, 10, 10, 20, mode("r")).hold("2", rw, 2, 5, 12, 12, 19, mode("w")), rules, "readers", "1 writers and 1 readers", 0},
		"two writers":              {newScript().hold("1", rw, 1, 0, 10, 10, 20, mode("w")).hold("2", rw, 2, 5, 12, 12, 19, mode("w")), rules, "readers", "2 writers", 0},
		"two slots":                {newScript().hold("1", pool, 1, 0, 10, 10, 20).hold("2", pool, 2, 5, 12, 12, 19, slot(1)), rules, "", "", 0},
		"one slot twice":           {newScript().hold("1", pool, 1, 0, 10, 10, 20, slot(1)).hold("2", pool, 2, 5, 12, 12, 19, slot(1)), rules, "slots", "slot 1", 0},
		"a slot without its rest":  {newScript().hold("1", pool, 1, 0, 10, 10, 20, vanishes(60)).hold("2", pool, 2, 5, 90, 90, 99), rules, "rests", "", 0},
		"a slot after its rest":    {newScript().hold("1", pool, 1, 0, 10, 10, 20, vanishes(60)).hold("2", pool, 2, 5, 111, 111, 120), rules, "", "", 0},
		"two runs in a window":     {newScript().hold("1", job, 1, 0, 10, 10, 20).hold("2", job, 2, 50, 70, 70, 80), rules, "windows", "", 0},
		"runs in two windows":      {newScript().hold("1", job, 1, 0, 10, 10, 20).hold("2", job, 2, 50, 100, 100, 110), rules, "", "", 0},
		"token that goes back":     {newScript().hold("1", mutex, 7, 0, 10, 10, 20).hold("2", mutex, 6, 21, 30, 30, 40), rules, "tokens", "no larger token", 2},
		"token of one that waited": {newScript().hold("1", mutex, 7, 0, 10, 10, 20).hold("2", mutex, 6, 5, 30, 30, 40), rules, "tokens", "after it", 0},
		"token about a loss":       {newScript().hold("1", mutex, 7, 0, 18, 18, 20).hold("2", mutex, 6, 5, 19, 30, 40), forgot, "", "", 0},
		"the same token":           {newScript().hold("1", sem, 7, 0, 10, 10, 20).hold("2", sem, 7, 5, 30, 30, 40), rules, "tokens", "the same token", 0},
		"tokens of two at once":    {newScript().hold("1", sem, 7, 0, 10, 10, 20).hold("2", sem, 6, 5, 30, 30, 40), rules, "", "", 0},
		"a late write":             {newScript().access("a", true, 2, 1, 0, 1, true).access("a", true, 1, 2, 2, 3, true), rules, "stale writes", "took token 1", 0},
		"a late read":              {newScript().access("a", true, 2, 1, 0, 1, true).access("a", false, 1, 1, 2, 3, true), rules, "stale writes", "took token 1", 0},
		"refused for no reason":    {newScript().access("a", true, 2, 1, 0, 1, true).access("a", true, 2, 2, 2, 3, false), rules, "registers", "refused token 2", 0},
		"refused for a later call": {newScript().access("a", true, 1, 1, 0, 1, false).access("a", true, 2, 2, 2, 3, true), rules, "registers", "no larger one than 0", 0},
		"refused for a refused":    {newScript().access("a", true, 3, 1, 0, 1, false).access("a", true, 2, 2, 2, 3, false), rules, "registers", "refused token 3", 2},
		"refused for a read":       {newScript().access("a", false, 2, 0, 0, 1, true).access("a", true, 1, 1, 2, 3, false), rules, "", "", 0},
		"refused for a lost call":  {newScript().access("a", false, 2, 0, 0, -1, false).access("a", true, 1, 1, 2, 3, false), rules, "", "", 0},
		"refused at the same time": {newScript().access("a", true, 2, 1, 2, 5, true).access("a", true, 1, 2, 0, 3, false), rules, "", "", 0},
		"without a token":          {newScript().access("a", true, 0, 1, 0, 1, false), rules, "", "", 0},
		"reads what was written":   {newScript().access("a", false, 1, 0, 0, 1, true).access("a", true, 1, 7, 2, 3, true).access("a", false, 2, 7, 4, 5, true), rules, "", "", 0},
		"reads what is not there":  {newScript().access("a", false, 1, 7, 0, 1, true), rules, "registers", "that it is 7", 0},
		"reads what is to come":    {newScript().access("a", false, 1, 7, 0, 1, true).access("a", true, 1, 7, 2, 3, true), rules, "registers", "that it is 7", 0},
		"reads what was before":    {newScript().access("a", true, 1, 7, 0, 1, true).access("a", true, 1, 8, 2, 3, true).access("a", false, 1, 7, 4, 5, true), rules, "registers", "not the last", 0},
		"reads the beginning":      {newScript().access("a", true, 1, 7, 0, 1, true).access("a", false, 1, 0, 2, 3, true), rules, "registers", "that it is 0", 0},
		"reads what was refused":   {newScript().access("a", true, 2, 7, 0, 1, true).access("a", true, 1, 8, 2, 3, false).access("a", false, 2, 8, 4, 5, true), rules, "registers", "that it is 8", 0},
		"reads one of two":         {newScript().access("a", true, 1, 7, 0, 4, true).access("a", true, 1, 8, 1, 3, true).access("a", false, 1, 7, 5, 6, true), rules, "", "", 0},
		"reads a lost write":       {newScript().access("a", true, 1, 7, 0, -1, false).access("a", true, 1, 8, 1, 2, true).access("a", false, 1, 7, 3, 4, true), rules, "", "", 0},
		"reads at the same time":   {newScript().access("a", true, 1, 7, 0, 1, true).access("a", true, 1, 8, 2, 5, true).access("a", false, 1, 7, 3, 4, true), rules, "", "", 0},
		"a late write is refused":  {newScript().access("a", true, 2, 1, 0, 1, true).access("a", true, 1, 2, 2, 3, false), rules, "", "", 0},
		"writes at the same time":  {newScript().access("a", true, 2, 1, 0, 4, true).access("a", true, 1, 2, 2, 3, true), rules, "", "", 0},
		"a lost update":            {newScript().access("a", true, 1, 5, 0, 1, true).access("a", true, 2, 5, 2, 3, true), rules, "lost updates", "one update is lost", 0},
		"served":                   {newScript().wait(500, 1099, true).wait(1000, 1099, true), rules, "", "", 0},
		"served late":              {newScript().wait(500, 1101, true), rules, "served", "was served", 0},
		"served never":             {newScript().wait(500, -1, false), rules, "served", "was not served", 0},
		"served before the calm":   {newScript().wait(0, 900, true), rules, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := c.script.h
			h.Calm, h.End = ms(1000), ms(2000)
			h.Arrange()
			var bad []string
			for _, f := range h.Check(c.rules) {
				if f.Bad == 0 {
					continue
				}
				bad = append(bad, f.Check)
				check.That(t, strings.Contains(f.First, c.says), "%s says %q, want something with %q", f.Check, f.First, c.says)
				check.Equal(t, f.Bad, max(c.count, 1), "%s found", f.Check)
			}
			check.Equal(t, strings.Join(bad, ", "), c.bad, "the checks that found something are")
		})
	}
}

// TestExcusedOverlapsAreCounted has the overlap that a loss explains told all the same.
func TestExcusedOverlapsAreCounted(t *testing.T) {
	t.Parallel()
	h := newScript().hold("1", history.Mutex, 1, 0, 10, 10, 60).hold("2", history.Mutex, 2, 5, 19, 19, 30).h
	h.Arrange()
	f := h.Exclusion(history.Rules{Losses: []history.Loss{{Fault: "delete-key", From: ms(15), Until: ms(16)}}})
	if f.Bad != 0 || f.Excused != 1 || f.ExcusedBy["delete-key"] != 1 {
		t.Fatalf("Exclusion found %d bad and %d excused overlaps, by %v, want 0 and 1", f.Bad, f.Excused, f.ExcusedBy)
	}
	want := history.Excuse{
		At: ms(19), Name: "a", Fault: "delete-key", Struck: ms(15), Lasted: 11 * time.Millisecond,
		Who: "worker 1, goroutine 0, call 1, token 1, and worker 2, goroutine 0, call 1, token 2",
	}
	check.Equal(t, f.Excuses[0], want, "the overlap")
}

// TestLossOfAKeptLock: its client may take it up after the loss, as long as it would have lasted.
func TestLossOfAKeptLock(t *testing.T) {
	t.Parallel()
	h := newScript().hold("1", history.Mutex, 2, 17, 18, 18, 60).hold("2", history.Mutex, 1, 18, 19, 19, 30).h
	h.Arrange()
	for _, k := range h.Holds {
		k.TTL = 100 * time.Millisecond
	}
	r := history.Rules{Losses: []history.Loss{{Fault: "clock-ahead", From: ms(15), Until: ms(16)}}}
	check.Equal(t, h.Exclusion(r).Bad, 1, "overlaps of a lock that is not kept")
	r.Lingers = func(name string) bool { return name == "a" }
	f := h.Exclusion(r)
	check.That(t, f.Bad == 0 && f.Excused == 1, "%d overlaps of a lock that is kept, and %d excused", f.Bad, f.Excused)
}

// TestLinesBecomeHolds has a worker's lines read back, with a last one that a kill cut off.
func TestLinesBecomeHolds(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := history.NewRecorder(&file)
	op := r.Call(history.Event{Type: history.Acquire, Kind: history.Mutex, Name: "a", Wait: true, TTL: int64(time.Second)})
	r.Note(history.Event{Type: history.Granted, Op: op, Token: 5, Owner: "x"})
	held := int64(time.Second)
	r.Look(op, func() int64 { return held })
	r.Look(op, func() int64 { return held })
	write := r.Call(history.Event{Type: history.Write, Of: op, Name: "a", Token: 5, Value: 1})
	r.Note(history.Event{Type: history.Answer, Op: write, OK: true})
	release := r.Call(history.Event{Type: history.Release, Of: op})
	r.Note(history.Event{Type: history.Released, Op: release})
	open := r.Call(history.Event{Type: history.Acquire, Kind: history.Mutex, Name: "a", Wait: true})
	check.OK(t, "Err", r.Err())
	file.WriteString(`{"at":12,"type":"gra`)

	h := history.New()
	w := h.Worker("1")
	check.OK(t, "ReadEvents", history.ReadEvents(&file, w.Add))
	h.Arrange()
	if len(h.Holds) != 1 || len(h.Waits) != 2 || len(h.Access) != 1 {
		t.Fatalf("%d holds, %d waits and %d writes, want 1, 2 and 1", len(h.Holds), len(h.Waits), len(h.Access))
	}
	k := h.Holds[0]
	if !k.Believed() || k.Token != 5 || k.Sure <= k.Last || k.Called > k.Granted || k.Granted > k.First || k.Last > k.Release || k.Release > k.Released {
		t.Errorf("the hold is %+v, want its times in order", *k)
	}
	if w := h.Waits[1]; w.Op != open || w.Ended != history.Never {
		t.Errorf("the acquisition that was cut off is %+v, want it open for ever", *w)
	}
	if a := h.Access[0]; !a.OK || a.Returned < a.Called {
		t.Errorf("the write is %+v, want it taken", *a)
	}
	altered := strings.NewReader("{\"at\":1}\nnonsense\n{\"at\":2}\n")
	check.That(t, history.ReadEvents(altered, w.Add) != nil, "ReadEvents = nil, want an error")
}

// TestHandOversAreCounted: a lock that goes from one worker to another is handed over, one that the
// same worker has again is not, and neither are permits.
func TestHandOversAreCounted(t *testing.T) {
	t.Parallel()
	s := newScript().hold("1", history.Mutex, 1, 0, 1, 1, 2).hold("2", history.Mutex, 2, 0, 3, 3, 4).hold("2", history.Mutex, 3, 4, 5, 5, 6).
		hold("1", history.Mutex, 4, 4, 7, 7, 8)
	check.Equal(t, s.h.HandOvers(), 2, "HandOvers")
	permits := newScript().hold("1", history.Semaphore, 1, 0, 1, 1, 2).hold("2", history.Semaphore, 2, 0, 3, 3, 4)
	check.Equal(t, permits.h.HandOvers(), 0, "HandOvers of permits")
}
