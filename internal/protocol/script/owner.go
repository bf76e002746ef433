package script

import (
	"strconv"
	"strings"
)

// prefix begins the owners of redlatch, and distinguishes them from those of other libraries, which
// do not hand over; kinds in Lua know it, too.
const prefix = "rl-"

// Window is the member of a job's key that is not an owner: the job's window has not ended.
const Window = "window"

// Owner returns the owner of a client's n-th acquisition.
func Owner(client string, n uint64) string {
	var room [64]byte // so that only the text is allocated
	text := append(append(append(room[:0], prefix...), client...), '-')
	return string(strconv.AppendUint(text, n, 36))
}

// keeps is the ending of owners whose client may keep the latch when the program is done.
const keeps = "~"

// MayKeep returns the owner with the ending that says that its client may keep the latch.
func MayKeep(owner string) string { return owner + keeps }

// Kept reports whether the client of an owner may only keep the latch, and should be asked for it.
func Kept(owner string) bool {
	return strings.HasPrefix(owner, prefix) && strings.HasSuffix(owner, keeps)
}

// OwnerClient returns the client of an owner, and whether the owner is one of redlatch's.
func OwnerClient(owner string) (client string, ok bool) {
	rest, ok := strings.CutPrefix(owner, prefix)
	if !ok {
		return "", false
	}
	client, _, _ = strings.Cut(rest, "-")
	return client, true
}

// HandsOver reports whether the release of an owner lets in the next waiter.
func HandsOver(owner string) bool { return strings.HasPrefix(owner, prefix) || owner == Window }
