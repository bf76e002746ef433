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

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/fleet"
)

// locks examines what a client of redlatch sees: the votes of a quorum, and the names under the
// prefix. It looks for keys that are not redlatch's locks.
func (v *visit) locks(ctx context.Context) {
	client, err := v.open(ctx)
	if err != nil {
		switch {
		case errors.Is(err, redlatch.ErrInvalid):
			v.report(Finding{"", "locks", Fault, clean(err), ""})
		case len(v.URLs) > 1:
			v.report(Finding{"", "votes", Fault, fmt.Sprintf("most of the %d nodes cannot be reached", len(v.URLs)), "nothing can be acquired from here: see what is said of each node"})
		}
		return // another finding says why a server cannot be reached
	}
	defer client.Close()
	nodes := client.Nodes(ctx)
	v.quorum(nodes)
	look, cancel := context.WithTimeout(ctx, v.Look)
	defer cancel()
	if v.names(look, client, len(fleet.Mute(nodes)) > 0) {
		v.deadlocks(look, client)
	}
}

// quorum reports which of the nodes that answer may vote.
func (v *visit) quorum(nodes []redlatch.NodeInfo) {
	type tally struct {
		voters, novel int
		others        []string
	}
	kinds := make(map[string]*tally)
	for _, n := range nodes {
		for _, vote := range n.Votes {
			t := kinds[vote.Kind]
			if t == nil {
				t = &tally{}
				kinds[vote.Kind] = t
			}
			switch vote.State {
			case redlatch.NodeVotes:
				t.voters++
			case redlatch.NodeNew:
				t.novel++
				t.others = append(t.others, n.Addr+" was emptied, or is new")
			case redlatch.NodeRests:
				t.others = append(t.others, n.Addr+" rests for another "+round(vote.Rest).String())
			default:
				t.others = append(t.others, n.Addr+" does not vote yet")
			}
		}
	}
	voters := fleet.Voters(nodes)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t := kinds[kind]
		f := Finding{"", "votes on " + kind, OK, fmt.Sprintf("%d of %d nodes vote", t.voters, len(v.URLs)), ""}
		if len(t.others) > 0 {
			f.Found += ": " + strings.Join(t.others, ", ")
		}
		switch {
		case t.novel == len(v.URLs):
			f.Found = "not used yet"
		case voters[kind] <= len(v.URLs)/2:
			f.Level = Fault
			f.Advice = "nothing can be acquired: start the nodes that are down; a node votes again once it has rested and has learned the tokens of most other nodes"
		case t.voters < len(v.URLs):
			f.Level, f.Advice = Warning, "each node that does not vote leaves one fewer that may fail; a node that answers votes again at the next acquisitions"
		}
		v.report(f)
	}
}

// maxTold is how many names of each level are reported; the rest are only counted.
const maxTold = 10

// names looks at each name, and reports whether it saw them all. mute says that too few nodes vote.
func (v *visit) names(look context.Context, client *redlatch.Client, mute bool) bool {
	keys, names, strange := 0, 0, 0
	met := make(map[Level]int)
	tell := func(f Finding) {
		if met[f.Level]++; met[f.Level] <= maxTold {
			v.report(f)
		}
	}
	defer func() {
		for _, n := range met {
			if more := n - maxTold; more > 0 {
				v.report(Finding{"", "locks", Note, fmt.Sprintf("%s more names like these", fleet.Count(more)), "`redlatch ls` lists all names"})
			}
		}
	}()
	var all fleet.Totals
	for info, err := range client.List(look, redlatch.ListOptions{Progress: func(n int) { keys = n }}) {
		if err != nil && look.Err() == nil {
			v.report(Finding{"", "locks", Warning, "not all names can be listed: " + clean(err), unlisted(err)})
			return false
		}
		if err != nil {
			v.report(Finding{"", "locks", Note, v.incomplete(keys, names), "`redlatch ls` looks at all of them, however long that takes"})
			return false
		}
		names++
		all.Add(fleet.NewLock(info, time.Time{}))
		if info.Abandoned() {
			tell(Finding{"", "locks", Note, fmt.Sprintf("%q is free, and only dead clients are in its line", info.Name), "the next acquisition removes them; without one, the line expires after an hour"})
		}
		if f, ok := v.suspect(info); ok {
			strange++
			tell(f)
		}
	}
	if mute || all.Doubtful > 0 {
		found := fmt.Sprintf("names known to be in use: %s; for %s of them, too few nodes answered to say whether there is a holder", fleet.Count(all.Names), fleet.Count(all.Doubtful))
		v.report(Finding{"", "locks", Warning, found, "a lock that is held may be missing: see the nodes that do not answer, or do not vote"})
	} else if strange == 0 {
		v.report(Finding{"", "locks", OK, inUse(all), ""})
	}
	return true
}

// inUse says that all keys belong to locks, and how many of them clients only keep.
func inUse(all fleet.Totals) string {
	kept := ""
	if all.Kept > 0 {
		kept = fmt.Sprintf("; held %d, and %d only kept by clients (LockOptions.Linger)", all.Holders, all.Kept)
	}
	switch all.Names {
	case 0:
		return "no lock in use"
	case 1:
		return "1 lock in use, no unrelated keys" + kept
	}
	return fmt.Sprintf("%d locks in use, no unrelated keys", all.Names) + kept
}

// deadlocks looks for processes that wait for each other.
func (v *visit) deadlocks(ctx context.Context, client *redlatch.Client) {
	all, err := client.Deadlocks(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		v.report(Finding{"", "deadlocks", Note, fmt.Sprintf("not checked: listing the names alone took %v", v.Look), "`redlatch ls --deadlocks` looks, however long that takes"})
		return
	case err != nil:
		v.report(Finding{"", "deadlocks", Warning, "the check failed: " + clean(err), ""})
		return
	case len(all) == 0:
		v.report(Finding{"", "deadlocks", OK, "no processes wait for each other", ""})
	}
	for _, d := range all {
		v.report(Finding{
			"", "deadlocks", Fault, d.String(),
			"`redlatch ls --deadlocks` tells more; stop one of the processes, or take a lock from it with `redlatch release NAME --force`; " +
				"then make the program lock names in the same order everywhere, or with a MultiMutex",
		})
	}
}

// incomplete says how far an unfinished look got.
func (v *visit) incomplete(keys, names int) string {
	of := ""
	if v.keys > 0 {
		of = fmt.Sprintf(" (the server has about %d in all)", v.keys)
	}
	return fmt.Sprintf("stopped after %v: saw %d keys under the prefix%s, with %d names in use, and did not look at the rest", v.Look, max(keys, names), of, names)
}

// suspect returns what is wrong with a name, if anything is.
func (v *visit) suspect(info redlatch.LockInfo) (Finding, bool) {
	f := Finding{"", "locks", Warning, fmt.Sprintf("key %q is a %s", info.Key, info.RedisType), ""}
	if info.RedisType != "" {
		f.Advice = "it is not a lock, and blocks the name for locks: delete it, or give locks a prefix of their own"
		return f, true
	}
	for _, h := range info.Holders {
		switch {
		case h.Foreign && h.Remaining < 0:
			f.Level, f.Found = Fault, fmt.Sprintf("%q is held by %q, which is not a redlatch owner, and the key never expires", info.Name, h.Owner)
			f.Advice = "if no program still relies on this lock: `" + v.Again(info.Name, "release", "--force", "--owner", h.Owner) + "`"
			return f, true
		case h.Foreign:
			f.Level, f.Found = Note, fmt.Sprintf("%q is held by %q, which is not redlatch's", info.Name, h.Owner)
			f.Advice = "it does not hand the lock over: redlatch waiters poll ten times a second"
			return f, true
		}
	}
	return f, false
}

func (v *visit) open(ctx context.Context) (*redlatch.Client, error) {
	o := redlatch.Options{Prefix: cmp.Or(v.Prefix, redlatch.NoPrefix)}
	if len(v.URLs) > 1 {
		return redlatch.OpenQuorum(ctx, v.URLs, o)
	}
	return redlatch.Open(ctx, v.URLs[0], o)
}

// unlisted returns what to do if names cannot be listed.
func unlisted(err error) string {
	if retry.Says(err, "NOPERM") {
		return "permit +scan"
	}
	return "look again when Redis answers"
}
