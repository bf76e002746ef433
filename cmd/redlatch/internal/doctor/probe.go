package doctor

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// abilities is a script that tries what redlatch's scripts need of a server.
var abilities = conn.NewScript("doctor abilities", abilitiesLua)

//go:embed abilities.lua
var abilitiesLua string

const unusable = "redlatch cannot be used on this server"

// needs lists what redlatch needs of a server, and what does not work without it.
var needs = []struct {
	ability string // as abilities names it
	what    string
	level   Level
	cost    string
}{
	{"time", "TIME in scripts", Fault, unusable + ": expiries and the order of waiters go by the server's clock"},
	{"expiry", "keys that expire by the millisecond", Fault, unusable + ": a crashed holder would keep its lock"},
	{"numbers", "numbers in scripts keep their digits", Fault, unusable + ": tokens would not be in order"},
	{"sorted sets", "sorted sets with exact scores", Fault, unusable + ": the line of waiters is a sorted set"},
	{"bitmaps", "BITPOS in scripts", Warning, "slot pools cannot be used; all other kinds can"},
	{"run_id", "INFO with run_id in scripts", Note, "the server cannot be a node of a quorum: after a restart it could not tell that it may have forgotten its votes"},
	{"PUBLISH", "PUBLISH in scripts", Warning, "waiters get no message: a hand-over takes up to one heartbeat (5s)"},
	{"NUMSUB", "PUBSUB NUMSUB in scripts", Note, "a dead waiter is skipped only after its client has been silent for three heartbeats"},
	{"SPUBLISH", "SPUBLISH in scripts", Note, "in a cluster, grants go over plain channels, to all of its nodes"},
}

// Probe tries what redlatch needs of each server: in a few scripts and a few commands. The scripts
// use their own keys under the prefix, which Probe deletes. It trusts what the server does, not the
// version that it reports.
func Probe(ctx context.Context, o Options, report func(Finding)) error {
	v := &visit{Options: o, report: report, offset: make(map[string]time.Duration)}
	for _, url := range o.URLs {
		if err := v.probe(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// probe tries the servers of one URL. It returns an error if the URL makes no sense.
func (v *visit) probe(ctx context.Context, url string) error {
	dial, addr, cluster, err := parse(url)
	if err != nil {
		return err
	}
	var nodes [2]*node // two, each with its own connections
	for i := range nodes {
		client := v.connect(ctx, url, addr, dial)
		if client == nil {
			return nil
		}
		defer client.Close()
		cluster = cluster || client.Mode() == rueidis.ClientModeCluster
		nodes[i] = &node{addr: addr, client: client, conn: redlatchrueidis.New(client, addr)}
	}
	start := time.Now()
	if v.abilities(ctx, nodes[0], cluster) {
		v.isolation(ctx, nodes[0], nodes[1])
		v.listening(ctx, nodes[0], false)
		if cluster {
			v.listening(ctx, nodes[0], true)
		}
	}
	v.commands(ctx, nodes[0], dial.Sentinel.MasterSet != "")
	v.report(Finding{addr, "probe", OK, "took " + round(time.Since(start)).String() + "; its keys are deleted", ""})
	return nil
}

// abilities reports what scripts can do, and whether they can be run at all.
func (v *visit) abilities(ctx context.Context, n *node, cluster bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := keys.Grants(v.Prefix, "doctor-"+rand.Text())
	call := conn.Call{Script: abilities, Keys: []string{key, key + ":set", key + ":bits", key + ":channel"}}
	if cluster {
		call.Args = []string{"SPUBLISH"}
	}
	r := n.conn.Eval(ctx, call)[0]
	if r.Err != nil {
		v.report(Finding{
			n.addr, "scripts", Fault, "scripts cannot be run: " + clean(r.Err),
			unusable + " unless its user may run them: " + permit,
		})
		return false
	}
	wrong := make(map[string]string)
	for pair := range slices.Chunk(r.Reply.List, 2) {
		wrong[pair[0].Text] = pair[1].Text
	}
	for _, need := range needs {
		text, tried := wrong[need.ability]
		f := Finding{n.addr, need.ability, OK, need.what, ""}
		switch {
		case !tried:
			continue
		case text != "":
			f.Level, f.Found, f.Advice = need.level, need.what+": no: "+clean(errors.New(text)), need.cost
			if need.ability == "run_id" && len(v.URLs) > 1 {
				f.Level = Fault
			}
		}
		v.report(f)
	}
	return true
}

// reads is how often a script reads a key to find out whether another script changes it.
const reads = 5000

var reader = conn.NewScript("doctor read", `local before = redis.call('GET', KEYS[1])
for _ = 1, tonumber(ARGV[1]) do
  if redis.call('GET', KEYS[1]) ~= before then return 0 end
end
return 1
`)

var writer = conn.NewScript("doctor write", `redis.call('SET', KEYS[1], ARGV[1], 'PX', 5000)
return 1
`)

var remover = conn.NewScript("doctor delete", "return redis.call('DEL', KEYS[1])")

// isolation reports whether a running script sees what another script writes.
func (v *visit) isolation(ctx context.Context, n, other *node) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := keys.Grants(v.Prefix, "doctor-"+rand.Text())
	var writes atomic.Int64
	var enough atomic.Bool
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; !enough.Load(); i++ {
			r := other.conn.Eval(ctx, conn.Call{Script: writer, Keys: []string{key}, Args: []string{strconv.Itoa(i)}})[0]
			if r.Err != nil {
				return
			}
			writes.Add(1)
		}
	})
	f := Finding{n.addr, "isolation", OK, "", ""}
	for range 5 {
		r := n.conn.Eval(ctx, conn.Call{Script: reader, Keys: []string{key}, Args: []string{strconv.Itoa(reads)}})[0]
		switch {
		case r.Err != nil:
			f.Level, f.Found, f.Advice = Warning, "not found out: "+clean(r.Err), "try again"
		case r.Reply.Int == 0:
			f.Level, f.Found = Fault, "a script saw what another one wrote while it ran"
			f.Advice = unusable + ": two clients can acquire one lock at once. Garnet has --lua-transaction-mode"
		}
		if f.Found != "" {
			break
		}
	}
	enough.Store(true)
	writing.Wait()
	n.conn.Eval(ctx, conn.Call{Script: remover, Keys: []string{key}})
	switch {
	case f.Found == "" && writes.Load() == 0:
		f.Level, f.Found, f.Advice = Warning, "not found out: no script ran beside another", "try again"
	case f.Found == "":
		f.Found = fmt.Sprintf("5 scripts of %d reads saw none of %d writes of others", reads, writes.Load())
	}
	v.report(f)
}

// commands tries the commands that clients send beside scripts.
func (v *visit) commands(ctx context.Context, n *node, sentinel bool) {
	for _, c := range []struct {
		command string
		level   Level
		cost    string
		when    bool
	}{
		{"SCAN 0 COUNT 1", Note, "redlatch ls and Client.List cannot list names; an exact name can be inspected", true},
		{"INFO server", Note, "redlatch doctor can look at less: eviction, persistence and replicas are for you to check", true},
		{"WAIT 0 1", Note, "LockOptions.Replicas cannot be used", true},
		{"ROLE", Fault, "a master cannot be told from a replica after a failover", sentinel},
	} {
		if !c.when {
			continue
		}
		name, _, _ := strings.Cut(c.command, " ")
		f := Finding{n.addr, name, OK, "permitted", ""}
		if _, err := n.ask(ctx, strings.Fields(c.command)...); err != nil {
			f.Level, f.Found, f.Advice = c.level, clean(err), c.cost
		}
		v.report(f)
	}
}
