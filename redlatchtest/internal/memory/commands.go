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

func del(s *Server, args []string) (any, error) {
	var n int64
	for _, key := range args {
		if s.lookup(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	return n, nil
}

func exists(s *Server, args []string) (any, error) {
	var n int64
	for _, key := range args {
		n += truth(s.lookup(key) != nil)
	}
	return n, nil
}

func typeOf(s *Server, args []string) (any, error) {
	e := s.lookup(args[0])
	if e == nil {
		return status("none"), nil
	}
	switch e.value.(type) {
	case *hash:
		return status("hash"), nil
	case *sorted:
		return status("zset"), nil
	case *stream:
		return status("stream"), nil
	case *list:
		return status("list"), nil
	}
	return status("string"), nil
}

func keysOf(s *Server, args []string) (any, error) {
	all := []any{}
	for key := range s.keys {
		if s.lookup(key) != nil && glob(args[0], key) {
			all = append(all, key)
		}
	}
	return all, nil
}

func pttl(s *Server, args []string) (any, error) {
	e := s.lookup(args[0])
	switch {
	case e == nil:
		return int64(-2), nil
	case e.expires == 0:
		return int64(-1), nil
	}
	return e.expires - s.at, nil
}

func expire(unit int64) func(s *Server, args []string) (any, error) {
	return func(s *Server, args []string) (any, error) {
		n, err := integer(args[1])
		if err != nil {
			return nil, err
		}
		e := s.lookup(args[0])
		if e == nil {
			return int64(0), nil
		}
		s.expireIn(args[0], e, n*unit)
		return int64(1), nil
	}
}

func timeOf(s *Server, _ []string) (any, error) {
	us := s.now().UnixMicro()
	return []any{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}, nil
}

func info(s *Server, _ []string) (any, error) {
	version := "7.0.15"
	if s.old {
		version = "6.0.16"
	}
	return "# Server\r\nredis_version:" + version + "\r\nrun_id:" + s.run + "\r\n", nil
}

// ping refuses on a server that cannot write to its disk, as if it wrote.
func ping(s *Server, _ []string) (any, error) {
	if s.refusal == DiskFull {
		return nil, errors.New(refusals[DiskFull])
	}
	return status("PONG"), nil
}

func flush(s *Server, _ []string) (any, error) {
	clear(s.keys)
	return ok, nil
}

func publish(s *Server, args []string) (any, error) {
	subs := s.channels[args[0]]
	for _, sub := range subs {
		sub.message(args[0], args[1])
	}
	for _, sub := range s.all {
		sub.message(args[0], args[1])
	}
	return int64(len(subs) + len(s.all)), nil
}

// spublish reaches no listener: there are no subscriptions to sharded channels, which are others
// than those of PUBLISH.
func spublish(s *Server, _ []string) (any, error) {
	if s.old {
		return nil, errors.New("ERR unknown command 'SPUBLISH'")
	}
	return int64(0), nil
}

func pubsub(s *Server, args []string) (any, error) {
	what := strings.ToUpper(args[0])
	if what != "NUMSUB" && (what != "SHARDNUMSUB" || s.old) {
		return nil, errSyntax
	}
	var all []any
	for _, channel := range args[1:] {
		n := 0
		if what == "NUMSUB" {
			n = len(s.channels[channel])
		}
		all = append(all, channel, int64(n))
	}
	return all, nil
}

func rpush(s *Server, args []string) (any, error) {
	all, err := made(s, args[0], func() *list { return &list{} })
	if err != nil {
		return nil, err
	}
	all.items = append(all.items, args[1:]...)
	return int64(len(all.items)), nil
}

func get(s *Server, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil || !found {
		return nil, err
	}
	return text, nil
}

func set(s *Server, args []string) (any, error) {
	key, value, ms := args[0], args[1], int64(0)
	var absent, keep, tell bool
	for i := 2; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "NX":
			absent = true
		case "KEEPTTL":
			keep = true
		case "GET":
			tell = true
		case "EX", "PX":
			if i+1 == len(args) {
				return nil, errSyntax
			}
			n, err := integer(args[i+1])
			if err != nil {
				return nil, err
			}
			if n <= 0 {
				return nil, errors.New("ERR invalid expire time in 'set' command")
			}
			if strings.EqualFold(args[i], "EX") {
				n *= 1000
			}
			ms = n
			i++
		default:
			return nil, errSyntax
		}
	}
	before := s.lookup(key)
	var old any
	if tell && before != nil {
		text, is := before.value.(string)
		if !is {
			return nil, errWrongType
		}
		old = text
	}
	if absent && before != nil {
		return old, nil
	}
	e := &entry{value: value}
	if keep && before != nil {
		e.expires = before.expires
	}
	s.keys[key] = e
	if ms > 0 {
		s.expireIn(key, e, ms)
	}
	if tell {
		return old, nil
	}
	return ok, nil
}

func incr(s *Server, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	if !found {
		s.keys[args[0]] = &entry{value: "1"}
		return int64(1), nil
	}
	n, err := integer(text)
	if err != nil {
		return nil, err
	}
	s.keys[args[0]].value = strconv.FormatInt(n+1, 10)
	return n + 1, nil
}

// maxBits is how long a text can be, in bits.
const maxBits = 512 << 20 * 8

func getbit(s *Server, args []string) (any, error) {
	text, _, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	n, err := integer(args[1])
	if err != nil || n < 0 || n >= maxBits {
		return nil, errors.New("ERR bit offset is not an integer or out of range")
	}
	if n/8 >= int64(len(text)) {
		return int64(0), nil
	}
	return int64(text[n/8] >> (7 - n%8) & 1), nil
}

func setbit(s *Server, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	n, err := integer(args[1])
	if err != nil || n < 0 || n >= maxBits || args[2] != "0" && args[2] != "1" {
		return nil, errors.New("ERR bit offset is not an integer or out of range")
	}
	bits := []byte(text)
	if more := int(n/8) + 1 - len(bits); more > 0 {
		bits = append(bits, make([]byte, more)...)
	}
	mask := byte(1) << (7 - n%8)
	was := truth(bits[n/8]&mask != 0)
	bits[n/8] &^= mask
	if args[2] == "1" {
		bits[n/8] |= mask
	}
	if found {
		s.keys[args[0]].value = string(bits)
	} else {
		s.keys[args[0]] = &entry{value: string(bits)}
	}
	return was, nil
}

func bitpos(s *Server, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	bit, err := integer(args[1])
	if err != nil || bit != 0 && bit != 1 || len(args) > 3 {
		return nil, errSyntax
	}
	if !found {
		return -bit, nil
	}
	var from int64
	if len(args) == 3 {
		if from, err = integer(args[2]); err != nil {
			return nil, err
		}
	}
	size := int64(len(text))
	if from < 0 {
		from = max(0, from+size)
	}
	if from >= size {
		return int64(-1), nil
	}
	for n := from * 8; n < size*8; n++ {
		if int64(text[n/8]>>(7-n%8)&1) == bit {
			return n, nil
		}
	}
	if bit == 1 {
		return int64(-1), nil
	}
	return size * 8, nil
}

func newHash() *hash { return &hash{values: make(map[string]string)} }

func hget(s *Server, args []string) (any, error) {
	all, err := hmget(s, args[:2])
	if err != nil {
		return nil, err
	}
	return all.([]any)[0], nil
}

func hmget(s *Server, args []string) (any, error) {
	h, found, err := valueOf[*hash](s, args[0])
	if err != nil {
		return nil, err
	}
	all := make([]any, len(args)-1)
	for i, field := range args[1:] {
		if found {
			if value, has := h.values[field]; has {
				all[i] = value
			}
		}
	}
	return all, nil
}

func hset(s *Server, args []string) (any, error) {
	if len(args)%2 == 0 {
		return nil, fmt.Errorf("%w for 'hset' command", errArguments)
	}
	h, err := made(s, args[0], newHash)
	if err != nil {
		return nil, err
	}
	var n int64
	for i := 1; i < len(args); i += 2 {
		n += truth(h.set(args[i], args[i+1]))
	}
	return n, nil
}

func hdel(s *Server, args []string) (any, error) {
	h, found, err := valueOf[*hash](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	var n int64
	for _, field := range args[1:] {
		n += truth(h.remove(field))
	}
	if len(h.fields) == 0 {
		delete(s.keys, args[0])
	}
	return n, nil
}

func hlen(s *Server, args []string) (any, error) {
	h, found, err := valueOf[*hash](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	return int64(len(h.fields)), nil
}

func hexists(s *Server, args []string) (any, error) {
	v, err := hget(s, args)
	return truth(v != nil), err
}

// hashList returns what each tells of the fields of a hash.
func hashList(s *Server, key string, each func(h *hash, field string, all []any) []any) (any, error) {
	h, found, err := valueOf[*hash](s, key)
	if err != nil {
		return nil, err
	}
	all := []any{}
	if found {
		for _, field := range h.fields {
			all = each(h, field, all)
		}
	}
	return all, nil
}

func hgetall(s *Server, args []string) (any, error) {
	return hashList(s, args[0], func(h *hash, field string, all []any) []any { return append(all, field, h.values[field]) })
}

func hkeys(s *Server, args []string) (any, error) {
	return hashList(s, args[0], func(_ *hash, field string, all []any) []any { return append(all, field) })
}

func hvals(s *Server, args []string) (any, error) {
	return hashList(s, args[0], func(h *hash, field string, all []any) []any { return append(all, h.values[field]) })
}

func newSorted() *sorted { return &sorted{scores: make(map[string]float64)} }

func zadd(s *Server, args []string) (any, error) {
	key, pairs, onlyNew := args[0], args[1:], false
	if strings.EqualFold(pairs[0], "NX") {
		pairs, onlyNew = pairs[1:], true
	}
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		return nil, errSyntax
	}
	scores := make([]float64, len(pairs)/2) // all of them are read before any is added
	for i := range scores {
		f, err := float(pairs[2*i])
		if err != nil {
			return nil, err
		}
		scores[i] = f
	}
	z, err := made(s, key, newSorted)
	if err != nil {
		return nil, err
	}
	var n int64
	for i, score := range scores {
		text := pairs[2*i+1]
		if _, had := z.scores[text]; had && onlyNew {
			continue
		}
		n += truth(z.add(text, score))
	}
	return n, nil
}

func zincrby(s *Server, args []string) (any, error) {
	by, err := float(args[1])
	if err != nil {
		return nil, err
	}
	z, err := made(s, args[0], newSorted)
	if err != nil {
		return nil, err
	}
	score := z.scores[args[2]] + by
	z.add(args[2], score)
	return scoreText(score), nil
}

func zscore(s *Server, args []string) (any, error) {
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return nil, err
	}
	score, has := z.scores[args[1]]
	if !has {
		return nil, nil
	}
	return scoreText(score), nil
}

func zrank(s *Server, args []string) (any, error) {
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return nil, err
	}
	score, has := z.scores[args[1]]
	if !has {
		return nil, nil
	}
	return int64(z.find(member{args[1], score})), nil
}

func zcard(s *Server, args []string) (any, error) {
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	return int64(len(z.members)), nil
}

// spanOf reads two ends of a range of scores.
func spanOf(from, to string) (sp span, err error) {
	from, sp.after = strings.CutPrefix(from, "(")
	to, sp.before = strings.CutPrefix(to, "(")
	if sp.from, err = float(from); err == nil {
		sp.to, err = float(to)
	}
	if err != nil {
		err = errors.New("ERR min or max is not a float")
	}
	return sp, err
}

func zcount(s *Server, args []string) (any, error) {
	sp, err := spanOf(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	_, n := z.between(sp)
	return int64(n), nil
}

// drop removes members of a sorted set, and the key with the last of them.
func (s *Server) drop(key string, z *sorted, i, n int) int64 {
	z.cut(i, n)
	if len(z.members) == 0 {
		delete(s.keys, key)
	}
	return int64(n)
}

func zrem(s *Server, args []string) (any, error) {
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	var n int64
	for _, text := range args[1:] {
		n += truth(z.remove(text))
	}
	s.drop(args[0], z, 0, 0)
	return n, nil
}

// tell returns members, each followed by its score if that is asked for.
func tell(members []member, scores bool) []any {
	all := make([]any, 0, 2*len(members))
	for _, m := range members {
		all = append(all, m.text)
		if scores {
			all = append(all, scoreText(m.score))
		}
	}
	return all
}

// ranksOf reads two ranks.
func ranksOf(from, to string) (i, j int64, err error) {
	if i, err = integer(from); err == nil {
		j, err = integer(to)
	}
	return i, j, err
}

func zrange(s *Server, args []string) (any, error) {
	from, to, err := ranksOf(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return []any{}, err
	}
	i, n := z.ranks(from, to)
	return tell(z.members[i:i+n], len(args) > 3), nil
}

func zrangebyscore(s *Server, args []string) (any, error) {
	sp, err := spanOf(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return []any{}, err
	}
	i, n := z.between(sp)
	scores := false
	for a := 3; a < len(args); a++ {
		switch strings.ToUpper(args[a]) {
		case "WITHSCORES":
			scores = true
		case "LIMIT":
			if a+2 >= len(args) {
				return nil, errSyntax
			}
			skip, most, err := ranksOf(args[a+1], args[a+2])
			if err != nil {
				return nil, err
			}
			if skip < 0 {
				skip = int64(n)
			}
			skip = min(skip, int64(n))
			i, n = i+int(skip), n-int(skip)
			if most >= 0 {
				n = int(min(int64(n), most))
			}
			a += 2
		default:
			return nil, errSyntax
		}
	}
	return tell(z.members[i:i+n], scores), nil
}

func zremrangebyrank(s *Server, args []string) (any, error) {
	from, to, err := ranksOf(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	i, n := z.ranks(from, to)
	return s.drop(args[0], z, i, n), nil
}

func zremrangebyscore(s *Server, args []string) (any, error) {
	sp, err := spanOf(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, found, err := valueOf[*sorted](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	i, n := z.between(sp)
	return s.drop(args[0], z, i, n), nil
}

func xadd(s *Server, args []string) (any, error) {
	key, rest, most := args[0], args[1:], int64(-1)
	if strings.EqualFold(rest[0], "MAXLEN") {
		if len(rest) < 4 || rest[1] != "~" {
			return nil, errSyntax
		}
		n, err := integer(rest[2])
		if err != nil {
			return nil, err
		}
		rest, most = rest[3:], n
	}
	if len(rest) < 3 || len(rest)%2 == 0 || rest[0] != "*" {
		return nil, errSyntax
	}
	x, err := made(s, key, func() *stream { return &stream{} })
	if err != nil {
		return nil, err
	}
	next := id{s.at, 0}
	if next.compare(x.last) <= 0 {
		next = id{x.last.ms, x.last.seq + 1}
	}
	x.add(item{next, slices.Clone(rest[1:])})
	for most >= 0 && len(x.blocks) > 0 && int64(len(x.items)-x.blocks[0].entries) >= most {
		x.drop()
	}
	return next.String(), nil
}

// String writes an id as Redis does.
func (a id) String() string { return strconv.FormatInt(a.ms, 10) + "-" + strconv.FormatInt(a.seq, 10) }

// idOf reads an id; one without a sequence has this one.
func idOf(text string, seq int64) (id, error) {
	ms, rest, has := strings.Cut(text, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err == nil && has {
		seq, err = strconv.ParseInt(rest, 10, 64)
	}
	if err != nil {
		return id{}, errors.New("ERR Invalid stream ID specified as stream command argument")
	}
	return id{n, seq}, nil
}

func xtrim(s *Server, args []string) (any, error) {
	if s.old || !strings.EqualFold(args[1], "MINID") || args[2] != "~" || len(args) != 4 {
		return nil, errSyntax
	}
	least, err := idOf(args[3], 0)
	if err != nil {
		return nil, err
	}
	x, found, err := valueOf[*stream](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	var n int64
	for len(x.blocks) > 0 && x.items[x.blocks[0].entries-1].id.compare(least) < 0 {
		n += int64(x.drop())
	}
	return n, nil
}

func xrange(newestFirst bool) func(*Server, []string) (any, error) {
	return func(s *Server, args []string) (any, error) {
		first, last := args[1], args[2]
		if newestFirst {
			first, last = last, first
		}
		from, err := streamEnd(first, 0, 1)
		if err != nil {
			return nil, err
		}
		to, err := streamEnd(last, math.MaxInt64, -1)
		if err != nil {
			return nil, err
		}
		most := int64(math.MaxInt64)
		if len(args) == 5 && strings.EqualFold(args[3], "COUNT") {
			if most, err = integer(args[4]); err != nil {
				return nil, err
			}
			most = max(most, 0)
		}
		x, found, err := valueOf[*stream](s, args[0])
		if err != nil || !found {
			return []any{}, err
		}
		if most == 0 {
			return nil, nil
		}
		items := slices.DeleteFunc(slices.Clone(x.items), func(e item) bool { return e.id.compare(from) < 0 || e.id.compare(to) > 0 })
		if newestFirst {
			slices.Reverse(items)
		}
		all := []any{}
		for _, e := range items[:min(int64(len(items)), most)] {
			fields := make([]any, len(e.fields))
			for i, f := range e.fields {
				fields[i] = f
			}
			all = append(all, []any{e.id.String(), fields})
		}
		return all, nil
	}
}

// streamEnd reads an end of a range of ids: - and + are the ends of the stream, ( leaves an id out.
func streamEnd(text string, seq, step int64) (id, error) {
	switch text {
	case "-":
		return id{}, nil
	case "+":
		return id{math.MaxInt64, math.MaxInt64}, nil
	}
	text, outside := strings.CutPrefix(text, "(")
	end, err := idOf(text, seq)
	if outside {
		end.seq += step
	}
	return end, err
}

// glob reports whether a key matches a pattern of Redis, byte by byte.
func glob(pattern, key string) bool {
	for pattern != "" && key != "" {
		switch pattern[0] {
		case '*':
			for i := 0; i <= len(key); i++ {
				if glob(pattern[1:], key[i:]) {
					return true
				}
			}
			return false
		case '?':
			pattern = pattern[1:]
		case '[':
			found, rest := inClass(pattern[1:], key[0])
			if !found {
				return false
			}
			pattern = rest
		case '\\':
			if len(pattern) > 1 {
				pattern = pattern[1:]
			}
			fallthrough
		default:
			if pattern[0] != key[0] {
				return false
			}
			pattern = pattern[1:]
		}
		key = key[1:]
	}
	return strings.Trim(pattern, "*") == "" && key == ""
}

// inClass reports whether a byte is in the class with which a pattern begins, after its bracket. It
// returns the pattern that follows. A class that does not end goes on to the end of the pattern.
func inClass(pattern string, c byte) (found bool, rest string) {
	pattern, not := strings.CutPrefix(pattern, "^")
	for pattern != "" && pattern[0] != ']' {
		from, to, n := pattern[0], pattern[0], 1
		switch {
		case pattern[0] == '\\' && len(pattern) > 1:
			from, to, n = pattern[1], pattern[1], 2
		case len(pattern) > 2 && pattern[1] == '-':
			from, to, n = min(pattern[0], pattern[2]), max(pattern[0], pattern[2]), 3
		}
		found = found || from <= c && c <= to
		pattern = pattern[n:]
	}
	return found != not, strings.TrimPrefix(pattern, "]")
}
