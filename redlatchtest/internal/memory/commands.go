package memory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// status is a reply such as OK.
type status string

const ok status = "OK"

var (
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	errInteger   = errors.New("ERR value is not an integer or out of range")
	errFloat     = errors.New("ERR value is not a valid float")
	errSyntax    = errors.New("ERR syntax error")
	errArguments = errors.New("ERR wrong number of arguments")
)

// refusals are the errors of a server that refuses.
var refusals = map[Refusal]string{
	Full:     "OOM command not allowed when used memory > 'maxmemory'.",
	DiskFull: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	ReadOnly: "READONLY You can't write against a read only replica.",
	Loading:  "LOADING Redis is loading the dataset in memory",
}

// command is a command of Redis.
type command struct {
	run    func(s *Server, args []string) (any, error)
	least  int // arguments
	writes bool
	grows  bool // needs memory
}

var commands map[string]command

func init() {
	reads := func(least int, run func(*Server, []string) (any, error)) command {
		return command{run, least, false, false}
	}
	shrinks := func(least int, run func(*Server, []string) (any, error)) command {
		return command{run, least, true, false}
	}
	grows := func(least int, run func(*Server, []string) (any, error)) command {
		return command{run, least, true, true}
	}
	commands = map[string]command{
		"DEL": shrinks(1, del), "EXISTS": reads(1, exists), "TYPE": reads(1, typeOf), "KEYS": reads(1, keysOf),
		"PTTL": reads(1, pttl), "PEXPIRE": shrinks(2, expire(1)), "EXPIRE": shrinks(2, expire(1000)),
		"TIME": reads(0, timeOf), "INFO": reads(0, info), "PUBLISH": reads(2, publish), "SPUBLISH": reads(2, spublish),
		"PUBSUB": reads(1, pubsub), "FLUSHALL": shrinks(0, flush), "PING": reads(0, ping),

		"RPUSH": grows(2, rpush), // for tests of keys that are no lock

		"GET": reads(1, get), "SET": grows(2, set), "INCR": grows(1, incr),
		"GETBIT": reads(2, getbit), "SETBIT": grows(3, setbit), "BITPOS": reads(2, bitpos),

		"HGET": reads(2, hget), "HMGET": reads(2, hmget), "HSET": grows(3, hset), "HDEL": shrinks(2, hdel),
		"HLEN": reads(1, hlen), "HEXISTS": reads(2, hexists), "HGETALL": reads(1, hgetall), "HKEYS": reads(1, hkeys),
		"HVALS": reads(1, hvals),

		"ZADD": grows(3, zadd), "ZINCRBY": grows(3, zincrby), "ZSCORE": reads(2, zscore), "ZRANK": reads(2, zrank),
		"ZCARD": reads(1, zcard), "ZCOUNT": reads(3, zcount), "ZREM": shrinks(2, zrem), "ZRANGE": reads(3, zrange),
		"ZRANGEBYSCORE": reads(3, zrangebyscore), "ZREMRANGEBYRANK": shrinks(3, zremrangebyrank),
		"ZREMRANGEBYSCORE": shrinks(3, zremrangebyscore),

		"XADD": grows(4, xadd), "XTRIM": shrinks(3, xtrim), "XRANGE": reads(3, xrange(false)), "XREVRANGE": reads(3, xrange(true)),
	}
}

// command runs a command. wrote is whether the script that it is of has written before, which
// command notes.
func (s *Server) command(args []string, wrote *bool) (any, error) {
	if len(args) == 0 {
		return nil, errArguments
	}
	c, known := commands[args[0]]
	if !known {
		if c, known = commands[strings.ToUpper(args[0])]; !known {
			return nil, fmt.Errorf("ERR unknown command '%s'", args[0])
		}
	}
	if len(args)-1 < c.least {
		return nil, fmt.Errorf("%w for '%s' command", errArguments, strings.ToLower(args[0]))
	}
	s.commands++
	if len(s.forbidden) > 0 && slices.Contains(s.forbidden, strings.ToUpper(args[0])) {
		return nil, fmt.Errorf("NOPERM this user has no permissions to run the '%s' command", strings.ToLower(args[0]))
	}
	if s.refusal == Loading {
		return nil, errors.New(refusals[Loading])
	}
	if s.refusal != Serves && !*wrote && (c.grows || c.writes && s.refusal != Full) {
		return nil, errors.New(refusals[s.refusal])
	}
	*wrote = *wrote || c.writes
	return c.run(s, args[1:])
}

// valueOf returns what a key holds, and whether there is such a key. It fails if the key is of
// another type.
func valueOf[T any](s *Server, key string) (v T, found bool, err error) {
	e := s.lookup(key)
	if e == nil {
		return v, false, nil
	}
	v, same := e.value.(T)
	if !same {
		return v, false, errWrongType
	}
	return v, true, nil
}

// made returns what a key holds. It creates the key if there is none.
func made[T any](s *Server, key string, create func() T) (T, error) {
	v, found, err := valueOf[T](s, key)
	if err == nil && !found {
		v = create()
		s.keys[key] = &entry{value: v}
	}
	return v, err
}

// integer reads an integer that is written as Redis would write it: without a plus, or zeros before
// it.
func integer(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	digits := strings.TrimPrefix(text, "-")
	if err != nil || text[0] == '+' || digits[0] == '0' && text != "0" {
		return 0, errInteger
	}
	return n, nil
}

// float reads a score: a number, or an infinity.
func float(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return 0, errFloat
	}
	return f, nil
}

// scoreText writes a score as Redis does.
func scoreText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f == 0: // also of -0, which a small sorted set does not keep
		return "0"
	}
	return numberText(f)
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
