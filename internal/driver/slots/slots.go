// Package slots knows which node of a Redis Cluster has which hash slot.
//
// What it knows may be old: slots move, and replicas take over. So only two things may depend on
// it: which requests go together, and where a subscription is tried first. The server itself says
// when a request is at the wrong node.
package slots

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Count is how many hash slots a cluster has.
const Count = 16384

// refreshEvery is the least time between two loads of a Map: failures come in bursts.
const refreshEvery = time.Second

// staleAfter is how old a Map may get while it is in use.
const staleAfter = 30 * time.Second

// loadTime is how long one load may take.
const loadTime = 3 * time.Second

// Of returns the hash slot of a key, or of a channel.
func Of(key string) int {
	var crc uint16
	for _, b := range []byte(keys.Tag(key)) {
		crc = crc<<8 ^ table[byte(crc>>8)^b]
	}
	return int(crc % Count)
}

// table is that of CRC-16 (XMODEM), with which Redis finds slots.
var table = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

// Range is slots with the same master.
type Range struct {
	From, To int    // both included
	Addr     string // of the master
}

// KeyIn returns some key in one of these slots.
func KeyIn(r Range) string {
	if r.From, r.To = max(r.From, 0), min(r.To, Count-1); r.From > r.To {
		return "" // a server may say anything
	}
	for n := 0; ; n++ {
		if key := strconv.Itoa(n); r.From <= Of(key) && Of(key) <= r.To {
			return key
		}
	}
}

// Map is the masters of all slots, as far as they are known. It is safe for concurrent use.
type Map struct {
	load    func(ctx context.Context) ([]Range, error)
	changed func()

	mu      sync.Mutex // guards what is below
	addrs   []string   // of masters; the first is "", for slots whose master is not known
	masters [Count]uint16
	loading chan struct{} // closed when the load under way ends; nil if there is none
	loaded  time.Time     // when the last load began
}

// New returns a Map that knows nothing. load asks the cluster. changed is called, on a goroutine of
// the Map, after it was loaded.
func New(load func(ctx context.Context) ([]Range, error), changed func()) *Map {
	return &Map{load: load, changed: changed, addrs: []string{""}}
}

// Node returns the address of the master that has the slot of a key, or "" if that is not known. It
// does not wait: if nothing is known, or what is known is old, the cluster is asked in the
// background.
func (m *Map) Node(key string) string {
	slot := Of(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	addr := m.addrs[m.masters[slot]]
	if addr == "" || time.Since(m.loaded) > staleAfter {
		m.refreshLocked()
	}
	return addr
}

// Masters returns the addresses of the masters that are known.
func (m *Map) Masters() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.addrs[1:])
}

// Await is Node, but first waits for the load that is under way, if any, or until ctx is done.
func (m *Map) Await(ctx context.Context, key string) string {
	m.mu.Lock()
	loading := m.loading
	m.mu.Unlock()
	if loading != nil {
		select {
		case <-loading:
		case <-ctx.Done():
		}
	}
	return m.Node(key)
}

// Refresh loads the Map again in the background, at most once per second.
func (m *Map) Refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshLocked()
}

// refreshLocked is Refresh. The caller holds m.mu.
func (m *Map) refreshLocked() {
	if m.loading != nil || time.Since(m.loaded) < refreshEvery {
		return
	}
	m.loading, m.loaded = make(chan struct{}), time.Now()
	go m.reload() // ends with loadTime
}

// reload asks the cluster. If that fails, what is known stays. It also stays if the answer has no
// slots, as that of a node that left the cluster and was reset.
func (m *Map) reload() {
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	ranges, err := m.load(ctx)
	news := err == nil && len(ranges) > 0
	m.mu.Lock()
	if news {
		m.setLocked(ranges)
	}
	close(m.loading)
	m.loading = nil
	m.mu.Unlock()
	if news {
		m.changed()
	}
}

// setLocked replaces what is known. The caller holds m.mu.
func (m *Map) setLocked(ranges []Range) {
	m.addrs, m.masters = []string{""}, [Count]uint16{}
	for _, r := range ranges {
		for slot := max(r.From, 0); slot <= min(r.To, Count-1); slot++ {
			m.learnLocked(slot, r.Addr)
		}
	}
}

// learnLocked notes the master of one slot. The caller holds m.mu.
func (m *Map) learnLocked(slot int, addr string) {
	for i := len(m.addrs) - 1; i >= 0; i-- {
		if m.addrs[i] == addr {
			m.masters[slot] = uint16(i)
			return
		}
	}
	m.masters[slot] = uint16(len(m.addrs))
	m.addrs = append(m.addrs, addr)
}

// Learn takes the text of a MOVED error, "MOVED slot host:port", from a node with that address. It
// reports whether the text says something new.
func (m *Map) Learn(text, from string) bool {
	code, slot, addr := redirection(text, from)
	if code != "MOVED" {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.addrs[m.masters[slot]] == addr
	m.learnLocked(slot, addr)
	m.refreshLocked()
	return !known
}

// Redirection returns the node that a MOVED or ASK error from a node with that address names; "" if
// the text is neither. asking says that the other node serves the request only after ASKING.
func Redirection(text, from string) (addr string, asking bool) {
	code, _, addr := redirection(text, from)
	return addr, code == "ASK"
}

// redirection returns the parts of a MOVED or ASK error, "MOVED slot host:port", from a node with that
// address; the code is "" if the text is neither.
func redirection(text, from string) (code string, slot int, addr string) {
	words := strings.Fields(text)
	if len(words) < 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return "", 0, ""
	}
	slot, err := strconv.Atoi(words[1])
	if err != nil || slot < 0 || slot >= Count {
		return "", 0, ""
	}
	addr = words[2]
	switch last := strings.LastIndexByte(addr, ':'); {
	case last == 0: // at the host that was asked
		addr = from[:max(strings.LastIndexByte(from, ':'), 0)] + addr
	case last > 0 && addr[0] != '[': // Redis writes IPv6 without brackets
		addr = net.JoinHostPort(addr[:last], addr[last+1:])
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", 0, ""
	}
	return words[0], slot, addr
}
