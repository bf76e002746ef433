package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

const (
	// simulatedVariable runs TestMutantsAreSimulated, for the mutants whose names match it.
	simulatedVariable = "REDLATCH_SIMULATED"

	// verdictsVariable names the file that has the verdicts. A mutant that has one there is not tried
	// again. So the whole table can be tried in parts.
	verdictsVariable = "REDLATCH_SIMULATED_VERDICTS"

	// patiently is how many worlds a simulation may run to find a mutant. They take about a minute of
	// a core that does nothing else. Their number does not depend on what else the machine does.
	patiently = 140

	// stuck is when a simulation is given up, which no mutant but one that hangs comes to.
	stuck = 40 * time.Minute

	// argumentsVariable has more arguments for the simulation, such as -roles=mutex,slots while a role
	// is written.
	argumentsVariable = "REDLATCH_SIMULATED_ARGS"

	// scriptsVariable names the directory that has the Lua files of a simulation, and numberVariable
	// the mutant that is on in one whose binary has many.
	scriptsVariable = "REDLATCH_SIMULATED_SCRIPTS"
	numberVariable  = "REDLATCH_SIMULATED_NUMBER"
)

// outOfReach says which mutants the simulation cannot find, by the beginning of the file or of the
// name, and why.
var outOfReach = []struct{ of, why string }{
	{"redlatchrueidis/", "the adapter is not in the simulation, which has a network of its own"},
	{"redlatchgoredis/", "the adapter is not in the simulation, which has a network of its own"},
	{"internal/driver/", "connections and slots of an adapter"},
	{"internal/fleet/", "screens"},
	{"redlatchweb/", "screens"},
	{"cmd/", "the command"},
	{"redlatchvet/", "the analyzer"},
	{"internal/protocol/keys/glob.go", "no program asks for a pattern that is more than a prefix"},
	{"script that ends while its slot moves, on Redis 8", "no slot moves, and the server in memory is Redis 7"},
	{"fence/", "resources that check tokens; the simulation has one of its own"},
	{"quorum whose connections are not wrapped", fromOpen},
	{"subscription that is checked late", fromOpen},
	{"observer that heeds a subscription which has ended", "no link calls for a subscription that has ended"},
	{"subscription that counts again by", "all clients have the clock of the bubble"},
	{"request that is sent again and does not say so", "no metrics count what a link sends"},
	{"context that waits for the schedule", "timers are never late in virtual time"},
	{"context of several that waits for the schedule", "timers are never late in virtual time"},
	{"lease that is never found to be forgotten", "no world runs the garbage collector on purpose"},
	{"journal without an end", tooMany},
	{"resend of what progresses after an ever longer pause", tooMany},
	{"repeats without an end", tooMany},
	{"repeats that go with what has counted", tooMany},
	{"count that a late request of the round before", tooMany},
	{"line that is busy for an hour", tooMany},
	{"burst under one time limit", tooMany},
	{"release that drops all the dead at once", tooMany},
	{"list that asks a dead server about each name", tooMany}, // a hundred are asked about at once
	{"holder that is deaf and looks alive", tooMany},          // its client says each minute that it listens
	{"pattern that Redis does not know", "a scan returns more keys, and no program counts them"},
	{"client that is told where it does not listen", sharded},
	{"client of a cluster that is told only where", sharded},
	{"heartbeat from another address than the ticket's", sharded},
	{"waiter that listens at a replica", sharded},
}

const (
	fromOpen = "clients are made by New and NewQuorum, not by Open"
	tooMany  = "a world has some tens of actors and lasts seconds"
	sharded  = "no client of a world has sharded channels"
)

// seldom says which of the oldest 280 mutants the simulation did not find in 140 worlds, though nothing
// keeps it from them, and what a world would have to bring about.
var seldom = map[string][]string{
	"a request at one node of a quorum has to meet one of another attempt, in one order": {
		"node that gave another slot and counts for an adoption",
		"detached lease that is cleaned up",
		"vote that is heard of before the release that it came after",
		"vote for another slot that arrives after the release",
		"own late request that seems to be another holder",
		"slot that counts for another",
		"token that is written back where somebody else is inside",
		"nodes that count as silent though nobody waited for them",
		"round that was cut short and tells more than the one before",
		"quorum that is unreachable after one round",
	},
	"goroutines of one client have to be in one state at one moment": {
		"waiter behind another that is in no cycle",
		"lease that is over and keeps others waiting",
		"detached lease whose group waits for it",
		"outage of one that ran out of time",
		"outage of one that ran out of time in a try",
		"lease passed on that is not extended in between",
		"length of a lease that goes to the next goroutine",
	},
	"no reply differs, and what Redis keeps expires (docs/vectors show it)": {
		"writer that is dead and stays",
		"clients that are remembered for as long as others wait",
		"look that ends a lease without an expiry",
	},
	"two locks have to be taken by force within one extend": {
		"forced release that seems to be an accident",
		"word of a forced release that hides the one before",
	},
	"an owner has to come in past its own entry in line":     {"entry in line whose owner is inside, and that waits"},
	"a request for a place has to be sent again in mid-line": {"resent acquire that takes another place"},
}

// whyMissed returns why a mutant was missed the last time; "" if it was not.
func whyMissed(name string) string {
	for why, names := range seldom {
		if slices.Contains(names, name) {
			return why
		}
	}
	return ""
}

// TestMutantsBuild: a mutant that does not build would be one that every test finds.
func TestMutantsBuild(t *testing.T) {
	t.Parallel()
	root := check.Value(filepath.Abs(root)).OK(t)
	s := simulations{root: root, dir: t.TempDir()}
	check.OK(t, "prepare", s.prepare())
}

// TestMutantsAreSimulated tells which mutants the simulation finds without any other test, and prints
// the rest. It fails for none.
func TestMutantsAreSimulated(t *testing.T) {
	wanted, err := regexp.Compile(os.Getenv(simulatedVariable))
	if err != nil || wanted.String() == "" {
		t.Skipf("set %s=. to run it, or make mutants-simulated: it takes hours (%v)", simulatedVariable, err)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := openVerdicts(os.Getenv(verdictsVariable))
	if err != nil {
		t.Fatal(err)
	}
	defer verdicts.close()
	var chosen []mutant
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		if why := reasonToSkip(m); why != "" {
			t.Logf("not tried, %s: %s: %s", why, m.file, m.name)
			continue
		}
		chosen = append(chosen, m)
	}
	s := simulations{root: root, dir: t.TempDir()}
	t.Run("all", func(t *testing.T) { // with -parallel=2, two at a time
		for _, m := range chosen {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				if verdicts.has(m.name) {
					return
				}
				start := time.Now()
				text, found := s.try(t, m)
				if !found {
					text = ""
				}
				done, missed, err := verdicts.add(m.name, found, firstFailure(text))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(os.Stderr, "%3d of %d, %d missed: %s after %3.0fs: %s: %s: %s\n", done, len(chosen), missed,
					word(found), time.Since(start).Seconds(), m.file, m.name, firstFailure(text))
			})
		}
	})
	found := 0
	for _, m := range chosen {
		if verdicts.all[m.name] {
			found++
		} else if verdicts.has(m.name) {
			t.Logf("missed: %s: %s (%s)", m.file, m.name, cmp.Or(whyMissed(m.name), "found before"))
		}
	}
	t.Logf("the simulation finds %d of %d mutants", found, len(chosen))
}

// reasonToSkip returns why the simulation cannot find a mutant; "" if it can.
func reasonToSkip(m mutant) string {
	for _, o := range outOfReach {
		if strings.HasPrefix(m.file, o.of) || strings.HasPrefix(m.name, o.of) {
			return o.why
		}
	}
	return ""
}

func word(found bool) string {
	if found {
		return "found"
	}
	return "missed"
}

// verdicts are what is known of the mutants: whether each was found. A file has them, too, a line
// each, if there is a name of one.
type verdicts struct {
	file *os.File

	mu  sync.Mutex // guards what is below
	all map[string]bool
}

// openVerdicts reads the verdicts in a file, which it creates if there is none.
func openVerdicts(name string) (*verdicts, error) {
	v := &verdicts{all: make(map[string]bool)}
	if name == "" {
		return v, nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) > 1 {
			v.all[fields[1]] = fields[0] == word(true)
		}
	}
	v.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return v, err
}

func (v *verdicts) close() {
	if v.file != nil {
		_ = v.file.Close()
	}
}

// has reports whether there is a verdict on a mutant.
func (v *verdicts) has(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, has := v.all[name]
	return has
}

// add notes a verdict, and returns how many there are, and how many mutants of those were missed.
func (v *verdicts) add(name string, found bool, by string) (done, missed int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[name] = found
	if v.file != nil {
		_, err = fmt.Fprintf(v.file, "%s\t%s\t%s\n", word(found), name, by)
	}
	for found := range maps.Values(v.all) {
		if !found {
			missed++
		}
	}
	return len(v.all), missed, err
}

// firstFailure returns the line of a simulation's output that says what was wrong.
func firstFailure(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "at ") || strings.Contains(line, "times; first") || strings.HasPrefix(line, "panic: ") {
			return line[:min(len(line), 300)]
		}
	}
	return strings.Join(strings.Fields(text[:min(len(text), 300)]), " ")
}

// simulations are simulations with mutants.
type simulations struct {
	root, dir string
	prepared  sync.Once // guards what is below
	err       error
	binary    string // has all mutants that a variable can turn on
	numbers   map[string]int
}

// prepare builds the binary that can have every mutant of Lua, since it reads those files from a
// directory, and every mutant of functions.
func (s *simulations) prepare() error {
	s.prepared.Do(func() {
		s.binary, s.numbers = filepath.Join(s.dir, "all.test"), make(map[string]int)
		texts := make(map[string][]byte)
		if s.err = s.readScriptsFromDirectory(texts); s.err != nil {
			return
		}
		files := make(map[string]*switched)
		for i, m := range mutants {
			if filepath.Ext(m.file) != ".go" || reasonToSkip(m) != "" {
				continue
			}
			name := filepath.Join(s.root, filepath.FromSlash(m.file))
			if files[name] == nil {
				source, err := os.ReadFile(name)
				if s.err = err; err != nil {
					return
				}
				files[name] = &switched{source: source, changes: make(map[int][]variant), names: make(map[string]bool)}
			}
			if files[name].add(m, i+1) {
				s.numbers[m.name] = i + 1
			}
		}
		for name, f := range files {
			if len(f.names) > 0 {
				texts[name] = f.text()
				texts[switchPath(name)] = switchFile(packageName(f.source), numberVariable)
			}
		}
		s.err = s.build(texts, s.binary)
	})
	return s.err
}

// readScriptsFromDirectory changes the file that embeds the Lua files.
func (s *simulations) readScriptsFromDirectory(texts map[string][]byte) error {
	name := filepath.Join(s.root, "internal", "protocol", "script", "kind.go")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, c := range [][2]string{
		{"\"embed\"\n", "\"io/fs\"\n\t\"os\"\n\t\"path/filepath\"\n"},
		{"//go:embed lua/*.lua\nvar files embed.FS\n", "var files directory\n\n" +
			"type directory struct{}\n\n" +
			"func at(name string) string { return filepath.Join(os.Getenv(\"" + scriptsVariable + "\"), filepath.Base(name)) }\n\n" +
			"func (directory) ReadFile(name string) ([]byte, error) { return os.ReadFile(at(name)) }\n\n" +
			"func (directory) ReadDir(string) ([]fs.DirEntry, error) { return os.ReadDir(at(\".\")) }\n"},
	} {
		if bytes.Count(text, []byte(c[0])) != 1 {
			return fmt.Errorf("%s does not have %q once: adapt what makes it read a directory", name, c[0])
		}
		text = bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1)
	}
	texts[name] = text
	return nil
}

// build builds the simulation with other texts in some files.
func (s *simulations) build(texts map[string][]byte, binary string) error {
	replace := make(map[string]string)
	for name, text := range texts {
		changed := fmt.Sprintf("%s.%d.go", binary, len(replace))
		replace[name] = changed
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return err
		}
	}
	list := binary + ".json"
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err := cmp.Or(err, os.WriteFile(list, overlay, 0o600)); err != nil {
		return err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", binary, "./internal/simulation")
	build.Dir = filepath.Join(s.root, "redlatchtest")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	return nil
}

// try runs the simulation with a mutant. It returns what that printed, and whether it failed.
func (s *simulations) try(t *testing.T, m mutant) (text string, found bool) {
	t.Helper()
	check.OK(t, "prepare", s.prepare())
	dir := t.TempDir()
	original := filepath.Join(s.root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	source = bytes.Replace(source, []byte(m.old), []byte(m.new), 1)
	binary, scripts := s.binary, filepath.Join(s.root, "internal", "protocol", "script", "lua")
	if filepath.Ext(m.file) == ".lua" {
		scripts = filepath.Join(dir, "lua")
		err = cmp.Or(
			os.CopyFS(scripts, os.DirFS(filepath.Dir(original))),
			os.WriteFile(filepath.Join(scripts, filepath.Base(m.file)), source, 0o600),
		)
	} else if s.numbers[m.name] == 0 {
		texts := map[string][]byte{original: source}
		binary = filepath.Join(dir, "simulation.test")
		err = s.readScriptsFromDirectory(texts)
		texts[original] = source
		err = cmp.Or(err, s.build(texts, binary))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	args := append([]string{
		"-test.run=^TestSimulate$", "-test.v", "-test.timeout=0",
		"-seed=1", fmt.Sprintf("-seeds=%d", patiently), "-failures=1", "-processes=1",
	}, strings.Fields(os.Getenv(argumentsVariable))...)
	run := exec.CommandContext(ctx, binary, args...)
	run.Dir = dir
	run.Env = append(os.Environ(), scriptsVariable+"="+scripts, fmt.Sprintf("%s=%d", numberVariable, s.numbers[m.name]))
	out, err := run.CombinedOutput()
	check.Must(t, err == nil || errors.As(err, new(*exec.ExitError)), "the simulation does not run: %v\n%s", err, out)
	return string(out), err != nil
}
