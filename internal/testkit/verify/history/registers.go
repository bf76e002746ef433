package history

import (
	"math"
	"slices"
)

// accessByName groups the calls of the registers, in the order in which they began.
func (h *History) accessByName() map[string][]*Access {
	return grouped(h.Access, func(a *Access) string { return a.Name })
}

// replay goes through the calls of one register. It calls began for each in turn, after ended for
// all that had returned before it began.
func replay(calls []*Access, ended, began func(*Access)) {
	returned, next := sorted(calls, byReturn), 0
	for _, a := range calls { // by Called
		for ; returned[next].Returned < a.Called; next++ {
			ended(returned[next])
		}
		began(a)
	}
}

func byReturn(a *Access) int64 { return a.Returned }

// Stale looks for a register that took an older token after a newer one.
func (h *History) Stale() Finding {
	f := Finding{Check: "stale writes", Promise: "a resource that checks tokens takes no write of a holder that came before"}
	for name, calls := range h.accessByName() {
		var newest *Access
		replay(calls, func(a *Access) {
			if a.OK && (newest == nil || a.Token > newest.Token) {
				newest = a
			}
		}, func(a *Access) {
			f.Looked++
			if a.OK && newest != nil && a.Token < newest.Token {
				f.bad(a.Called, name, "register %q took token %d of worker %s (call %d) at %s, after token %d of worker %s (call %d) at %s",
					name, a.Token, a.Worker, a.Op, h.At(a.Called), newest.Token, newest.Worker, newest.Op, h.At(newest.Returned))
			}
		})
	}
	return f
}

// LostUpdates looks for two writes that the register took and that were made from the same value.
func (h *History) LostUpdates() Finding {
	f := Finding{Check: "lost updates", Promise: "no update of a resource that checks tokens is lost"}
	for name, calls := range h.accessByName() {
		wrote := make(map[int64]*Access)
		for _, a := range calls {
			if !a.Write || !a.OK {
				continue
			}
			f.Looked++
			if other := wrote[a.Value]; other != nil {
				f.bad(a.Called, name, "register %q was set to %d by worker %s (token %d, call %d) and again by worker %s (token %d, call %d): one update is lost",
					name, a.Value, other.Worker, other.Token, other.Op, a.Worker, a.Token, a.Op)
			}
			wrote[a.Value] = a
		}
	}
	return f
}

// Registers looks for an answer that the other calls of a register do not explain. The checks of the
// writes rest on these answers.
func (h *History) Registers() Finding {
	f := Finding{Check: "registers", Promise: "a register refuses a token only for a larger one, and a read returns what was written last"}
	for name, calls := range h.accessByName() {
		h.refusals(&f, name, calls)
		h.reads(&f, name, calls)
	}
	return f
}

// refusals looks for a call that was refused though the register cannot have taken a larger token
// before it. A call without an answer may have been taken. So may a read: the register remembers its
// token as it does that of a write, and a worker that is killed after its read leaves no other trace.
func (h *History) refusals(f *Finding, name string, calls []*Access) {
	var largest int64 // of the tokens that may have been taken
	next := 0
	for _, a := range sorted(calls, byReturn) {
		if a.Returned == Never {
			return
		}
		f.Looked++
		for ; next < len(calls) && calls[next].Called <= a.Returned; next++ {
			if b := calls[next]; b.OK || b.Returned == Never {
				largest = max(largest, b.Token)
			}
		}
		if !a.OK && a.Token != 0 && a.Token >= largest {
			f.bad(a.Called, name, "register %q refused token %d of worker %s (call %d) at %s, and can have seen no larger one than %d",
				name, a.Token, a.Worker, a.Op, h.At(a.Called), largest)
		}
	}
}

// reads looks for a read that returned a value which no write before it left there: it was never
// written, or another write came between.
func (h *History) reads(f *Finding, name string, calls []*Access) {
	wrote := map[int64][]*Access{0: {{Called: math.MinInt64, Returned: math.MinInt64}}} // a register begins with 0
	for _, a := range calls {
		if a.Write && (a.OK || a.Returned == Never) {
			wrote[a.Value] = append(wrote[a.Value], a)
		}
	}
	over := int64(math.MinInt64) // a write that returned before this time is overwritten
	replay(calls, func(a *Access) {
		if a.Write && a.OK {
			over = max(over, a.Called)
		}
	}, func(a *Access) {
		if a.Write || !a.OK {
			return
		}
		f.Looked++
		explains := func(w *Access) bool { return w.Called <= a.Returned && w.Returned >= over }
		if !slices.ContainsFunc(wrote[a.Value], explains) {
			f.bad(a.Called, name, "register %q told worker %s (token %d, call %d) at %s that it is %d, which was not the last that was written",
				name, a.Worker, a.Token, a.Op, h.At(a.Called), a.Value)
		}
	})
}
