package memory_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/internal/testkit/vector"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "of TestAnswersAsRedis and TestRefusesAsRedis; 0 for another each time")
	roundsFlag = flag.Int("rounds", 40, "of TestAnswersAsRedis for each file of vectors")
)

// seedOf returns the seed of a test, and has the test print it if it fails.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with -seed %d", seed)
		}
	})
	return seed
}

// TestAnswersAsRedis runs all scripts of the protocol on a real server and on one in memory, from
// the same states: those of the vectors, which tests/peers compares with the real server, and random
// ones. Replies, messages and states have to be the same, but for the time that passed between the
// two.
func TestAnswersAsRedis(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	var mu sync.Mutex // guards what is below
	files, ran := 0, make(map[string]bool)
	t.Run("files", func(t *testing.T) {
		for name, vectors := range vectorFiles() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, memory.Serves)
				p.repeat(name, len(vectors), func(i int) string { return p.exactly(vectors[i]) })
				p.compare(name, vectors, seed, max(*roundsFlag, len(vectors)))
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(ran, p.ran)
				files++
			})
		}
	})
	all := files == len(vectorFiles()) // -run may choose some
	for name := range scripts() {
		check.That(t, !all || ran[name] || t.Failed(), "the script %s was not run", name)
	}
}

// TestRefusesAsRedis is TestAnswersAsRedis for servers that refuse some commands, from somewhere in
// the middle of a round on.
func TestRefusesAsRedis(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	for _, why := range []memory.Refusal{memory.Full, memory.DiskFull, memory.ReadOnly} {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, why)
			files := vectorFiles()
			for _, name := range slices.Sorted(maps.Keys(files)) {
				p.compare(name, files[name], seed, max(1, *roundsFlag/3))
			}
			check.That(t, p.refused != 0, "no script was refused")
		})
	}
}

// pair is a real server and one in memory that get the same requests.
type pair struct {
	t      *testing.T
	real   *redistest.Server
	client rueidis.Client
	ears   rueidis.DedicatedClient // has the subscriptions to the real server
	memory *memory.Server
	clock  atomic.Int64 // of the server in memory, in µs since 1970
	last   int64        // ms since 1970 at which the real server was asked last
	runs   [2]string    // the run_id of the real server, and of the one in memory

	why     memory.Refusal
	refuses bool
	ran     map[string]bool // scripts, by name
	refused int             // calls

	channels map[string]*memory.Subscription // that have a subscriber
	inMemory []heard                         // from the server in memory
	ends     int                             // messages to endChannel
	ended    chan string                     // their payloads
	mu       sync.Mutex                      // guards heard
	heard    []heard                         // from the real server

	// Of a round.
	slowly bool               // a call begins as a millisecond does in which no call was made
	spread time.Duration      // how long the real server took for all that was asked of it
	states [2]map[string]held // of the real server, and of the one in memory
	story  []string
}

// heard is a message that the subscriber of a channel heard.
type heard struct{ channel, payload string }

// endChannel carries a message after all those of a call.
const endChannel = "end"

func newPair(t *testing.T, why memory.Refusal) *pair {
	t.Helper()
	p := &pair{
		t: t, why: why, ran: make(map[string]bool), channels: make(map[string]*memory.Subscription), ended: make(chan string, 2),
	}
	p.memory = memory.New("here", func() time.Time { return time.UnixMicro(p.clock.Load()) })
	// Of a large hash Redis does not keep the order. The limits make all of them small.
	dir := t.TempDir()
	p.real = redistest.Start(t, "--dir", dir, "--hash-max-ziplist-entries", "100000", "--hash-max-ziplist-value", "100000")
	if why == memory.DiskFull {
		// A directory is where the snapshot shall be, so that it cannot be written.
		check.OK(t, "Mkdir", os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700))
		p.real.Do("BGSAVE")
		p.real.AwaitInfo("persistence", "rdb_last_bgsave_status:err")
	}
	var err error
	p.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.real.Addr()}, AlwaysRESP2: true, DisableCache: true, DisableRetry: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	p.runs = [2]string{runOf(p.real.Do("INFO", "server")), runOf(p.memory.Do("INFO", "server").Reply.Text)}
	var release func()
	p.ears, release = p.client.Dedicate()
	t.Cleanup(release)
	p.ears.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: p.hear})
	p.listen([]rueidis.Completed{p.client.B().Subscribe().Channel(endChannel).Build()})
	return p
}

// hear takes a message from the real server.
func (p *pair) hear(m rueidis.PubSubMessage) {
	if m.Channel == endChannel {
		p.ended <- m.Message
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, heard{m.Channel, m.Message})
}

// listen changes the subscriptions to the real server.
func (p *pair) listen(changes []rueidis.Completed) {
	p.t.Helper()
	for _, r := range p.ears.DoMulti(p.t.Context(), changes...) {
		check.OK(p.t, "Error", r.Error())
	}
}

// ask runs commands on the real server, one after the other.
func (p *pair) ask(commands ...[]string) []conn.Result {
	p.t.Helper()
	built := make([]rueidis.Completed, len(commands))
	for i, command := range commands {
		built[i] = p.client.B().Arbitrary(command[0]).Args(command[1:]...).Build()
	}
	results := make([]conn.Result, len(commands))
	for i, r := range p.client.DoMulti(p.t.Context(), built...) {
		m, err := r.ToMessage()
		sent := (*rueidis.RedisError)(nil)
		switch {
		case err == nil || rueidis.IsRedisNil(err):
			results[i].Reply = replyOf(p.t, m)
		case errors.As(err, &sent):
			whole, _ := m.ToString() // the text of err is without a leading ERR
			results[i].Err = &conn.ReplyError{Text: whole}
		default:
			p.t.Fatalf("%.99q: %v", commands[i], err)
		}
	}
	return results
}

// replyOf returns a reply of the real server in the form of package conn.
func replyOf(t *testing.T, m rueidis.RedisMessage) conn.Reply {
	t.Helper()
	switch {
	case m.IsNil():
		return conn.Reply{Nil: true}
	case m.IsInt64():
		n, _ := m.AsInt64()
		return conn.Reply{Int: n}
	case m.IsString():
		text, _ := m.ToString()
		return conn.Reply{Text: text}
	}
	items, err := m.ToArray()
	check.Must(t, err == nil, "a reply of another kind: %v", err)
	list := make([]conn.Reply, len(items))
	for i, item := range items {
		list[i] = replyOf(t, item)
	}
	return conn.Reply{List: list}
}

// timed runs commands on the real server. It sets the clock of the server in memory to the time at
// which they began, and adds to spread how long they took.
func (p *pair) timed(commands ...[]string) []conn.Result {
	p.t.Helper()
	for p.slowly {
		if now := time.Now(); now.UnixMilli() > p.last && now.Nanosecond()%1e6 < 3e5 {
			break
		}
		time.Sleep(50 * time.Microsecond)
	}
	clock := []string{"TIME"}
	results := p.ask(slices.Concat([][]string{clock}, commands, [][]string{clock})...)
	micros := func(r conn.Result) int64 {
		s, _ := strconv.ParseInt(r.Reply.List[0].Text, 10, 64)
		us, _ := strconv.ParseInt(r.Reply.List[1].Text, 10, 64)
		return s*1e6 + us
	}
	from, to := micros(results[0]), micros(results[len(results)-1])
	p.clock.Store(from)
	p.last = to / 1000
	p.spread += time.Duration(to-from) * time.Microsecond
	return results[1 : len(results)-1]
}

// both runs commands on the real server, and others that mean the same on the one in memory. It
// returns how the replies differ.
func (p *pair) both(real, inMemory [][]string) string {
	p.t.Helper()
	for i, want := range p.timed(real...) {
		if got := p.memory.Do(inMemory[i]...); want.Err != nil || !p.sameResult(want, got) {
			return fmt.Sprintf("%q: %s, in memory %s", real[i], text(want), text(got))
		}
	}
	return ""
}

// tell adds a line to the story of a round.
func (p *pair) tell(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

// text returns a result as a person can read it.
func text(r conn.Result) string {
	if r.Err != nil {
		return "the error " + r.Err.Error()
	}
	return fmt.Sprintf("%+v", r.Reply)
}

// moments are what placeholders stand for on each of the servers, so long ago.
func (p *pair) moments(ago time.Duration) (real, inMemory vector.Moment) {
	us := p.clock.Load() - ago.Microseconds()
	return vector.Moment{US: us, Run: p.runs[0]}, vector.Moment{US: us, Run: p.runs[1]}
}

// maxSpread is how long the real server may take in a round. Beyond that the round is done again:
// the machine had no time for it, and leases may have ended in the middle of a script.
const maxSpread = time.Second

// tries is how often a round has to show a difference. The first time the difference may come from
// a millisecond that passed between the reading of the clock and the script: then two times are in
// order on one server, and the same on the other. After that the calls are made slowly.
const tries = 10

// compare compares the servers in so many random rounds. They begin with each of the vectors by turns.
func (p *pair) compare(name string, vectors []vector.Vector, seed uint64, rounds int) {
	p.t.Helper()
	h := fnv.New64a()
	h.Write([]byte(name))
	p.repeat(name, rounds, func(round int) string {
		r := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(round)))
		return p.round(r, vectors, vectors[(seed+uint64(round))%uint64(len(vectors))])
	})
}

// repeat plays so many rounds, each of which returns the first difference. It plays a round again that
// has one.
func (p *pair) repeat(name string, rounds int, play func(round int) string) {
	p.t.Helper()
	for round := range rounds {
		for left := tries; left > 0; {
			p.spread, p.story, p.slowly = 0, nil, left < tries
			difference := play(round)
			if difference == "" {
				break
			}
			if p.spread > maxSpread {
				continue
			}
			if left--; left == 0 {
				p.t.Errorf("%s, round %d: %s\nThe story:\n%s", name, round, difference, strings.Join(p.story, "\n"))
				return
			}
		}
	}
}

// exactly runs a vector as it is.
func (p *pair) exactly(v vector.Vector) string {
	p.t.Helper()
	if d := p.load(0, v.Before); d != "" {
		return d
	}
	shall := make(map[string]bool)
	for _, channel := range v.Listening {
		shall[channel] = true
	}
	p.hearing(shall)
	return p.call(v.Script, v.Keys, v.Args)
}

// round makes a random state, and runs scripts on it: first that of a vector. It returns the first
// difference.
func (p *pair) round(r *rand.Rand, vectors []vector.Vector, v vector.Vector) string {
	p.t.Helper()
	p.refuse(false)
	before := v.Before
	if r.IntN(4) == 0 {
		before = nil
	}
	ago := []time.Duration{0, 0, 0, 1, 15, 29, 30, 31, 59, 60, 61, 3600}[r.IntN(12)] * time.Second
	if d := p.load(ago, before); d != "" {
		return d
	}
	calls := 6 + r.IntN(5)
	from := r.IntN(calls)
	for i := range calls {
		// A server that cannot write to its disk refuses PING, too, which the client sends with it.
		if !p.refuses && (i == 0 || r.IntN(3) == 0) {
			p.listeners(r, vectors)
		}
		if p.why != memory.Serves && i >= from {
			p.refuse(r.IntN(4) > 0)
		}
		if d := p.call(v.Script, v.Keys, args(r, v, vectors)); d != "" {
			return d
		}
		if r.IntN(3) == 0 && !p.refuses {
			if d := p.perturb(r); d != "" {
				return d
			}
		}
		v = vectors[r.IntN(len(vectors))]
	}
	return ""
}

// load makes a state the only one on both servers. Its times may be long past, though its keys are
// there: so leases have ended, and clients are dead.
func (p *pair) load(ago time.Duration, s vector.State) string {
	p.t.Helper()
	p.timed()
	real, inMemory := p.moments(ago)
	p.tell("state of %v ago: %+v", ago, s)
	return p.both(real.Load(s), inMemory.Load(s))
}

// refuse has both servers refuse commands, or ends that.
func (p *pair) refuse(on bool) {
	p.t.Helper()
	if on == p.refuses {
		return
	}
	p.refuses = on
	p.tell("refuses: %v", on)
	command := map[memory.Refusal]map[bool][]string{
		memory.Full:     {true: {"CONFIG", "SET", "maxmemory", "1"}, false: {"CONFIG", "SET", "maxmemory", "0"}},
		memory.DiskFull: {true: {"CONFIG", "SET", "save", "3600 1000000000"}, false: {"CONFIG", "SET", "save", ""}},
		memory.ReadOnly: {true: {"REPLICAOF", "127.0.0.1", "1"}, false: {"REPLICAOF", "NO", "ONE"}},
	}[p.why][on]
	check.OK(p.t, "Err", p.ask(command)[0].Err)
	p.memory.Refuse(map[bool]memory.Refusal{true: p.why, false: memory.Serves}[on])
}

// listeners draws which channels have a subscriber.
func (p *pair) listeners(r *rand.Rand, vectors []vector.Vector) {
	p.t.Helper()
	all := make(map[string]bool) // whether it may have a subscriber
	for channel := range p.channels {
		all[channel] = false
	}
	for _, v := range vectors {
		for _, channel := range v.Listening {
			all[channel] = true
		}
		for _, m := range v.Published {
			all[m[0]] = true
		}
	}
	shall := make(map[string]bool)
	for _, channel := range slices.Sorted(maps.Keys(all)) {
		shall[channel] = all[channel] && r.IntN(2) == 0
	}
	p.hearing(shall)
}

// hearing has these channels have a subscriber on both servers, and no others.
func (p *pair) hearing(channels map[string]bool) {
	p.t.Helper()
	all := maps.Clone(channels)
	for channel := range p.channels {
		all[channel] = channels[channel]
	}
	b := p.client.B
	var changes []rueidis.Completed
	for _, channel := range slices.Sorted(maps.Keys(all)) {
		switch is, shall := p.channels[channel] != nil, all[channel]; {
		case shall && !is:
			changes = append(changes, b().Subscribe().Channel(channel).Build())
			p.channels[channel] = p.memory.Subscribe(channel, func(payload string) {
				p.inMemory = append(p.inMemory, heard{channel, payload})
			})
		case is && !shall:
			changes = append(changes, b().Unsubscribe().Channel(channel).Build())
			p.memory.Unsubscribe(p.channels[channel])
			delete(p.channels, channel)
		}
	}
	p.listen(changes)
	p.tell("listening: %q", slices.Sorted(maps.Keys(p.channels)))
}

// args draws the arguments of a call: those of a vector, now and then that of another for the same
// script.
func args(r *rand.Rand, v vector.Vector, vectors []vector.Vector) []string {
	all := slices.Clone(v.Args)
	for i := range all {
		if r.IntN(5) > 0 {
			continue
		}
		var others []string
		for _, other := range vectors {
			if other.Script == v.Script && i < len(other.Args) {
				others = append(others, other.Args[i])
			}
		}
		all[i] = others[r.IntN(len(others))]
	}
	return all
}

// call runs a script on both servers, and returns how what it did differs.
func (p *pair) call(name string, keys, args []string) string {
	p.t.Helper()
	p.ran[name] = true
	there, here := p.moments(0)
	script := scripts()[name]
	call := conn.Call{Script: script, Keys: keys, Args: here.All(args)}
	end := slices.Concat([]string{strconv.Itoa(len(keys))}, keys, there.All(args))
	real, realState, known := p.eval(append([]string{"EVALSHA", script.SHA1}, end...)), conn.Result{}, true
	if real[0].Err != nil && strings.HasPrefix(real[0].Err.Error(), "NOSCRIPT") {
		real, known = p.eval(append([]string{"EVAL", script.Text}, end...)), false
	}
	realState = real[1]
	p.mu.Lock()
	messages := p.heard
	p.heard = nil
	p.mu.Unlock()

	p.inMemory = nil
	results, knownHere := p.memory.Eval(call)
	states, _ := p.memory.Eval(conn.Call{Script: dump})
	p.tell("%s, KEYS %q, ARGV %q: %s", name, keys, call.Args, text(real[0]))
	if real[0].Err != nil && p.refuses {
		p.refused++
	}
	if states[0].Err != nil || realState.Err != nil {
		p.t.Fatalf("the state: %v, in memory %v", realState.Err, states[0].Err)
	}
	was := p.states[0]
	p.states = [2]map[string]held{state(realState.Reply), state(states[0].Reply)}
	switch {
	case !p.sameResult(real[0], results[0]):
		return fmt.Sprintf("%s: %s, in memory %s", name, text(real[0]), text(results[0]))
	case known != knownHere:
		return fmt.Sprintf("%s: the script cache had it: %v, in memory %v", name, known, knownHere)
	case !slices.EqualFunc(messages, p.inMemory, p.sameMessage):
		return fmt.Sprintf("%s published %+v, in memory %+v", name, messages, p.inMemory)
	case !maps.EqualFunc(p.states[0], p.states[1], p.sameHeld):
		return fmt.Sprintf("%s left %+v, in memory %+v, of %+v", name, p.states[0], p.states[1], was)
	}
	return ""
}

// eval runs a script on the real server. It returns the result and the state after it, when all
// messages have come.
func (p *pair) eval(command []string) []conn.Result {
	p.t.Helper()
	p.ends++
	end := strconv.Itoa(p.ends)
	results := p.timed(command, []string{"EVAL", dump.Text, "0"}, []string{"PUBLISH", endChannel, end})
	for {
		select {
		case payload := <-p.ended:
			if payload == end {
				return results
			}
		case <-p.t.Context().Done():
			p.t.Fatal("the message after a call did not come")
		}
	}
}

// perturb does what no script does to a key that exists, or empties the script cache.
func (p *pair) perturb(r *rand.Rand) string {
	p.t.Helper()
	keys := slices.Sorted(maps.Keys(p.states[0]))
	if len(keys) == 0 || r.IntN(8) == 0 {
		p.tell("SCRIPT FLUSH")
		p.memory.ForgetScripts()
		check.OK(p.t, "Err", p.ask([]string{"SCRIPT", "FLUSH"})[0].Err)
		return ""
	}
	key := keys[r.IntN(len(keys))]
	kind, i, other := p.states[0][key].kind, r.IntN(1000), r.IntN(8)
	var commands [2][][]string
	for of, state := range p.states {
		command := []string{"DEL", key}
		switch values := state[key].values; {
		case other == 0:
			command = []string{"SET", key, "of another program"}
		case other < 3:
			command = []string{"PEXPIRE", key, []string{"1000", "2000", "10000", "30000", "60000", "3600000"}[i%6]}
		case other < 6 && kind == "hash":
			command = []string{"HDEL", key, values[i*2%len(values)]}
		case other < 6 && kind == "zset":
			command = []string{"ZREM", key, values[i*2%len(values)]}
		}
		commands[of] = [][]string{command}
	}
	p.tell("%q", commands[0][0])
	return p.both(commands[0], commands[1])
}

// sameResult compares a result of the real server with one in memory: of errors the first word.
func (p *pair) sameResult(a, b conn.Result) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil && code(a.Err) == code(b.Err)
	}
	return p.sameReply(a.Reply, b.Reply)
}

// code returns the first word of an error of the server.
func code(err error) string {
	if reply := (*conn.ReplyError)(nil); errors.As(err, &reply) {
		return reply.Code()
	}
	return err.Error()
}

func (p *pair) sameReply(a, b conn.Reply) bool {
	return a.Nil == b.Nil && p.near(float64(a.Int), float64(b.Int)) && p.sameText(a.Text, b.Text) && slices.EqualFunc(a.List, b.List, p.sameReply)
}

func (p *pair) sameMessage(a, b heard) bool {
	return a.channel == b.channel && p.sameText(a.payload, b.payload)
}

func (p *pair) sameHeld(a, b held) bool {
	return a.kind == b.kind && p.near(float64(a.pttl), float64(b.pttl)) && slices.EqualFunc(a.values, b.values, p.sameText)
}

var (
	digits   = regexp.MustCompile(`\d+(?:\.\d+)?(?:e\+\d+)?`)
	streamID = regexp.MustCompile(`^(\d{13})-\d+$`)
)

// sameText compares texts, number by number. Of an id of a stream only the time matters: the two
// servers may have added two entries in one millisecond and in two.
func (p *pair) sameText(a, b string) bool {
	if a == b {
		return true
	}
	a, b = strings.ReplaceAll(a, p.runs[0], "${run}"), strings.ReplaceAll(b, p.runs[1], "${run}")
	a, b = streamID.ReplaceAllString(a, "$1"), streamID.ReplaceAllString(b, "$1")
	if digits.ReplaceAllString(a, "#") != digits.ReplaceAllString(b, "#") {
		return false
	}
	return slices.EqualFunc(digits.FindAllString(a, -1), digits.FindAllString(b, -1), func(a, b string) bool {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return a == b || p.near(x, y)
	})
}

// near reports whether two numbers are the same, or times that differ by no more than what the real
// server took so far. A number under 500 is taken for a count.
func (p *pair) near(a, b float64) bool {
	switch {
	case a == b:
		return true
	case a < 0 && b < 0: // a token of which confirm says that it is another
		return p.near(-a, -b)
	}
	const year = float64(365 * 24 * time.Hour / time.Microsecond)
	off, spread := math.Abs(a-b), float64(p.spread.Microseconds())
	if math.Abs(a-float64(p.clock.Load())) < year { // in µs
		return off <= spread
	}
	return min(a, b) >= 500 && max(a, b) < 1e14 && off <= math.Ceil(spread/1000)+1 // in ms
}
