package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// cluster looks at the cluster as a whole.
func (v *visit) cluster(ctx context.Context, n *node) {
	text, err := n.text(ctx, "CLUSTER", "INFO")
	if err != nil && strings.Contains(err.Error(), "not supported") {
		return // this is the embedded server, which is no cluster
	}
	if err != nil {
		advice := "look again when its nodes answer"
		if retry.Says(err, "NOPERM") {
			advice = "permit +cluster|info"
		}
		v.report(Finding{n.addr, "cluster", Warning, "CLUSTER INFO cannot be read: " + clean(err), advice})
		return
	}
	state := Pairs(text, "\n", ":")
	f := Finding{n.addr, "cluster", OK, fmt.Sprintf("state %s, %s of 16384 slots, %s of them failing",
		state["cluster_state"], state["cluster_slots_assigned"], state["cluster_slots_fail"]), ""}
	if state["cluster_state"] != "ok" || state["cluster_slots_assigned"] != "16384" || state["cluster_slots_fail"] != "0" {
		f.Level, f.Advice = Fault, "names in the slots that are missing cannot be locked: `redis-cli --cluster check` and --cluster fix"
	}
	v.report(f)
	nodes, _ := n.text(ctx, "CLUSTER", "NODES")
	for line := range strings.Lines(nodes) {
		if field := strings.Fields(line); len(field) > 2 && slices.Contains(strings.Split(field[2], ","), "fail") {
			addr, _, _ := strings.Cut(field[1], "@")
			advice := "start it: its slots have no other node" // field 8 and on
			if len(field) <= 8 {
				advice = "start it, or remove it with CLUSTER FORGET: its slots have one node fewer"
			}
			v.report(Finding{addr, "cluster", Warning, "the cluster says that this node has failed", advice})
		}
	}
}

// together checks that the addresses of a URL are nodes of one cluster. A client keeps to the cluster
// of the address that answers first, so clients of two clusters could hold a lock at the same time.
func (v *visit) together(ctx context.Context, dial rueidis.ClientOption, n *node) {
	known, err := n.text(ctx, "CLUSTER", "NODES")
	if err != nil {
		return
	}
	dial.ForceSingleClient = true
	for _, addr := range dial.InitAddress {
		dial.InitAddress = []string{addr}
		client, err := rueidis.NewClient(dial)
		if err != nil {
			continue // a node that is down costs nothing: the others are known
		}
		at := &node{addr: addr, client: client}
		id, err := at.text(ctx, "CLUSTER", "MYID")
		client.Close()
		if id = strings.TrimSpace(id); err == nil && !strings.Contains(known, id) {
			v.report(Finding{
				addr, "cluster", Fault, "it is not a node of the cluster to which another address of the URL leads",
				"name nodes of one cluster: clients of two clusters can hold a lock at the same time",
			})
		}
	}
}

// try returns the commands that are not permitted in scripts.
var try = conn.NewScript("doctor", tryLua)

//go:embed try.lua
var tryLua string

// rights looks for what the user may not do.
func (v *visit) rights(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	needed := access.Scripted(v.shards)
	if len(v.URLs) == 1 { // only the nodes of a quorum need INFO
		needed = slices.DeleteFunc(needed, func(name string) bool { return name == "info" })
	}
	var r conn.Result
	for moved := true; moved && ctx.Err() == nil; { // until this node of a cluster has the key's slot
		probe := keys.Grants(v.Prefix, "doctor-"+rand.Text())
		r = n.conn.Eval(ctx, conn.Call{Script: try, Keys: []string{probe}, Args: needed})[0]
		refused, ok := errors.AsType[*conn.ReplyError](r.Err)
		moved = ok && strings.HasPrefix(refused.Text, "MOVED")
	}
	switch what := "scripts cannot be run: "; {
	case r.Err != nil && retry.Transient(r.Err):
		v.report(Finding{n.addr, "rights", Fault, what + clean(r.Err), "run the doctor again when the server works: the user's rights are still unknown"})
		return
	case retry.Says(r.Err, "NOPERM"):
		v.lacks(n, what+clean(r.Err))
		return
	case r.Err != nil:
		v.report(Finding{n.addr, "rights", Fault, what + clean(r.Err), unknown})
		return
	case len(r.Reply.List) != 3:
		v.report(Finding{n.addr, "rights", Fault, "a script returned something else than it should", unknown})
		return
	}
	said := r.Reply.List
	names := func(all []conn.Reply, journal bool) string {
		var of []string
		for _, name := range all {
			if access.ForJournal(name.Text) == journal {
				of = append(of, name.Text)
			}
		}
		return strings.Join(of, ", ")
	}
	for i, advice := range []string{permit, unknown} {
		if all := names(said[i].List, true); all != "" {
			what := []string{"not permitted in scripts: ", "unknown to the server: "}[i]
			v.report(Finding{n.addr, "journal", Note, what + all, "`redlatch log` stays empty; everything else works; " + advice})
		}
	}
	refused, missing := names(said[0].List, false), names(said[1].List, false)
	if refused != "" {
		v.lacks(n, "not permitted in scripts, or not on keys under the prefix: "+refused)
	}
	if missing != "" {
		v.report(Finding{n.addr, "rights", Fault, "the server does not know commands that scripts need: " + missing, unknown})
	}
	if refused+missing == "" {
		v.report(Finding{n.addr, "rights", OK, "scripts and their commands are permitted", ""})
	}
	v.writes(n, said[2].Text)
}

// writes reports why a server refuses to write, if it does: it has too few replicas or a full disk, for
// instance. Without the right, and for a replica, another finding says so.
func (v *visit) writes(n *node, why string) {
	if why == "" || strings.HasPrefix(why, "READONLY") || strings.Contains(why, "permission") || strings.Contains(why, "can't ") {
		return
	}
	_, advice := v.Explain(&conn.ReplyError{Text: why}, v.url)
	if strings.HasPrefix(why, "OOM") { // the advice for other commands is to run the doctor
		advice = "raise maxmemory, or see what else fills the server"
	}
	v.report(Finding{n.addr, "writes", Fault, "the server refuses to write: " + why, cmp.Or(advice, "see its log")})
}

// lacks reports that the user lacks rights without which redlatch cannot be used.
func (v *visit) lacks(n *node, what string) {
	v.faulty = true
	user := cmp.Or(v.user, "default")
	v.report(Finding{n.addr, "rights", Fault, "the user " + user + " may not do what redlatch does: " + what, permit})
}

// listening publishes a message and listens for it, on a plain channel, or on a sharded one, which
// clusters have from Redis 7.0 on.
func (v *visit) listening(ctx context.Context, n *node, sharded bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	channel := keys.Grants(v.Prefix, "doctor-"+rand.Text())
	subscribe, publish, rights, what := n.conn.Subscribe, "PUBLISH", "+subscribe, +publish", "messages"
	if sharded {
		subscribe, publish, what = n.conn.SubscribeSharded, "SPUBLISH", "sharded messages"
		rights = "+ssubscribe, +sunsubscribe, +spublish"
	}
	up, heard := make(chan struct{}, 1), make(chan error, 1)
	hears := func(err error) { // the first call counts
		select {
		case heard <- err:
		default:
		}
	}
	goOn := func() { // subscribe may call it even after it returned
		select {
		case up <- struct{}{}:
		default:
		}
	}
	go func() {
		hears(subscribe(ctx, channel, goOn, func(string) { hears(nil) }))
		goOn()
	}()
	<-up
	hello := conn.NewScript("doctor publish", "return redis.call('"+publish+"', KEYS[1], 'hello')")
	if r := n.conn.Eval(ctx, conn.Call{Script: hello, Keys: []string{channel}})[0]; r.Err != nil {
		hears(r.Err)
	}
	f := Finding{n.addr, "publish", OK, what + " arrive", ""}
	if err := <-heard; err != nil {
		f.Level, f.Found = Warning, "no "+what+" arrive: "+clean(err)
		f.Advice = "waiting still works by polling: at each heartbeat, or four times a second without a subscription"
		if retry.Says(err, "NOPERM") {
			f.Advice += "; to wait without asking, permit " + rights + " and the channels; " + permit
		}
	}
	v.report(f)
}
