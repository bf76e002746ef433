package memory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// command is a command of Redis.
type command struct {
	run    verb
	least  int // arguments
	writes bool
	grows  bool // needs memory
}

type verb = func(s *store, args []string) (any, error)

func reads(least int, run verb) command   { return command{run, least, false, false} }
func shrinks(least int, run verb) command { return command{run, least, true, false} }
func grows(least int, run verb) command   { return command{run, least, true, true} }

var commands = map[string]command{
	"DEL": shrinks(1, del), "EXISTS": reads(1, exists), "TYPE": reads(1, typeOf), "KEYS": reads(1, keysOf),
	"PTTL": reads(1, pttl), "PEXPIRE": shrinks(2, pexpire),
	"TIME": reads(0, timeOf), "INFO": reads(0, info), "PUBLISH": reads(2, publish), "SPUBLISH": reads(2, spublish),
	"PUBSUB": reads(1, pubsub), "FLUSHALL": shrinks(0, flush),

	"RPUSH": grows(2, rpush), // for tests of keys that are no lock

	"GET": reads(1, get), "SET": grows(2, set), "INCR": grows(1, incr),
	"GETBIT": reads(2, getbit), "SETBIT": grows(3, setbit), "BITPOS": reads(2, bitpos),

	"HGET": reads(2, hget), "HMGET": reads(2, hmget), "HSET": grows(3, hset), "HDEL": shrinks(2, remove[*hash]),
	"HLEN": reads(1, count[*hash]), "HEXISTS": reads(2, hexists),
	"HGETALL": reads(1, hashList(func(field, value string) []any { return []any{field, value} })),
	"HKEYS":   reads(1, hashList(func(field, _ string) []any { return []any{field} })),
	"HVALS":   reads(1, hashList(func(_, value string) []any { return []any{value} })),

	"ZADD": grows(3, zadd), "ZINCRBY": grows(3, zincrby), "ZSCORE": reads(2, zscore), "ZRANK": reads(2, zrank),
	"ZCARD": reads(1, count[*sorted]), "ZCOUNT": reads(3, zcount), "ZREM": shrinks(2, remove[*sorted]), "ZRANGE": reads(3, zrange),
	"ZRANGEBYSCORE": reads(3, zrangebyscore), "ZREMRANGEBYRANK": shrinks(3, zremrange(byRank)),
	"ZREMRANGEBYSCORE": shrinks(3, zremrange(byScore)),

	"XADD": grows(4, xadd), "XTRIM": shrinks(3, xtrim), "XRANGE": reads(3, xrange(false)), "XREVRANGE": reads(3, xrange(true)),
}

// command runs a command. *wrote says whether the command's script has written before; command
// updates it.
func (s *store) command(args []string, wrote *bool) (any, error) {
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
	if s.refusal == Loading || s.refusal != Serves && !*wrote && (c.grows || c.writes && s.refusal != Full) {
		return nil, errors.New(refusals[s.refusal])
	}
	*wrote = *wrote || c.writes
	return c.run(s, args[1:])
}
