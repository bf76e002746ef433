package verify

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlatch/redlatch/internal/verify/history"
)

// linearPatience bounds the search of porcupine. The checks of package history do not need it: they
// look at every write, and porcupine confirms.
const linearPatience = 20 * time.Second

// linearizable is what the check is called.
const linearizable = "linearizable"

// registerState is a register that checks tokens.
type registerState struct{ newest, value int64 }

// registerOutput is its answer; unknown if there was none.
type registerOutput struct {
	ok      bool
	value   int64
	unknown bool
}

// registerModel takes a call unless it saw a larger token, and remembers the token.
var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(registerState), input.(*history.Access), output.(registerOutput)
		fresh := in.Token != 0 && in.Token >= s.newest
		next := s
		if fresh {
			next.newest = in.Token
			if in.Write {
				next.value = in.Value
			}
		}
		switch {
		case out.unknown:
			return true, next
		case out.ok != fresh:
			return false, s
		case fresh && !in.Write && out.value != s.value:
			return false, s
		}
		return true, next
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(*history.Access), output.(registerOutput)
		what := "read"
		if in.Write {
			what = fmt.Sprintf("write %d", in.Value)
		}
		if out.unknown {
			return fmt.Sprintf("%s with token %d: no answer", what, in.Token)
		}
		return fmt.Sprintf("%s with token %d: taken %t", what, in.Token, out.ok)
	},
}

// linear has porcupine look for an order of all calls of each register that explains the answers.
// A call without an answer may take place at any later time. That holds for reads, too: without the
// read of a worker that was killed, nothing explains that the register then refuses a smaller token.
func linear(h *history.History) history.Finding {
	f := history.Finding{Check: linearizable, Promise: "each register behaves as if it took one call after the other (porcupine)"}
	registers := operations(h)
	deadline := time.Now().Add(linearPatience)
	for name, operations := range registers {
		switch porcupine.CheckOperationsTimeout(registerModel, operations, max(time.Until(deadline), time.Millisecond)) {
		case porcupine.Ok:
			f.Looked += len(operations)
		case porcupine.Illegal:
			f.Looked += len(operations)
			f.Bad++
			f.Name, f.First = name, fmt.Sprintf("no order of the %d calls of register %q explains their answers", len(operations), name)
		case porcupine.Unknown: // that is told by Looked
		}
	}
	return f
}

// operations are the calls of each register.
func operations(h *history.History) map[string][]porcupine.Operation {
	registers := make(map[string][]porcupine.Operation)
	clients := make(map[string]int)
	for _, a := range h.Access {
		if _, known := clients[a.Worker]; !known {
			clients[a.Worker] = len(clients)
		}
		out := registerOutput{ok: a.OK, value: a.Value, unknown: a.Returned == history.Never}
		registers[a.Name] = append(registers[a.Name], porcupine.Operation{
			ClientId: clients[a.Worker], Input: a, Output: out, Call: a.Called, Return: a.Returned,
		})
	}
	return registers
}

// linearFile is where porcupine draws a register that fits no order of its calls.
const linearFile = "linearizable.html"

// draw has porcupine draw such a register, with the faults.
func draw(file, name string, h *history.History) error {
	result, info := porcupine.CheckOperationsVerbose(registerModel, operations(h)[name], linearPatience)
	if result != porcupine.Illegal {
		return nil // it took too long this time
	}
	var faults []porcupine.Annotation
	for _, e := range h.Faults {
		if e.Asked != 0 {
			faults = append(faults, porcupine.Annotation{Tag: "faults", Start: e.Asked, End: e.At, Description: e.Name, Details: e.Target})
		}
	}
	info.AddAnnotations(faults)
	return porcupine.VisualizePath(registerModel, info, file)
}
