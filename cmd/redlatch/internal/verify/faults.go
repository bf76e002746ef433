package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// A Fault is one kind of harm. A new one goes into Faults and docs/verify.md. If it can break
// exclusion, it also needs loses, and a case in promises (plan.go). Harm to a connection is in
// testkit/verify/link.
type Fault struct {
	Name    string
	About   string
	Disrupt bool // it hits all clients of the servers

	lane  int                                                                      // faults of one lane are done one after the other
	at    string                                                                   // deployments where it can be done; "" for all
	own   bool                                                                     // only at servers of its own
	needs ability                                                                  // of the servers
	loses string                                                                   // what it may make Redis forget: "" nothing, "name", "all"
	rests bool                                                                     // before the next, locks are to be held for a while
	do    func(ctx context.Context, r *run) (effect int64, what string, err error) // the effect is byWorker if the worker notes it
}

// ability is something that servers can be started with.
type ability int

// The abilities.
const (
	clocks ability = iota + 1
	wires
	successors // a replica that can take over
)

// The lanes.
const (
	processes = iota
	links
	serversLane
	lanes
)

// Faults returns all faults.
func Faults() []Fault {
	return []Fault{
		{Name: "stop", About: "a worker is suspended (SIGSTOP) for longer than its leases last", lane: processes, do: onWorker(stopWorker)},
		{Name: "kill", About: "a worker is killed (SIGKILL); another takes its place", lane: processes, do: onWorker(killWorker)},
		{Name: "stall", About: "a holder stands still past its lease, and then writes without a look", lane: processes, do: stall},
		{Name: "delay", About: "requests or replies of a worker are late by up to a TTL", lane: links, do: harmLink("delay", delays)},
		{Name: "swallow-requests", About: "requests of a worker do not arrive", lane: links, do: harmLink("swallow-requests", func(*run) link.Harm { return link.Harm{SwallowRequests: true} })},
		{Name: "swallow-replies", About: "requests of a worker arrive, and their replies do not", lane: links, do: harmLink("swallow-replies", func(*run) link.Harm { return link.Harm{SwallowReplies: true} })},
		{Name: "cut", About: "all connections of a worker are closed", lane: links, do: onWorker(cutLink)},
		{Name: "cut-reply", About: "a connection ends in the middle of a reply", lane: links, do: harmLink("cut-reply", func(*run) link.Harm { return link.Harm{CutReply: true} })},
		{Name: "slow", About: "a worker gets its replies at a few kilobytes a second", lane: links, do: harmLink("slow", func(*run) link.Harm { return link.Harm{Slow: 4 << 10} })},
		{Name: "kill-connections", About: "Redis closes connections of the workers (CLIENT KILL ID)", lane: serversLane, do: killConnections},
		{Name: "script-flush", About: "Redis forgets its scripts (SCRIPT FLUSH)", lane: serversLane, do: flushScripts},
		{Name: "delete-key", About: "the key of a lock that is held is deleted", lane: serversLane, loses: "name", do: deleteKey},

		{Name: "client-pause", About: "Redis answers nobody for up to a TTL (CLIENT PAUSE)", Disrupt: true, lane: serversLane, do: pauseClients},
		{Name: "partition", About: "a worker is cut off from one server", Disrupt: true, lane: links, at: "sentinel cluster quorum", own: true, do: harmLink("partition", anyServer)},
		{Name: "server-partition", About: "two servers are cut off from each other: master and replica, sentinel and node, nodes of a cluster", Disrupt: true, lane: serversLane, at: "sentinel cluster", own: true, needs: wires, do: cutServers},
		{Name: "isolation", About: "a master is cut off from all other servers, not from the workers, until its replica has taken over", Disrupt: true, lane: serversLane, at: "sentinel cluster", own: true, needs: wires, loses: "all", rests: true, do: isolateMaster},
		{Name: "clock-ahead", About: "the clocks of all nodes, or of one of a quorum, are set ahead by up to a TTL and a half", Disrupt: true, lane: serversLane, own: true, needs: clocks, loses: "all", rests: true, do: setAhead},
		{Name: "clock-back", About: "these clocks are set back by up to half a TTL", Disrupt: true, lane: serversLane, own: true, needs: clocks, do: setBack},
		{Name: "server-stop", About: "a server is suspended (SIGSTOP) for up to a TTL and a half", Disrupt: true, lane: serversLane, at: "one quorum", own: true, do: stopServer},
		{Name: "server-kill", About: "a server is killed and comes back without data", Disrupt: true, lane: serversLane, at: "one", own: true, loses: "all", rests: true, do: killServer},
		{Name: "node-kill", About: "a node of the quorum is killed and comes back without data", Disrupt: true, lane: serversLane, at: "quorum", own: true, rests: true, do: killServer},
		{Name: "failover", About: "the replica becomes the master (SENTINEL FAILOVER, CLUSTER FAILOVER)", Disrupt: true, lane: serversLane, at: "sentinel cluster given", needs: successors, loses: "all", rests: true, do: failover},
		{Name: "master-kill", About: "the master is killed, and comes back as a replica", Disrupt: true, lane: serversLane, at: "sentinel cluster", own: true, loses: "all", rests: true, do: killMaster},
	}
}

// chooseFaults checks the faults of a plan, and fills in the default.
func (p *Plan) chooseFaults(disrupt bool) error {
	var all []string
	possible := make(map[string]Fault)
	for _, f := range Faults() {
		here := f.at == "" || slices.Contains(strings.Fields(f.at), p.Deployment)
		if !here || f.own && !p.Own || f.Name == "stop" && runtime.GOOS == "windows" {
			continue
		}
		possible[f.Name] = f
		if !f.Disrupt || disrupt {
			all = append(all, f.Name)
		}
	}
	for _, name := range p.Faults {
		f, ok := possible[name]
		switch {
		case !ok:
			return fmt.Errorf("%w: the fault %q cannot be done here: %s",
				redlatch.ErrInvalid, name, joined(possible))
		case f.Disrupt && !disrupt:
			return fmt.Errorf("%w: the fault %q affects every client of the servers, and needs --disrupt --yes",
				redlatch.ErrInvalid, name)
		}
	}
	if len(p.Faults) == 0 {
		p.Faults = all
	}
	return nil
}

// needed reports whether one of these faults needs this ability of the servers.
func needed(names []string, what ability) bool {
	return slices.ContainsFunc(Faults(), func(f Fault) bool { return f.needs == what && slices.Contains(names, f.Name) })
}

// leaveOut removes the faults from the plan that need this ability, if why says that the servers
// lack it. If the user named one of them, that is an error.
func (r *run) leaveOut(what ability, why error) error {
	if why == nil {
		return nil
	}
	for _, f := range Faults() {
		if f.needs != what || !slices.Contains(r.plan.Faults, f.Name) {
			continue
		}
		if slices.Contains(r.Options.Faults, f.Name) {
			return fmt.Errorf("%w: the fault %q cannot be done here: %w", redlatch.ErrInvalid, f.Name, why)
		}
		r.plan.Faults = slices.DeleteFunc(r.plan.Faults, func(name string) bool { return name == f.Name })
		r.plan.LeftOut = append(r.plan.LeftOut, LeftOut{f.Name, why.Error()})
	}
	return nil
}

// harm does the plan's faults until ctx is done: in each lane one after the other, each kind once
// before any is repeated.
func (r *run) harm(ctx context.Context) {
	var wg sync.WaitGroup
	for lane := range lanes {
		mine := slices.DeleteFunc(Faults(), func(f Fault) bool {
			return f.lane != lane || !slices.Contains(r.plan.Faults, f.Name)
		})
		if len(mine) > 0 {
			wg.Go(func() { r.harmIn(ctx, mine) })
		}
	}
	<-ctx.Done()
	wg.Wait()
}

func (r *run) harmIn(ctx context.Context, mine []Fault) {
	for ctx.Err() == nil {
		rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
		for _, f := range mine {
			rest := 50*time.Millisecond + rand.N(200*time.Millisecond)
			if f.lane == serversLane {
				rest += rand.N(r.plan.TTL / 2) // these strike all workers, and take no time of their own
			}
			if retry.Sleep(ctx, rest); ctx.Err() != nil {
				return
			}
			r.strike(ctx, f)
			if f.rests {
				retry.Sleep(ctx, r.plan.TTL)
			}
		}
	}
}

// strike does one fault, and notes its observed effect. A fault that has begun is ended even if ctx
// is done. A fault of the servers ends when they take writes again: a failed failover holds up
// writes for seconds.
func (r *run) strike(ctx context.Context, f Fault) {
	over := r.crew.striking(f.Name)
	defer over()
	began := history.Now()
	effect, what, err := f.do(ctx, r)
	if f.lane == serversLane && f.Disrupt {
		err = errors.Join(err, r.awaitWrites(context.WithoutCancel(ctx)))
	}
	e := history.Event{Type: history.Fault, Name: f.Name, Asked: began, Count: effect, Target: what}
	if err != nil {
		e.Why = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	switch {
	case effect == byWorker: // the worker notes it
		return
	case f.loses == "name" && effect > 0:
		e.Mode = what
	case f.loses == "all":
		e.Mode = "*"
	}
	r.rec.Note(e)
}

// awaitWrites returns when the server of each lock takes a write, and each node of a quorum.
func (r *run) awaitWrites(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, c := range r.admin.clients {
		for _, name := range r.plan.names() {
			key := "{" + r.plan.Prefix + name + "}:probe"
			err := servers.Eventually(ctx, func() error {
				once, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				return c.Do(once, c.B().Set().Key(key).Value("").PxMilliseconds(200).Build()).Error()
			})
			if err != nil {
				return fmt.Errorf("%s takes no writes after the fault: %w", key, err)
			}
		}
	}
	return nil
}

// byWorker is the effect of a fault that the worker notes.
const byWorker = -1

// onWorker returns a fault that hits a worker which no other fault strikes at the moment.
func onWorker(do func(context.Context, *run, *post) (int64, string, error)) func(context.Context, *run) (int64, string, error) {
	return func(ctx context.Context, r *run) (int64, string, error) {
		p := r.crew.claim(ctx)
		if p == nil {
			return byWorker, "", nil
		}
		defer p.busy.Unlock()
		return do(ctx, r, p)
	}
}

func stopWorker(_ context.Context, r *run, p *post) (int64, string, error) {
	if err := p.child.Process.Signal(servers.Suspend); err != nil {
		return 0, p.name, err
	}
	time.Sleep(r.plan.TTL + r.plan.TTL/10 + rand.N(r.plan.TTL/2))
	stood := stands(p.child.Process)
	return stood, p.name, p.child.Process.Signal(servers.GoOn)
}

// stands returns 1 if a process is suspended, or if the system does not say.
func stands(p *os.Process) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if runtime.GOOS == "linux" && (err != nil || !bytes.Contains(text, []byte(") T "))) {
		return 0
	}
	return 1
}

func killWorker(ctx context.Context, r *run, p *post) (int64, string, error) {
	name := p.name
	err := p.finish((*child).kill, 10*time.Second)
	r.rec.Note(history.Event{Type: history.Life, Target: name, Why: "killed"})
	if err == nil {
		time.Sleep(rand.N(r.plan.TTL))
		err = r.crew.start(context.WithoutCancel(ctx), p)
	}
	return 1, name, err
}

// stall frees the lane before the worker's stall ends, and the worker afterwards. It is tempting to
// free both at once. But then the few kills of a run on a slow machine ended each of its few stalls.
func stall(ctx context.Context, r *run) (int64, string, error) {
	if p := r.crew.claim(ctx); p != nil {
		p.child.tell(order{Do: "stall"})
		time.AfterFunc(2*r.plan.TTL, p.busy.Unlock) // it takes 1.5 TTLs at most, from the next lease on
		retry.Sleep(ctx, rand.N(r.plan.TTL))
	}
	return byWorker, "", nil
}

func delays(r *run) link.Harm {
	d := rand.N(r.plan.TTL)
	if rand.IntN(2) == 0 {
		return link.Harm{DelayRequests: d}
	}
	return link.Harm{DelayReplies: d / 4} // every reply is delayed
}

// harmLink returns a fault that makes a worker's link do harm for a while, noted under this name.
func harmLink(name string, what func(*run) link.Harm) func(context.Context, *run) (int64, string, error) {
	return onWorker(func(ctx context.Context, r *run, p *post) (int64, string, error) {
		p.child.tell(order{Do: "harm", Fault: name, Harm: what(r)})
		retry.Sleep(ctx, r.plan.TTL/5+rand.N(r.plan.TTL/2))
		p.child.tell(order{Do: "heal"})
		return byWorker, "", nil
	})
}

func cutLink(_ context.Context, _ *run, p *post) (int64, string, error) {
	p.child.tell(order{Do: "cut", Fault: "cut"})
	return byWorker, "", nil
}

// anyServer returns the harm that cuts a worker off from one server.
func anyServer(r *run) link.Harm {
	all := slices.Concat(r.own.Nodes, r.own.Sentinels)
	return link.Harm{Only: all[rand.IntN(len(all))].Addr, SwallowRequests: true, SwallowReplies: true}
}

// onMasters does something to each server that takes writes, and adds up the effects.
func (r *run) onMasters(
	ctx context.Context, f func(rueidis.Client) (int64, error),
) (effect int64, what string, err error) {
	for _, c := range r.admin.masters(ctx) {
		n, e := f(c)
		effect, err = effect+n, errors.Join(err, e)
	}
	return effect, "", err
}

func killConnections(ctx context.Context, r *run) (int64, string, error) {
	return r.onMasters(ctx, func(c rueidis.Client) (killed int64, err error) {
		list, err := do(ctx, c, "CLIENT", "LIST")
		var ids []string
		for line := range strings.Lines(list) { // id=7 addr=...
			id, rest, _ := strings.Cut(line, " ")
			if strings.Contains(rest, " name="+r.plan.clientName()+" ") {
				ids = append(ids, strings.TrimPrefix(id, "id="))
			}
		}
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids[:min(len(ids), 3)] {
			n, e := do(ctx, c, "CLIENT", "KILL", "ID", id)
			if err = errors.Join(err, e); n == "1" {
				killed++
			}
		}
		return killed, err
	})
}

func flushScripts(ctx context.Context, r *run) (int64, string, error) {
	return r.onMasters(ctx, func(c rueidis.Client) (int64, error) {
		info, e := do(ctx, c, "INFO", "memory")
		if _, err := do(ctx, c, "SCRIPT", "FLUSH"); err != nil {
			return 0, errors.Join(e, err)
		}
		known, _ := strconv.ParseInt(servers.Fields(info)["number_of_cached_scripts"], 10, 64)
		return known, e
	})
}

// deleteKey deletes the key of a lock, and returns its name if it was there.
func deleteKey(ctx context.Context, r *run) (int64, string, error) {
	names := r.plan.names()
	name := names[rand.IntN(len(names))]
	// In a cluster, the client finds the node itself. In a quorum, one node loses the key.
	c := r.admin.clients[rand.IntN(len(r.admin.clients))]
	var err error
	for range 20 { // until it is held
		n := ""
		if n, err = do(ctx, c, "DEL", r.plan.Prefix+name); n == "1" {
			return 1, name, nil
		}
		retry.Sleep(ctx, 10*time.Millisecond)
	}
	return 0, name, err
}

func pauseClients(ctx context.Context, r *run) (int64, string, error) {
	d := rand.N(r.plan.TTL)
	paused, _, err := r.onMasters(ctx, func(c rueidis.Client) (int64, error) {
		if _, err := do(ctx, c, "CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds())); err != nil {
			return 0, err
		}
		return 1, nil
	})
	retry.Sleep(ctx, d)
	return paused, d.Round(time.Millisecond).String(), err
}

// anyNode returns one of the run's own servers.
func (r *run) anyNode() *servers.Server { return r.own.Nodes[rand.IntN(len(r.own.Nodes))] }

func stopServer(_ context.Context, r *run) (int64, string, error) {
	s := r.anyNode()
	if err := s.Pause(); err != nil {
		return 0, s.Addr, err
	}
	time.Sleep(rand.N(r.plan.TTL * 3 / 2))
	return 1, s.Addr, s.Resume()
}

func killServer(ctx context.Context, r *run) (int64, string, error) {
	s := r.anyNode()
	s.Kill()
	time.Sleep(rand.N(r.plan.TTL / 2))
	if err := s.Restart(context.WithoutCancel(ctx)); err != nil {
		return 0, s.Addr, err
	}
	return 1, s.Addr, nil
}

// failover makes a replica take over while the master is healthy.
func failover(ctx context.Context, r *run) (int64, string, error) {
	ctx = context.WithoutCancel(ctx)
	addr, err := r.succeed(ctx)
	if err != nil {
		return 0, addr, err
	}
	if r.own != nil {
		err = r.own.AwaitWell(ctx)
	}
	return 1, addr, err
}

// killMaster kills a master, and starts it again when another has taken its place.
func killMaster(ctx context.Context, r *run) (int64, string, error) {
	ctx = context.WithoutCancel(ctx)
	s, err := r.own.Master(ctx)
	if err != nil {
		return 0, "", err
	}
	s.Kill()
	if err := r.own.AwaitOther(ctx, s); err != nil {
		return 0, s.Addr, errors.Join(err, s.Restart(ctx))
	}
	if err := s.Restart(ctx); err != nil {
		return 0, s.Addr, err
	}
	return 1, s.Addr, r.own.AwaitWell(ctx)
}

// cutServers cuts two servers off from each other for a while.
func cutServers(ctx context.Context, r *run) (int64, string, error) {
	a := r.anyNode()
	others := r.own.Others(a)
	b := others[rand.IntN(len(others))]
	mend := r.own.Cut(a, b)
	retry.Sleep(ctx, r.plan.TTL+rand.N(r.plan.TTL))
	return mend(), a.Addr + " " + b.Addr, r.own.AwaitWell(context.WithoutCancel(ctx))
}

// isolateMaster cuts a master off from the other servers until another has taken its place. Then
// there are two masters for a while, until the old one is told.
func isolateMaster(ctx context.Context, r *run) (int64, string, error) {
	ctx = context.WithoutCancel(ctx)
	s, err := r.own.Master(ctx)
	if err != nil {
		return 0, "", err
	}
	mend := r.own.Cut(s, r.own.Others(s)...)
	err = r.own.AwaitOther(ctx, s)
	swallowed := mend()
	if err != nil {
		swallowed = 0
	}
	return min(swallowed, 1), s.Addr, errors.Join(err, r.own.AwaitWell(ctx))
}

func setAhead(ctx context.Context, r *run) (int64, string, error) {
	return r.own.StepClock(context.WithoutCancel(ctx), r.plan.TTL/2+rand.N(r.plan.TTL))
}

// setBack sets clocks back, and waits until they are where they were. A server that loses its data
// before that may issue the same tokens again.
func setBack(ctx context.Context, r *run) (int64, string, error) {
	by := r.plan.TTL/10 + rand.N(r.plan.TTL*4/10)
	seen, what, err := r.own.StepClock(context.WithoutCancel(ctx), -by)
	time.Sleep(by)
	return seen, what, err
}
