// Package doctor checks a Redis deployment for problems that can hurt locks, and says what to do
// about them.
//
//	doctor.go      which checks are made, in which order (Examine, and deployment for one URL)
//	finding.go     what a check finds, and what each check has at hand
//	server.go      one server: latency, version, role, memory, persistence, replicas, clock
//	deployment.go  the cluster, the user's rights, publishing
//	locks.go       votes of a quorum, names and keys, deadlocks
//	probe.go       doctor --probe: what redlatch needs of a server, tried one by one
//	text.go        the findings as text
//
// A new check is a method of visit that calls v.report with a [Finding]. Examine or deployment calls
// the method. TestRunbook wants a section of docs/operations.md for it.
package doctor

import (
	"cmp"
	"context"
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

// Examine looks at everything, and reports what it finds as it goes.
func Examine(ctx context.Context, o Options, report func(Finding)) error {
	o.Look = cmp.Or(o.Look, 3*time.Second)
	v := &visit{Options: o, offset: make(map[string]time.Duration), runs: make(map[string]string)}
	var refused []Finding
	v.report = func(f Finding) {
		if f.Check != "rights" && strings.Contains(f.Found, "NOPERM") {
			refused = append(refused, f) // the finding about rights covers it, if there is one
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

// parse returns how to dial the servers of a URL, their address in words, and whether the URL names
// a cluster.
func parse(url string) (dial rueidis.ClientOption, addr string, cluster bool, err error) {
	if dial, cluster, err = address.Parse(url); err != nil {
		return dial, "", false, fmt.Errorf("%w: the Redis URL cannot be used: %w", redlatch.ErrInvalid, err)
	}
	dial.DisableCache, dial.DisableRetry = true, true
	dial.Dialer.Timeout = cmp.Or(dial.Dialer.Timeout, patience)
	return dial, strings.Join(dial.InitAddress, ","), cluster, nil
}

// Access returns the commands that give each user in the URLs the rights that redlatch needs. For a
// URL without a user, it returns a command that creates one.
func Access(o Options) (lines []string, err error) {
	cannot := func(what, text string) error {
		return fmt.Errorf("%w: the %s %q contains a space or a quote, which ACL rules cannot express", redlatch.ErrInvalid, what, text)
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

// connect connects to the servers of a URL. If it cannot, it reports why, and returns nil.
func (v *visit) connect(ctx context.Context, url, addr string, o rueidis.ClientOption) (client rueidis.Client) {
	v.url = url
	c, err := dial.One(ctx, url, dial.Options{Timeout: patience}) // its errors are those of other commands
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

// deployment examines the servers of one URL. It returns an error if the URL makes no sense.
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
	answers := false
	for _, at := range slices.Sorted(maps.Keys(servers)) {
		n := &node{addr: at, client: servers[at], conn: redlatchrueidis.New(servers[at], at)}
		answers = v.server(ctx, n, cluster) || answers
		v.shards = cluster && v.shards
		if n.info["role"] == "master" {
			masters = append(masters, n)
			v.once(n)
		}
	}
	v.silent = !answers // or the names on the nodes of a cluster that answer would not be looked at
	one := &node{addr: addr, client: client, conn: redlatchrueidis.New(client, addr)}
	if cluster {
		whole := *one
		if len(masters) > 0 { // this node answers; another one may be down
			whole.client = masters[0].client
		}
		v.cluster(ctx, &whole)
		v.together(ctx, dial, &whole)
	}
	if !cluster || len(masters) == 0 { // or no node says that it is a master
		masters = []*node{one}
	}
	for _, n := range masters { // each master has its own users
		v.rights(ctx, n)
		v.size(ctx, n)
	}
	v.listening(ctx, one, false)
	if v.shards {
		v.listening(ctx, one, true)
	}
	return nil
}

// once reports a node of the quorum that another URL names, too.
func (v *visit) once(n *node) {
	id := n.info["run_id"]
	if other := v.runs[id]; id != "" && other != "" && len(v.URLs) > 1 {
		const advice = "it has two votes, so losing it can cost the majority: name each server once"
		v.report(Finding{"", "votes", Fault, fmt.Sprintf("%s and %s are one server", n.addr, other), advice})
	}
	v.runs[id] = n.addr
}

// size adds the number of keys on a server to the total.
func (v *visit) size(ctx context.Context, n *node) {
	m, err := n.ask(ctx, "DBSIZE") // this may not be permitted
	if size, e := m.AsInt64(); err == nil && e == nil {
		v.keys += size
	}
}
