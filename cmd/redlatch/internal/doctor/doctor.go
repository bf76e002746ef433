// Package doctor checks a Redis deployment for problems that can hurt locks, and says what to do
// about them.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/link/dial"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/protocol/address"
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

// Finding is one thing that was looked at.
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
	TTL    time.Duration // of the leases that are to be kept there
	Look   time.Duration // for how long names are looked through; 0: 3s

	// Explain returns what to say of a server that cannot be reached, and what to do, or "".
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
	offset map[string]time.Duration // of each server's clock against this machine's
	runs   map[string]string        // by the run_id of a node of the quorum: its address
	keys   int64                    // on all servers, as far as they tell
	url    string                   // of the deployment that is looked at
	silent bool                     // a server cannot be reached
	user   string                   // that the URL of the deployment which is looked at names; "" if none
	faulty bool                     // a user lacks rights that redlatch needs, and that was told
	shards bool                     // the deployment that is looked at is a cluster with sharded channels
}

// node is a server that can be talked to.
type node struct {
	addr   string
	client rueidis.Client
	conn   *redlatchrueidis.Conn
	info   map[string]string
}

// Examine looks at everything, and reports what it finds as it goes.
func Examine(ctx context.Context, o Options, report func(Finding)) error {
	o.Look = cmp.Or(o.Look, 3*time.Second)
	v := &visit{Options: o, offset: make(map[string]time.Duration), runs: make(map[string]string)}
	var refused []Finding
	v.report = func(f Finding) {
		if f.Check != "rights" && strings.Contains(f.Found, "NOPERM") {
			refused = append(refused, f) // which the line about rights covers, if there is one
			return
		}
		report(f)
	}
	defer func() {
		if !v.faulty {
			for _, f := range refused {
				report(f)
			}
		}
	}()
	for _, url := range o.URLs {
		if err := v.deployment(ctx, url); err != nil {
			return err
		}
	}
	v.clocks()
	if !v.silent || len(o.URLs) > 1 {
		v.locks(ctx)
	}
	return nil
}

// parse returns how to dial what a URL leads to, its address in words, and whether it says that it is
// a cluster.
func parse(url string) (dial rueidis.ClientOption, addr string, cluster bool, err error) {
	if dial, cluster, err = address.Parse(url); err != nil {
		return dial, "", false, fmt.Errorf("%w: the Redis URL cannot be used: %w", redlatch.ErrInvalid, err)
	}
	dial.DisableCache, dial.DisableRetry = true, true
	dial.Dialer.Timeout = cmp.Or(dial.Dialer.Timeout, patience)
	return dial, strings.Join(dial.InitAddress, ","), cluster, nil
}

// Access returns commands for each user that the URLs name, which give it the rights that redlatch
// needs; if one names none, a command that makes a user.
func Access(o Options) (lines []string, err error) {
	cannot := func(what, text string) error {
		return fmt.Errorf("%w: the %s %q has a blank or a quote, which the rules of a user cannot spell", redlatch.ErrInvalid, what, text)
	}
	spells := func(text string) bool {
		return !strings.ContainsAny(text, `"'`) && !strings.ContainsFunc(text, unicode.IsSpace)
	}
	if !spells(o.Prefix) {
		return nil, cannot("prefix", o.Prefix)
	}
	for _, url := range o.URLs {
		dial, _, cluster, err := parse(url)
		if err != nil {
			return nil, err
		}
		if !spells(dial.Username) {
			return nil, cannot("user", dial.Username)
		}
		for _, line := range access.Lines(dial.Username, o.Prefix, cluster) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}

// connect connects to what a URL leads to, or reports why it cannot, and returns nil.
func (v *visit) connect(ctx context.Context, url, addr string, o rueidis.ClientOption) (client rueidis.Client) {
	v.url = url
	c, err := dial.One(ctx, url, dial.Options{Timeout: patience}) // whose errors are those of other commands
	if err == nil {
		_ = c.Close()
		client, err = rueidis.NewClient(o)
	}
	if err != nil {
		v.unreachable(addr, err)
		return nil
	}
	return client
}

// unreachable reports a server that does not answer, or does not let the doctor in.
func (v *visit) unreachable(addr string, err error) {
	v.silent = true
	found, advice := v.Explain(err, v.url)
	advice = cmp.Or(advice, "check the address, the password and the network")
	v.report(Finding{addr, "reach", Fault, found, advice + "; nothing else of this server was looked at"})
}

// deployment looks at what one URL leads to. The error says that the URL makes no sense.
func (v *visit) deployment(ctx context.Context, url string) error {
	dial, addr, cluster, err := parse(url)
	if err != nil {
		return err
	}
	v.user = dial.Username
	client := v.connect(ctx, url, addr, dial)
	if client == nil {
		return nil
	}
	defer client.Close()
	cluster = cluster || client.Mode() == rueidis.ClientModeCluster
	servers := client.Nodes()
	if !cluster && len(servers) == 0 {
		servers = map[string]rueidis.Client{addr: client}
	}
	var masters []*node
	for _, at := range slices.Sorted(maps.Keys(servers)) {
		n := &node{addr: at, client: servers[at], conn: redlatchrueidis.New(servers[at], at)}
		v.server(ctx, n, cluster)
		v.shards = cluster && v.shards
		if n.info["role"] == "master" {
			masters = append(masters, n)
			v.once(n)
		}
	}
	one := &node{addr: addr, client: client, conn: redlatchrueidis.New(client, addr)}
	if cluster {
		whole := *one
		if len(masters) > 0 { // which answers: another node may be down
			whole.client = masters[0].client
		}
		v.cluster(ctx, &whole)
		v.together(ctx, dial, &whole)
	}
	if !cluster || len(masters) == 0 { // or nobody tells
		masters = []*node{one}
	}
	for _, n := range masters { // each has users of its own
		v.rights(ctx, n)
		v.size(ctx, n)
	}
	v.listening(ctx, one, false)
	if v.shards {
		v.listening(ctx, one, true)
	}
	return nil
}

// once reports a node of the quorum to which another URL leads, too.
func (v *visit) once(n *node) {
	id := n.info["run_id"]
	if other := v.runs[id]; id != "" && other != "" && len(v.URLs) > 1 {
		const advice = "it has two votes, so that its loss can be that of the majority: name each server once"
		v.report(Finding{"", "votes", Fault, fmt.Sprintf("%s and %s are one server", n.addr, other), advice})
	}
	v.runs[id] = n.addr
}

// size adds the number of keys on a server to those that are known.
func (v *visit) size(ctx context.Context, n *node) {
	m, err := n.ask(ctx, "DBSIZE") // which may not be permitted
	if size, e := m.AsInt64(); err == nil && e == nil {
		v.keys += size
	}
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
	return strings.TrimPrefix(text, "txt:"), err // what RESP3 marks a text with
}

// clean is an error without what says only where it passed.
func clean(err error) string {
	if refused, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return refused.Error()
	}
	return strings.NewReplacer("\n", "; ", context.DeadlineExceeded.Error(), "no answer in time").Replace(err.Error())
}
