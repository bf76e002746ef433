package fenceredis

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Check is a Lua function for scripts of your own, to be put in front of their text:
//
//	local newest = stale(KEYS[2], ARGV[1], ARGV[2])
//	if newest then return newest end
//
// stale(mark, token, ttl) returns nil if the token is not older than the one at the key mark, and
// stores it there for ttl milliseconds, or for good if ttl is 0. Otherwise it returns the newest
// token (0 if there is none, so let success return something that is no integer) and stores
// nothing. The mark must be in KEYS, in the hash slot of the others: see [MarkKey]. Tokens must be
// integers from 1 to 2^53, as those of redlatch are until the year 2255. Anything smaller or
// larger, and any text that is not a number, NaN included, is stale. A mark that is none of these
// numbers, nor 0, is an error.
//
// tonumber reads "NaN" as a number, but no comparison of NaN with a number is true. So stale asks
// whether a number is within its bounds, and not whether it is outside of them.
const Check = `local function stale(mark, token, ttl)
local MAX = 9007199254740992
local newest = tonumber(redis.call('GET', mark) or 0)
if not newest or not (newest >= 0 and newest <= MAX) then error('REDLATCH ' .. mark .. ' holds no fencing token') end
local mine = tonumber(token)
if not mine or not (mine >= 1 and mine <= MAX) or mine < newest then return newest end
if tonumber(ttl) > 0 then redis.call('SET', mark, token, 'PX', ttl) else redis.call('SET', mark, token) end
end
`

// set writes a value.
//
//	KEYS  key, mark
//	ARGV  token, ttl of the mark ms, value, ttl ms (0 for none)
//	Reply OK               written
//	      the newest token  stale; nothing was written
//	Cost  3 commands, 1 if it is stale
const set = Check + `local newest = stale(KEYS[2], ARGV[1], ARGV[2])
if newest then return newest end
if ARGV[4] == '0' then redis.call('SET', KEYS[1], ARGV[3]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) end
return 'OK'
`

// get reads a value.
//
//	KEYS  key, mark
//	ARGV  token, how much longer than the value the mark is kept ms
//	Reply {value or nil}
//	      the newest token  stale
//	Cost  4 commands, 2 if it is stale
const get = Check + `local ttl = redis.call('PTTL', KEYS[1])
local newest = stale(KEYS[2], ARGV[1], ttl == -1 and 0 or math.max(ttl, 0) + ARGV[2])
if newest then return newest end
return {redis.call('GET', KEYS[1])}
`

var (
	setScript = conn.NewScript("fence set", set)
	getScript = conn.NewScript("fence get", get)
)

// MarkKey returns the key that holds the newest token seen for a key, in the same hash slot. A key
// that is empty, longer than 512 bytes, no UTF-8, with control characters or with braces that are
// no hash tag, is refused with an error that matches [fence.ErrInvalid]; so is one that is nothing
// but a hash tag.
func MarkKey(key string) (string, error) {
	of, err := keys.Of("", key)
	if err != nil {
		return "", fmt.Errorf("redlatch: fence key %q is %w: %w", key, fence.ErrInvalid, err)
	}
	return keys.Sibling(of.State(), keys.MarkSuffix), nil
}

// extra is how much longer than the value its mark is kept: longer than any process can be expected
// to sleep.
const extra = 7 * 24 * time.Hour

func setCall(key, mark, value string, token int64, ttl time.Duration) conn.Call {
	kept := ttl
	if ttl > 0 {
		kept += extra
	}
	return conn.Call{
		Script: setScript,
		Keys:   []string{key, mark},
		Args:   []string{strconv.FormatInt(token, 10), millis(kept), value, millis(ttl)},
	}
}

func getCall(key, mark string, token int64) conn.Call {
	return conn.Call{
		Script: getScript,
		Keys:   []string{key, mark},
		Args:   []string{strconv.FormatInt(token, 10), millis(extra)},
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
