package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// fenceTTL is for how long a name that is swept is remembered for its tokens: the default of
// redlatch.Options, which the next acquisition sets to that of its client.
const fenceTTL = 7 * 24 * time.Hour

// Fix finds the names for which only dead clients stand in line, and reports them: first each, and
// then, with Options.Do, what became of it. Without Do it changes nothing.
//
// A script decides again which clients are dead, by the rule by which a release passes them over. So
// a client that came back after the look keeps its place, and a holder that came keeps its lease.
func Fix(ctx context.Context, o Options, report func(Finding)) error {
	v := &visit{Options: o, report: report}
	client, err := v.open(ctx)
	if errors.Is(err, redlatch.ErrInvalid) {
		return err
	}
	if err != nil {
		report(Finding{"", "reach", Fault, clean(err), "nothing was swept"})
		return nil
	}
	defer client.Close()
	var all []redlatch.LockInfo
	for info, err := range client.List(ctx, redlatch.ListOptions{}) {
		if err != nil {
			report(Finding{"", "sweep", Fault, "names cannot be listed: " + clean(err), unlisted(err)})
			return nil
		}
		if info.Abandoned() {
			all = append(all, info)
			report(abandoned(info, o.Do))
		}
	}
	if len(all) == 0 {
		report(Finding{"", "sweep", OK, "there is no name for which only the dead wait", ""})
	}
	if !o.Do || len(all) == 0 {
		return nil
	}
	for _, url := range o.URLs {
		if err := v.sweep(ctx, url, all); err != nil {
			return err
		}
	}
	return nil
}

// abandoned tells of a name for which only the dead wait.
func abandoned(info redlatch.LockInfo, do bool) Finding {
	waiters := make([]string, 0, 3)
	for _, w := range info.Waiters[:min(len(info.Waiters), 3)] {
		waiters = append(waiters, fmt.Sprintf("%v since %s", w.Process, w.Since.Local().Format(time.DateTime)))
	}
	if more := len(info.Waiters) - len(waiters); more > 0 {
		waiters = append(waiters, fmt.Sprintf("%d more", more))
	}
	f := Finding{"", "sweep", Note, fmt.Sprintf("%q: only the dead wait: %s", info.Name, strings.Join(waiters, ", ")), ""}
	if !do {
		f.Advice = "`redlatch doctor --fix --yes` takes them off the line; so does the next process that locks the name"
	}
	return f
}

// sweep takes the dead off the lines of these names, at what one URL leads to.
func (v *visit) sweep(ctx context.Context, url string, all []redlatch.LockInfo) error {
	dial, _, err := address.Parse(url)
	if err != nil {
		return fmt.Errorf("%w: the Redis URL cannot be used: %w", redlatch.ErrInvalid, err)
	}
	addr := strings.Join(dial.InitAddress, ",")
	dial.DisableCache, dial.DisableRetry = true, true
	dial.Dialer.Timeout = cmp.Or(dial.Dialer.Timeout, patience)
	client, err := rueidis.NewClient(dial)
	if err != nil {
		v.report(Finding{addr, "sweep", Fault, clean(err), "nothing was swept there"})
		return nil
	}
	defer client.Close()
	n := &node{addr: addr, client: client, conn: redlatchrueidis.New(client, addr)}
	for _, info := range all {
		v.report(v.sweepName(ctx, n, info))
	}
	return nil
}

// sweepName takes the dead off the line of one name.
func (v *visit) sweepName(ctx context.Context, n *node, info redlatch.LockInfo) Finding {
	set, err := keys.Of(v.Prefix, info.Name)
	i := slices.IndexFunc(script.Kinds(), func(k *script.Kind) bool { return k.Name == info.Kind })
	if err != nil || i < 0 {
		return Finding{n.addr, "sweep", Fault, fmt.Sprintf("%q is of the kind %q, which this command does not know", info.Name, info.Kind), ""}
	}
	kind := script.Kinds()[i]
	if q := kind.Quorum(); len(v.URLs) > 1 && q != nil {
		kind, set.Epoch = q, keys.Epoch(v.Prefix, q.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dropped := int64(0)
	for { // one script drops 10,000 at most
		r := n.conn.Eval(ctx, kind.Sweep(set, fenceTTL))[0]
		if r.Err != nil {
			return Finding{n.addr, "sweep", Fault, fmt.Sprintf("%q was not swept: %s", info.Name, clean(r.Err)), v.permit()}
		}
		if r.Reply.Int == 0 {
			break
		}
		dropped += r.Reply.Int
	}
	if dropped == 0 {
		return Finding{n.addr, "sweep", OK, fmt.Sprintf("%q: nothing was done, as its waiters are not dead any more, or gone", info.Name), ""}
	}
	return Finding{n.addr, "sweep", OK, fmt.Sprintf("%q: %d of the dead were taken off the line", info.Name, dropped), ""}
}

// unlisted returns what to do where names cannot be listed.
func unlisted(err error) string {
	if retry.Says(err, "NOPERM") {
		return "permit +scan"
	}
	return "look again when Redis answers"
}
