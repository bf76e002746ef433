package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ticket is one waiter in line.
type Ticket struct {
	Anyway  bool   // grant it even if PUBLISH counts nobody who hears it
	Kind    string // of the latch
	Address string // channel of its client
	TTL     time.Duration
	Arg     string // for the kind
	Owner   string
}

// String is the ticket as it stands in the queue.
func (t Ticket) String() string {
	mode := "H"
	if t.Anyway {
		mode = "A"
	}
	return strings.Join([]string{mode + t.Kind, t.Address, millis(t.TTL), t.Arg, t.Owner}, "\t")
}

// ParseTicket reads what String wrote.
func ParseTicket(text string) (Ticket, error) {
	field := strings.SplitN(text, "\t", 5)
	if len(field) != 5 {
		return Ticket{}, fmt.Errorf("ticket %q has %d fields, want 5", text, len(field))
	}
	ms, err := strconv.ParseInt(field[2], 10, 64)
	if err != nil || ms < 0 || field[0] == "" || field[0][0] != 'H' && field[0][0] != 'A' {
		return Ticket{}, fmt.Errorf("ticket %q is malformed", text)
	}
	return Ticket{
		Anyway: field[0][0] == 'A', Kind: field[0][1:], Address: field[1], TTL: time.Duration(ms) * time.Millisecond, Arg: field[3], Owner: field[4],
	}, nil
}
