package script

import (
	"embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

//go:embed lua/*.lua
var files embed.FS

// Kind is one kind of latch: the scripts that result from its file and the file of each operation.
type Kind struct {
	Name     string           // "mutex"
	siblings []string         // suffixes of the keys that it has beside those of every latch
	files    []string         // what every script of it begins with
	scripts  map[string]*lazy // each script, by its operation
	acquire  *lazy
	await    *lazy
	release  *lazy
	renew    *lazy
	inspect  *lazy
	force    *lazy
	adopt    *lazy
	resize   *lazy // nil if it has no size
	seize    *lazy // nil on a node of a quorum
	want     *lazy // nil on a node of a quorum
	asking   *lazy // nil if no client keeps it
	used     *lazy // nil if no client keeps it
	proclaim *lazy // nil if a holder cannot change its value

	// For a node of a quorum, instead of acquire and await.
	quorum *Kind // the same kind there; nil if there is none
	vote   *lazy
	raise  *lazy
	mend   *lazy

	// Of a countdown alone.
	set    *lazy
	down   *lazy
	wait   *lazy
	delete *lazy
}

// The kinds. Those that keep a sorted set share zset.lua. For a new one, docs/development.md lists all
// other places.
var (
	Mutex     = newKind([]string{"mutex"}).counted("mutex").hurried().lingering()
	Reentrant = newKind([]string{"reentrant"}, keys.InsideSuffix)
	RWMutex   = newKind([]string{"zset", "rwmutex"}, keys.InsideSuffix).lingering()
	Semaphore = newKind([]string{"zset", "semaphore"}, keys.InsideSuffix).sized()
	SlotPool  = newKind([]string{"zset", "slotpool"}, keys.InsideSuffix, keys.BitsSuffix, keys.LastSuffix).sized().counted("zset", "slotpool")
	Election  = newKind([]string{"zset", "election"}, keys.InsideSuffix, keys.ChangesSuffix).proclaiming().counted("zset", "election")
	Job       = newKind([]string{"zset", "job"}, keys.InsideSuffix).counted("zset", "job")
)

// Countdown is the kind of a count that goes down. No owner is ever inside, so it is not one of
// [Kinds] and has few of their operations: its waiters stand in the same line, leave it by release,
// and are shown by inspect.
var Countdown = newCountdown()

// Kinds returns all kinds that give leases.
func Kinds() []*Kind { return []*Kind{Mutex, Reentrant, RWMutex, Semaphore, SlotPool, Election, Job} }

// all returns those of Kinds, and Countdown, which gives no leases.
func all() []*Kind { return append(Kinds(), Countdown) }

// The scripts that belong to no kind.
var (
	sniff  = newLazy("sniff", "sniff")
	multi  = newLazy("multi", "token", "multi")
	epoch  = newLazy("epoch", "epoch")
	record = newLazy("record", "record")
	recall = newLazy("recall", "recall")
	note   = newLazy("note", "note")
	waits  = newLazy("waits", "waits")

	journal   = newLazy("journal", "journal")
	journaled = newLazy("journaled", "journaled")
)

// newKind makes a kind from these files. The last file has the name of the kind.
func newKind(files []string, siblings ...string) *Kind {
	k := &Kind{Name: files[len(files)-1], siblings: siblings, scripts: make(map[string]*lazy)}
	k.assemble([]string{"token"}, files, "tickets", "line")
	k.acquire, k.await, k.renew = k.beginning("untried", "acquire"), k.operation("await"), k.operation("renew")
	k.want, k.seize = k.operation("want"), k.operation("seize", "forced")
	return k
}

// assemble makes the operations that a kind has both on one server and on a node of a quorum.
func (k *Kind) assemble(before, files []string, after ...string) {
	k.files = slices.Concat(before, files, after)
	k.release, k.inspect, k.force = k.operation("release"), k.operation("inspect"), k.operation("force", "forced")
	k.adopt = k.operation("adopt")
}

func newCountdown() *Kind {
	files := []string{"token", "tickets", "countdown", "line"} // countdown.lua looks at the line
	k := &Kind{Name: "countdown", files: files, scripts: make(map[string]*lazy)}
	k.release, k.inspect = k.operation("release"), k.operation("inspect")
	k.set, k.wait = k.counting("set"), k.counting("wait")
	k.down, k.delete = k.counting("down", "countdown_zero"), k.counting("delete", "countdown_zero")
	return k
}

// counting returns the script of an operation of countdowns only, with these files before it.
func (k *Kind) counting(operation string, before ...string) *lazy {
	return k.script(operation, slices.Concat(k.files, before, []string{"countdown_" + operation}))
}

// sized adds what a kind with a size can do.
func (k *Kind) sized() *Kind {
	k.resize = k.operation("resize")
	return k
}

// hurried makes acquire and release of a kind, and vote and release on a node of a quorum, begin
// with files that handle the common case by themselves.
func (k *Kind) hurried() *Kind {
	k.acquire, k.release = k.beginning(k.Name+"_acquire", "acquire"), k.beginning(k.Name+"_release", "release")
	q := k.quorum
	q.vote, q.release = q.beginning(k.Name+"_vote", "vote"), q.beginning(k.Name+"_release", "release")
	return k
}

// lingering adds what a kind needs if a client may keep a latch when its program is done with it.
func (k *Kind) lingering() *Kind {
	k.asking, k.used = k.operation("ask"), k.operation("used")
	return k
}

// proclaiming adds what a kind with a value can do.
func (k *Kind) proclaiming() *Kind {
	k.proclaim = k.operation("proclaim")
	return k
}

// beginning returns the script of an operation that begins with a file of its own.
func (k *Kind) beginning(file, operation string) *lazy {
	return k.script(operation, slices.Concat([]string{file}, k.files, []string{operation}))
}

// counted adds the same kind on a node of a quorum: tokens are counted, and nothing is granted out
// of the line.
func (k *Kind) counted(files ...string) *Kind {
	q := &Kind{Name: k.Name, siblings: k.siblings, scripts: make(map[string]*lazy)}
	q.assemble([]string{"quorum_token"}, files, "tickets", "quorum_line")
	q.vote, q.raise, q.mend, q.renew = q.operation("vote"), q.operation("raise"), q.operation("mend"), q.operation("confirm")
	if k.Sized() {
		q.sized()
	}
	k.quorum = q
	return k
}

// Quorum returns the same kind on a node of a quorum, or nil if a quorum cannot have it.
func (k *Kind) Quorum() *Kind { return k.quorum }

// operation returns the script of an operation, with these files before its own.
func (k *Kind) operation(name string, before ...string) *lazy {
	return k.script(name, slices.Concat(k.files, before, []string{name}))
}

// script returns the script of an operation, put together from these files.
func (k *Kind) script(operation string, files []string) *lazy {
	s := newLazy(k.Name+" "+operation, files...)
	k.scripts[operation] = s
	return s
}

// Shuts reports whether a release can leave a latch of the kind shut. For a slot, a rest means
// something else, and a job has a window instead.
func (k *Kind) Shuts() bool { return k != SlotPool && k != Job }

// Sized reports whether the kind has a size.
func (k *Kind) Sized() bool { return k.resize != nil }

// Counts reports whether it is a kind on a node of a quorum, whose tokens are counts and not times.
func (k *Kind) Counts() bool { return k.vote != nil }

// Detail returns the part of an argument that tells people what a waiter wants, spelled like what a
// holder got.
func (k *Kind) Detail(param string) string {
	switch k.Name {
	case RWMutex.Name:
		return param[:min(len(param), 1)]
	case Semaphore.Name:
		permits, _, _ := strings.Cut(param, ":")
		return permits
	case Reentrant.Name:
		_, owner, _ := strings.Cut(param, ":")
		return owner
	case Election.Name:
		return param
	}
	return ""
}

func (k *Kind) keys(set keys.Set) []string { return set.List(k.siblings...) }

// keysAndForced returns keys, with the key of forced releases after those of the kind.
func (k *Kind) keysAndForced(set keys.Set) []string {
	if len(k.siblings) == 0 { // such as a mutex, which has the most leases
		return set.List(keys.ForcedSuffix)
	}
	return set.List(append(slices.Clone(k.siblings), keys.ForcedSuffix)...)
}

// lazy is a script that is put together when it is first needed. All scripts together are a
// megabyte of text, and a program runs few of them.
type lazy struct {
	name   string
	files  []string
	once   sync.Once
	script conn.Script
}

func newLazy(name string, files ...string) *lazy { return &lazy{name: name, files: files} }

// get returns the script, which is the same one each time.
func (l *lazy) get() *conn.Script {
	l.once.Do(func() { l.script = *conn.NewScript(l.name, assemble(l.files...)) })
	return &l.script
}

// assemble puts files together as the package comment says.
func assemble(names ...string) string {
	var hot, cold strings.Builder
	divided := false // whether the last file says where its cold part begins
	for _, name := range names {
		var above, below string
		above, below, divided = strings.Cut(read(name+".lua"), "\n-- cold\n")
		hot.WriteString(strip(above))
		cold.WriteString(strip(below))
	}
	if !divided {
		return hot.String()
	}
	return hot.String() + cold.String()
}

// names returns the names of the files.
func names() []string {
	entries, err := files.ReadDir("lua")
	if err != nil {
		panic(err) // a directory that this package embeds
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// read returns what is in a file.
func read(name string) string {
	data, err := files.ReadFile("lua/" + name)
	if err != nil {
		panic(err) // a file that this package embeds
	}
	return string(data)
}

// strip leaves out comments and indentation, which every new server would otherwise be sent.
func strip(lua string) string {
	var b strings.Builder
	b.Grow(len(lua))
	for line := range strings.Lines(lua) {
		if code := strings.TrimSpace(line[:comment(line)]); code != "" {
			b.WriteString(code)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// comment returns where the comment of a line begins, or the line's length. Two hyphens in a string
// do not begin a comment.
func comment(line string) int {
	var quote byte // that the string around i ends with; 0 outside of strings
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(line[i:], "--"):
			return i
		}
	}
	return len(line)
}

// Text returns the script of an operation of a kind, such as "mutex" and "acquire", as Redis gets
// it; the kinds of a quorum's nodes begin with "quorum-". It returns false if there is none.
func Text(kind, operation string) (string, bool) {
	for _, k := range all() {
		name := k.Name
		if strings.HasPrefix(kind, "quorum-") {
			if k = k.Quorum(); k == nil {
				continue
			}
			name = "quorum-" + name
		}
		if name != kind {
			continue
		}
		if s := k.scripts[operation]; s != nil {
			return s.get().Text, true
		}
	}
	return "", false
}

// Sources returns the files that each script is put together from, by the name of the script; the
// names of those for a node of a quorum begin with "quorum-".
func Sources() map[string][]string {
	sources := make(map[string][]string)
	for _, s := range []*lazy{sniff, multi, epoch, record, recall, note, waits, journal, journaled} {
		sources[s.name] = s.files
	}
	for _, k := range all() {
		for _, s := range k.scripts {
			sources[s.name] = s.files
		}
		if k.quorum != nil {
			for _, s := range k.quorum.scripts {
				sources["quorum-"+s.name] = s.files
			}
		}
	}
	return sources
}

// Spelling returns the name of a script in Sources. k is its kind, or nil if it has none.
func (k *Kind) Spelling(s *conn.Script) string {
	if k != nil && k.Counts() {
		return "quorum-" + s.Name
	}
	return s.Name
}

// Commands returns the commands that scripts run, in lower case and sorted.
func Commands() []string {
	var all []string
	calls := regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	for _, name := range names() {
		for _, m := range calls.FindAllStringSubmatch(read(name), -1) {
			all = append(all, strings.ToLower(m[1]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
