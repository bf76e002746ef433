package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
)

// Ticket is one waiter in line.
type Ticket struct {
	Anyway  bool   // grant it even if PUBLISH counts no listener
	Sharded bool   // the address is a sharded channel
	Kind    string // of the latch
	Address string // channel of its client
	TTL     time.Duration
	Param   string // for the kind
	Owner   string
}

// Yielding is the kind of a ticket that belongs to no waiter. It keeps the line out while the key
// is left free for other libraries.
const Yielding = "yield"

// modes is the first letter of a ticket, by Sharded and Anyway.
var modes = map[bool]map[bool]string{false: {false: "H", true: "A"}, true: {false: "S", true: "T"}}

// String returns the ticket as it is stored in the line.
func (t Ticket) String() string {
	mode := modes[t.Sharded][t.Anyway]
	return strings.Join([]string{mode + t.Kind, t.Address, millis(t.TTL), t.Param, t.Owner}, "\t")
}

// ParseTicket reads what String wrote.
func ParseTicket(text string) (Ticket, error) {
	field := strings.SplitN(text, "\t", 5)
	if len(field) != 5 {
		return Ticket{}, fmt.Errorf("ticket %q has %d fields, want 5", text, len(field))
	}
	ms, err := strconv.ParseInt(field[2], 10, 64)
	if err != nil || ms < 0 || field[0] == "" || !strings.Contains("HAST", field[0][:1]) {
		return Ticket{}, fmt.Errorf("ticket %q is malformed", text)
	}
	return Ticket{
		Anyway: strings.Contains("AT", field[0][:1]), Sharded: strings.Contains("ST", field[0][:1]), Kind: field[0][1:], Address: field[1], TTL: clock.Millis(ms), Param: field[3], Owner: field[4],
	}, nil
}
