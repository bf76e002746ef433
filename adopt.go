package redlatch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A lease can go on in another process. Detach ends it here without releasing it, and returns a
// text that names it. Adopt takes it up again, here or elsewhere, with the same token.
//
// In Redis the lease gets a new owner when it is adopted. So a text can be used once: a second
// Adopt finds the old owner gone. Nor can anything that was sent for the old owner, and arrives
// late, extend or release the lease of the new one.

// Adopt takes up a lease that [Lease.Detach] named, of any kind of lock, and gives it its full TTL
// again. The lease that it returns has the fencing token of the one that was detached, and is
// extended, released and lost as any other. ctx is the parent of its context. o says how it is held
// from now on, over the options of the client; TTL need not be what it was, and MaxHold counts from
// now.
//
// A text can be used once: the lease gets a new [Lease.Owner], so that of several calls
// with one text at most one succeeds. To hand the lease on, detach it again. See [Lease.Slot] for
// the number of a slot.
//
// The error matches [ErrNotHeld] if the lease has ended: its TTL has passed, the text was used
// before, or the lock was released, taken by force or deleted. It matches [ErrInvalid] if the text
// names no lease, and [ErrWrongKind] if the name is in use for something else by now. If it matches
// [ErrUnreachable], or is that of ctx, it is unknown whether the text is used up. If it is, the
// lock is released in the background, and another call with the text gets [ErrNotHeld].
func (c *Client) Adopt(ctx context.Context, text string, o LockOptions) (*Lease, error) {
	l, t, err := c.named(text, o)
	if err != nil {
		return nil, err
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.engine.Acquirer.Adopt(ctx, &l.Lock, acquire.Detached{Owner: t.Owner, Token: t.Token, Detail: t.Detail}, wish)
	return c.lend(got), err
}

// named returns what a text says, and the latch that the lease is on.
func (c *Client) named(text string, o LockOptions) (*latch, leaseText, error) {
	t, err := parseLeaseText(text)
	if err != nil {
		return nil, t, err
	}
	l := t.latch(c).with(o)
	return &l, t, l.invalid
}

// leaseText is what the text of a detached lease says: what another process needs to extend it, to
// restore it on a node of a quorum, and to release it. The prefix of the key is the client's.
//
// The text is "rl1_" and, in base64 for URLs, a checksum and a JSON object. So it is one word in a
// shell, and a text that was cut off or mistyped is refused. A change to the fields is another
// version: it changes the beginning.
type leaseText struct {
	Kind   string `json:"k"`
	Name   string `json:"n"`
	Owner  string `json:"o"`
	Token  int64  `json:"t"`
	Detail string `json:"g,omitempty"` // as in lease.Lease
	Param  string `json:"a,omitempty"` // and so on, as in lock.Lock
	Extra  int64  `json:"x,omitempty"` // in ms
	Fence  string `json:"f,omitempty"` // LockOptions.FenceKey
}

const (
	textVersion = "rl1_"
	maxTextSize = 4096 // of a text, which bounds what is decoded
	checksum    = 6    // bytes
)

// params is how the text of a lease spells Param, for each kind. What a kind means by it is told by
// Param in its file in internal/protocol/script/lua.
var params = map[string]*regexp.Regexp{
	script.Mutex.Name:     regexp.MustCompile(`^$`),
	script.Reentrant.Name: regexp.MustCompile(`^\d{1,19}:.+$`),
	script.RWMutex.Name:   regexp.MustCompile(`^[rwd]`),
	script.Semaphore.Name: regexp.MustCompile(`^\d{1,13}:[1-9]\d{0,12}$`),
	script.SlotPool.Name:  regexp.MustCompile(`^[1-9]\d{0,6}:\d{1,8}::`),
	script.Election.Name:  regexp.MustCompile(`^`), // any value
	script.Job.Name:       regexp.MustCompile(`^\d{1,11}$`),
}

// textOf returns what names a lease for another process.
func textOf(l *lease.Lease) string {
	k := l.Lock()
	t := leaseText{
		Kind: k.Kind.Name, Name: k.Name, Owner: l.Owner(), Token: l.Number(), Detail: l.Detail(), Param: k.Param,
		Extra: k.Extra.Milliseconds(), Fence: k.FenceKey,
	}
	if k.Kind.Name == script.Mutex.Name {
		t.Param = "" // how many tokens its acquisition took, for goroutines of this process
	}
	return t.String()
}

func (t leaseText) String() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(t) // plain fields
	body := bytes.TrimSpace(b.Bytes())
	sum := sha256.Sum256(body)
	return textVersion + base64.RawURLEncoding.EncodeToString(append(sum[:checksum:checksum], body...))
}

// parseLeaseText reads a text that [Lease.Detach] returned. Any other matches ErrInvalid.
func parseLeaseText(text string) (leaseText, error) {
	var t leaseText
	body, ok := strings.CutPrefix(text, textVersion)
	if !ok || len(text) > maxTextSize {
		return t, invalid("%.80q names no lease: it is not a text that Detach returned", text)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(body)
	// The comparison with what is written for the same lease refuses all that JSON reads beside it.
	if err != nil || len(data) < checksum || json.Unmarshal(data[checksum:], &t) != nil || t.String() != text {
		return t, invalid("%.80q names no lease: it is incomplete, or was changed", text)
	}
	if err := t.check(); err != nil {
		return t, invalid("the text %.80q names no lease that can be: %w", text, err)
	}
	return t, nil
}

// check refuses what no lease has. The name is left to the latch.
func (t leaseText) check() error {
	_, ours := script.OwnerClient(t.Owner)
	switch {
	case script.Named(t.Kind) == nil || !script.Named(t.Kind).Leases():
		return invalid("there is no kind %q", t.Kind)
	case !ours || len(t.Owner) > maxText:
		return invalid("there is no owner %q", t.Owner)
	case t.Token <= 0:
		return invalid("there is no token %d", t.Token)
	case !params[t.Kind].MatchString(t.Param):
		return invalid("a %s has no argument %q", t.Kind, t.Param)
	case t.Extra < 0:
		return invalid("there is no window or rest of %d ms", t.Extra)
	}
	if _, err := strconv.Atoi(t.Detail); t.Kind == script.SlotPool.Name && err != nil {
		return invalid("there is no slot %q", t.Detail)
	}
	for _, part := range []string{t.Owner, t.Detail, t.Param} {
		if err := keys.Printable(part); err != nil {
			return err
		}
	}
	return nil
}

// latch returns what the lease is on.
func (t leaseText) latch(c *Client) latch {
	l := newLatch(c, script.Named(t.Kind), t.Name)
	l.Param = t.Param
	l.Extra = time.Duration(t.Extra) * time.Millisecond
	l.options.FenceKey = t.Fence
	return l
}
