package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/redlatchrueidis"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK      Level = "ok"      // as it should be
	Note    Level = "note"    // worth knowing
	Warning Level = "warning" // may hurt when something else goes wrong
	Fault   Level = "fault"   // hurts
)

// Finding is the result of one check.
type Finding struct {
	Server string `json:"server"` // "" for the whole deployment
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Advice string `json:"advice"` // "" if there is nothing to do
}

// Options say what to look at.
type Options struct {
	URLs   []string // one deployment, or the nodes of a quorum
	Prefix string
	TTL    time.Duration // of the leases that are used there
	Look   time.Duration // how long to look through the names; 0 means 3s

	// Explain returns what to say about an unreachable server, and what to do about it, or "".
	Explain func(err error, url string) (found, advice string)

	// Again returns a command line about a lock on these servers.
	Again func(name string, args ...string) string
}

// patience bounds each request.
const patience = 3 * time.Second

// visit is one examination.
type visit struct {
	Options
	report func(Finding)
	offset map[string]time.Duration // of each server's clock from this machine's
	runs   map[string]string        // address of each node of the quorum, by its run_id
	keys   int64                    // on all servers, as far as they say
	url    string                   // of the deployment under examination
	silent bool                     // no server of that deployment can be reached
	user   string                   // in the URL of that deployment; "" if none
	faulty bool                     // a finding says that a user lacks rights which redlatch needs
	shards bool                     // that deployment is a cluster with sharded channels
}

// node is a server that the doctor can reach.
type node struct {
	addr   string
	client rueidis.Client
	conn   *redlatchrueidis.Conn
	info   map[string]string
}

// unknown is the advice for a server that lacks commands.
const unknown = "it is not Redis, or its rename-command hides them: `redlatch doctor --probe` tests it"

// permit is the advice for a user without the rights.
const permit = "`redlatch doctor --acl` prints the commands that give the rights"

// unreachable reports a server that does not answer, or does not let the doctor in.
func (v *visit) unreachable(addr string, err error) {
	v.silent = true
	found, advice := v.Explain(err, v.url)
	advice = cmp.Or(advice, "check the address, the password and the network")
	v.report(Finding{addr, "reach", Fault, found, advice + "; no other check of this server was made"})
}

// ask sends one command.
func (n *node) ask(ctx context.Context, command ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return n.client.Do(ctx, n.client.B().Arbitrary(command...).Build()).ToMessage()
}

func (n *node) text(ctx context.Context, command ...string) (string, error) {
	m, err := n.ask(ctx, command...)
	if err != nil {
		return "", err
	}
	text, err := m.ToString()
	return strings.TrimPrefix(text, "txt:"), err // the RESP3 mark of a text
}

// clean returns the text of an error without the wrapping that only says where it passed.
func clean(err error) string {
	if refused, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return refused.Error()
	}
	return strings.NewReplacer("\n", "; ", context.DeadlineExceeded.Error(), "no answer in time").Replace(err.Error())
}
