package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Text is what the text of a detached lease says: what another process needs to extend it, to
// restore it on a node of a quorum, and to release it. The prefix of the key is the client's.
//
// The text is "rl1_" and, in base64 for URLs, a checksum and a JSON object. So it is one word in a
// shell, and a text that was cut off or mistyped is refused. A change to the fields is another
// version: it changes the beginning.
type Text struct {
	Kind   string `json:"k"`
	Name   string `json:"n"`
	Owner  string `json:"o"`
	Token  int64  `json:"t"`
	Detail string `json:"g,omitempty"` // as in [Grant]
	Param  string `json:"a,omitempty"` // and so on, as in [Lock]
	Extra  int64  `json:"x,omitempty"` // in ms
	Fence  string `json:"f,omitempty"` // LockOptions.FenceKey
}

const (
	textVersion = "rl1_"
	maxTextSize = 4096 // of a text, which bounds what is decoded
	checksum    = 6    // bytes
	maxExtra    = 366 * 24 * time.Hour
)

// params has the pattern of Param in the text of a lease, for each kind. The file of each kind in
// internal/protocol/script/lua says what Param means.
var params = map[string]string{
	script.Mutex.Name:     `^$`,
	script.Reentrant.Name: `^\d{1,19}:.+$`,
	script.RWMutex.Name:   `^[rwd]`,
	script.Semaphore.Name: `^\d{1,13}:[1-9]\d{0,12}$`,
	script.SlotPool.Name:  `^[1-9]\d{0,6}:\d{1,8}::`,
	script.Election.Name:  `^`, // any value
	script.Job.Name:       `^\d{1,11}$`,
}

// Text returns what names a lease on the lock for another process.
func (l *Lock) Text(owner string, token int64, detail string) Text {
	t := Text{
		Kind: l.Kind.Name, Name: l.Name, Owner: owner, Token: token, Detail: detail, Param: l.Param,
		Extra: l.Extra.Milliseconds(), Fence: l.FenceKey,
	}
	switch l.Kind.Name { // drops how many tokens its acquisition took for this process
	case script.Mutex.Name:
		t.Param = ""
	case script.RWMutex.Name:
		t.Param, _ = splitTokens(t.Param)
	}
	return t
}

func (t Text) String() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(t) // plain fields
	body := bytes.TrimSpace(b.Bytes())
	sum := sha256.Sum256(body)
	return textVersion + base64.RawURLEncoding.EncodeToString(append(sum[:checksum:checksum], body...))
}

// ParseText reads a text that the root's Lease.Detach returned. Any other matches ErrInvalid.
func ParseText(text string) (Text, error) {
	var t Text
	body, ok := strings.CutPrefix(text, textVersion)
	if !ok || len(text) > maxTextSize {
		return t, fault.Invalid("%.80q names no lease: it is not a text that Detach returned", text)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(body)
	// Comparing it with the text of the same lease refuses all else that JSON would read.
	if err != nil || len(data) < checksum || json.Unmarshal(data[checksum:], &t) != nil || t.String() != text {
		return t, fault.Invalid("%.80q names no lease: it is incomplete, or was changed", text)
	}
	if err := t.check(); err != nil {
		return t, fault.Invalid("the text %.80q names no lease that can be: %w", text, err)
	}
	return t, nil
}

// check refuses what no lease has. The name is left to the latch.
func (t Text) check() error {
	_, ours := script.OwnerClient(t.Owner)
	switch {
	case script.Named(t.Kind) == nil || !script.Named(t.Kind).Leases():
		return fault.Invalid("there is no kind %q", t.Kind)
	case !ours || len(t.Owner) > keys.MaxText:
		return fault.Invalid("there is no owner %q", t.Owner)
	case t.Token <= 0:
		return fault.Invalid("there is no token %d", t.Token)
	case !regexp.MustCompile(params[t.Kind]).MatchString(t.Param):
		return fault.Invalid("a %s has no argument %q", t.Kind, t.Param)
	case t.Extra < 0 || t.Extra > maxExtra.Milliseconds(): // a node of a quorum would rest for so long
		return fault.Invalid("there is no window or rest of %d ms", t.Extra)
	}
	if n, err := strconv.Atoi(t.Detail); t.Kind == script.SlotPool.Name && (err != nil || n < 0) {
		return fault.Invalid("there is no slot %q", t.Detail)
	}
	for _, part := range []string{t.Owner, t.Detail, t.Param} {
		if err := keys.Printable(part); err != nil {
			return err
		}
	}
	return nil
}
