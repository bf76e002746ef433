package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
)

// server examines one server, and reports whether it answers.
func (v *visit) server(ctx context.Context, n *node, cluster bool) bool {
	if !v.roundTrip(ctx, n) {
		return false
	}
	text, err := n.text(ctx, "INFO")
	if err != nil {
		v.report(Finding{n.addr, "info", Warning, "INFO cannot be read: " + clean(err), "permit +info, at least for this check"})
		return true
	}
	n.info = Pairs(text, "\n", ":")
	v.version(n)
	v.role(n, cluster)
	if n.info["role"] == "master" {
		v.memory(n)
		v.persistence(n)
		v.replicas(ctx, n)
	}
	return true
}

// roundTrip compares the time of a request with the TTL, and the server's clock with this
// machine's. It reports whether the server answers.
func (v *visit) roundTrip(ctx context.Context, n *node) bool {
	var times []time.Duration
	for range 9 {
		sent := time.Now()
		m, err := n.ask(ctx, "TIME")
		took := time.Since(sent)
		if retry.Says(err, "NOPERM") { // the server was reached
			v.report(Finding{n.addr, "round trip", Warning, "not measured: " + clean(err), permit})
			return true
		}
		if err != nil {
			v.unreachable(n.addr, fault.Unreached(err))
			return false
		}
		parts, err := m.AsStrSlice()
		if err == nil && len(parts) == 2 && (len(times) == 0 || took < slices.Min(times)) {
			seconds, _ := strconv.ParseInt(parts[0], 10, 64)
			micros, _ := strconv.ParseInt(parts[1], 10, 64)
			v.offset[n.addr] = time.Unix(seconds, micros*1000).Sub(sent.Add(took / 2))
		}
		times = append(times, took)
	}
	slices.Sort(times)
	f := Finding{n.addr, "round trip", OK, "", ""}
	f.Found = fmt.Sprintf("%v, at best %v; the TTL is %v", round(times[4]), round(times[0]), v.TTL)
	switch advice := "use a longer TTL, or a closer server"; {
	case times[4] > time.Second:
		f.Level, f.Advice = Fault, "no request is answered within a third of its time limit, 1s by default: use a closer server, or a longer RequestTimeout"
	case times[4] > v.TTL/10:
		f.Level, f.Advice = Fault, advice
	case times[4] > v.TTL/100:
		f.Level, f.Advice = Warning, advice
	}
	v.report(f)
	return true
}

func (v *visit) version(n *node) {
	name, version := "Redis", n.info["redis_version"]
	if n.info["valkey_version"] != "" {
		name, version = "Valkey", n.info["valkey_version"]
	}
	if version == "" {
		v.report(Finding{n.addr, "version", Note, "the server reports no version: it is the embedded server, or not Redis", "for development only: nothing is kept"})
		return
	}
	f := Finding{n.addr, "version", OK, name + " " + version, ""}
	major, _ := strconv.Atoi(strings.SplitN(n.info["redis_version"], ".", 2)[0])
	v.shards = major >= 7
	if major < 6 {
		f.Level, f.Advice = Fault, "redlatch needs Redis 6.0 or newer, or Valkey"
	}
	v.report(f)
}

func (v *visit) role(n *node, cluster bool) {
	if n.info["role"] == "" {
		return
	}
	f := Finding{n.addr, "role", OK, n.info["role"], ""}
	if n.info["role"] == "slave" {
		f.Found = "replica of " + n.info["master_host"] + ":" + n.info["master_port"]
		if !cluster {
			f.Level, f.Advice = Fault, "a replica takes no locks: give the address of the master, or of Sentinel (redis+sentinel://)"
		}
		if n.info["master_link_status"] == "down" {
			f.worse("and cut off from it", "if it is promoted, it lacks the locks that were acquired since")
		}
	}
	if n.info["loading"] == "1" {
		f.worse("loading its data", "wait until it has")
	}
	v.report(f)
}

// worse adds a problem that is at least a warning.
func (f *Finding) worse(found, advice string) {
	f.Found += ", " + found
	if f.Level == OK {
		f.Level, f.Advice = Warning, advice
		return
	}
	f.Advice += "; " + advice
}

// memory checks whether the server may evict keys before they expire.
func (v *visit) memory(n *node) {
	policy, limit := n.info["maxmemory_policy"], n.info["maxmemory"]
	f := Finding{n.addr, "eviction", OK, fmt.Sprintf("maxmemory-policy %s, maxmemory %s", policy, limit), ""}
	number := func(field string) int64 { v, _ := strconv.ParseInt(n.info[field], 10, 64); return v }
	most, used := number("maxmemory"), number("used_memory")-number("mem_not_counted_for_evict")
	switch {
	case policy == "noeviction" && most > 0 && used > most:
		f.Level, f.Found = Fault, fmt.Sprintf("memory is full: %d of %d bytes", used, most)
		f.Advice = "locks that are held stay held, but new mutexes and places in line are refused (OOM): raise maxmemory, or see what else fills the server"
	case policy == "":
		f.Level, f.Found, f.Advice = Warning, "the server does not report its maxmemory-policy", "make sure that it is noeviction"
	case policy != "noeviction" && limit != "0":
		f.Level, f.Advice = Fault, "a lock that is evicted can be held twice: CONFIG SET maxmemory-policy noeviction, or a server for locks alone"
	case policy != "noeviction":
		f.Level, f.Advice = Note, "harmless as long as maxmemory is 0; CONFIG SET maxmemory-policy noeviction before that changes"
	}
	v.report(f)
}

func (v *visit) persistence(n *node) {
	f := Finding{n.addr, "persistence", OK, "append-only file", ""}
	switch {
	case n.info["aof_enabled"] == "1" && n.info["aof_last_write_status"] == "err":
		f.Level, f.Found, f.Advice = Fault, "the append-only file cannot be written", "the server refuses writes until it can: see its log, and the disk"
	case n.info["rdb_last_bgsave_status"] == "err":
		f.Level, f.Found, f.Advice = Fault, "the last snapshot failed", "the server may refuse writes (MISCONF): see its log, and the disk"
	case n.info["aof_enabled"] == "0" && len(v.URLs) > 1:
		f.Found = "no append-only file: after a restart the node rests for the longest TTL, quarantine and job window that were used, and then votes again"
	case n.info["aof_enabled"] == "0":
		f.Level, f.Found = Note, "no append-only file: a restart forgets the locks that are held"
		f.Advice = "tokens stay in order; if a brief double holder is worse for you than slower writes: CONFIG SET appendonly yes"
	case n.info["aof_enabled"] != "1":
		f.Found = "the server does not say whether it writes an append-only file"
		if len(v.URLs) == 1 { // a node of a quorum needs none
			f.Level, f.Advice = Note, "without one, a restart forgets the locks that are held: look at its settings"
		}
	}
	v.report(f)
}

// replicas reports how far each replica is behind.
func (v *visit) replicas(ctx context.Context, n *node) {
	count, _ := strconv.Atoi(n.info["connected_slaves"])
	if count == 0 {
		v.report(Finding{n.addr, "replicas", OK, "none", ""})
		return
	}
	written, _ := strconv.ParseInt(n.info["master_repl_offset"], 10, 64)
	for i := range count {
		text, told := n.info["slave"+strconv.Itoa(i)]
		if !told {
			break // although the count says more
		}
		replica := Pairs(text, ",", "=")
		at, _ := strconv.ParseInt(replica["offset"], 10, 64)
		f := Finding{n.addr, "replicas", OK, fmt.Sprintf("%s:%s %s, %d bytes and %ss behind", replica["ip"], replica["port"], replica["state"],
			max(0, written-at), cmp.Or(replica["lag"], "?")), ""}
		if lag, _ := strconv.Atoi(replica["lag"]); replica["state"] != "online" || time.Duration(lag)*time.Second > max(v.TTL/10, time.Second) {
			f.Level, f.Advice = Warning, "if it is promoted now, locks of the last seconds are lost: check the replica and the network"
		}
		v.report(f)
	}
	if len(v.URLs) > 1 {
		v.report(Finding{n.addr, "replicas", Note, "a node of the quorum is replicated", "a replica that is promoted rests like a node that was restarted"})
		return
	}
	f := Finding{n.addr, "min-replicas-to-write", OK, "", ""}
	m, err := n.ask(ctx, "CONFIG", "GET", "min-replicas-to-write")
	if values, e := m.AsStrMap(); err == nil && e == nil {
		f.Found = values["min-replicas-to-write"]
	}
	switch f.Found {
	case "":
		f.Level, f.Found, f.Advice = Note, "it cannot be read", "permit +config|get, or see that it is 1 or more"
	case "0":
		f.Level = Warning
		f.Advice = "a master that is cut off keeps granting locks that will be lost: CONFIG SET min-replicas-to-write 1, and see LockOptions.Replicas"
	}
	v.report(f)
}

// Pairs parses names and values. between separates a name from its value, and behind ends a pair.
func Pairs(text, behind, between string) map[string]string {
	all := make(map[string]string)
	for pair := range strings.SplitSeq(text, behind) {
		if name, value, ok := strings.Cut(strings.TrimSpace(pair), between); ok {
			all[name] = value
		}
	}
	return all
}

// clocks compares the clocks of all servers with this machine's, and so with each other.
func (v *visit) clocks() {
	for _, at := range slices.Sorted(maps.Keys(v.offset)) {
		offset := v.offset[at]
		f := Finding{at, "clock", OK, fmt.Sprintf("%v from this machine's", round(offset)), ""}
		const advice = "synchronize clocks by slewing (chrony, ntpd -x): tokens after a failover or a loss of data go by the server's clock, " +
			"and a clock that is set forward ends leases before their time"
		switch off := offset.Abs(); {
		case off > time.Minute:
			f.Level, f.Advice = Fault, advice
		case off > time.Second:
			f.Level, f.Advice = Warning, advice
		}
		v.report(f)
	}
}

// round drops digits that do not matter.
func round(d time.Duration) time.Duration {
	switch abs := d.Abs(); {
	case abs > time.Second:
		return d.Round(10 * time.Millisecond)
	case abs > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
