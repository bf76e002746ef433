package verify

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// Options say what to run.
type Options struct {
	// Plan has what is asked for: Version, Deployment (to start, one of [servers.Kinds]), Prefix (of
	// the program), Duration, Workers, Kinds (none for all), Faults (none for all that are safe, and
	// with Disrupt all), Rate and TTL. The run fills in the rest.
	Plan

	URLs    []string // of a deployment, or the nodes of a quorum; none to start servers
	Disrupt bool     // also faults that hit all clients of the servers
	Out     string   // a directory for the histories, which must not be there or be empty
	Command []string // that starts a worker; nil for this program

	Planned func(Plan)     // called before anything is done to Redis; may be nil
	Tell    func(Progress) // called a few times a second; may be nil
}

// Plan is what a run is to do, and what its histories mean.
type Plan struct {
	Prefix    string        `json:"prefix"` // of all keys
	Kinds     []string      `json:"kinds"`
	Actors    int           `json:"goroutines_per_name"` // of each worker
	TTL       time.Duration `json:"ttl_ns"`
	Heartbeat time.Duration `json:"heartbeat_ns"`
	Request   time.Duration `json:"request_timeout_ns"`
	Rest      time.Duration `json:"rest_ns"`
	Window    time.Duration `json:"window_ns"`
	Permits   int64         `json:"permits"`
	Slots     int           `json:"slots"`

	Version    string        `json:"version"` // of this program
	Deployment string        `json:"deployment"`
	Servers    []string      `json:"servers"` // without passwords
	Redis      string        `json:"redis"`   // its version, or versions
	Own        bool          `json:"own"`     // servers of its own
	Began      time.Time     `json:"began"`
	Duration   time.Duration `json:"duration_ns"`
	Workers    int           `json:"workers"`
	Faults     []string      `json:"faults"`
	Rate       int           `json:"rate"`     // acquisitions a second at most; 0 for no limit
	Bound      time.Duration `json:"bound_ns"` // within which waiters are served after the last fault
	Promises   []string      `json:"promises"`
	LeftOut    []LeftOut     `json:"left_out,omitempty"`

	Doctor []doctor.Finding `json:"doctor,omitempty"`
}

// LeftOut is a fault that cannot be done here.
type LeftOut struct {
	Fault string `json:"fault"`
	Why   string `json:"why"`
}

// Progress says how a run is going.
type Progress struct {
	Figures
	Elapsed   time.Duration
	HandOvers int64 // of what the locks protect, from one worker to another
	Faults    int
	Now       string // the faults under way
}

// Figures are what a worker reports, one JSON object a line. The first say that its client is open.
type Figures struct {
	Acquired int64
	Lost     int64
	Stale    int64 // writes that the tokens kept out
}

// add adds the figures of another.
func (f *Figures) add(other Figures) {
	f.Acquired += other.Acquired
	f.Lost += other.Lost
	f.Stale += other.Stale
}

// planFile is where the plan is kept, beside the histories.
const planFile = "plan.json"

// lateClock names the event that notes how late a timer fired in the quiet part. On a machine that
// is busy with other things, waiters wait longer.
const lateClock = "late clock"

// lateTimes is how many times that delay is added to the bound within which waiters are served.
const lateTimes = 5

// Kinds returns all kinds, or those of a quorum.
func Kinds(quorum bool) []string {
	if quorum {
		return []string{history.Mutex, history.SlotPool, history.Election, history.Job}
	}
	return []string{history.Mutex, history.Reentrant, history.RWMutex, history.Semaphore, history.SlotPool, history.Election, history.Job, history.Multi}
}

// names returns the names that a kind is tried on.
func names(kind string) []string {
	switch kind {
	case history.Mutex:
		return []string{"mutex-a", "mutex-b", "mutex-c", "mutex-d", "mutex-e", "mutex-f"}
	case history.Multi:
		return []string{"multi-a", "multi-b"}
	}
	return []string{kind}
}

// names returns the names of all locks.
func (p Plan) names() (all []string) {
	for _, kind := range p.Kinds {
		all = append(all, names(kind)...)
	}
	return all
}

// pause returns the average pause of a goroutine between two acquisitions.
func (p Plan) pause() time.Duration {
	pause := 5 * time.Millisecond
	if p.Rate > 0 {
		actors := p.Workers * p.Actors * len(p.names())
		pause = max(pause, time.Duration(actors)*time.Second/time.Duration(p.Rate))
	}
	return pause
}

// clientName returns the name of the workers' connections in Redis.
func (p Plan) clientName() string {
	return "redlatch-" + p.Prefix[len(p.Prefix)-11:len(p.Prefix)-1]
}

// silent reports whether the doctor found that no messages arrive, as for a user without a right to
// the channels. Waiters then poll instead.
func silent(p Plan) bool {
	return slices.ContainsFunc(p.Doctor, func(f doctor.Finding) bool { return f.Check == "publish" && f.Level != doctor.OK })
}

// promises returns what docs/guarantees.md says of a deployment under these faults.
func promises(deployment string, faults []string) []string {
	all := []string{
		"tokens of a name increase over all acquisitions, and a resource that checks them takes no late write",
		"a crashed holder delays others by what was left of its lease; a crashed waiter costs nothing once its connection is seen to close",
		"a request that is sent twice takes effect once; nothing stays in Redis but what expires",
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(faults, name) })
	}
	exclusion := "two clients never hold a lock at the same time"
	var but []string // when they may
	switch {
	case deployment == "quorum":
		exclusion += " while a minority of the nodes fails in whatever way"
	case has("failover", "master-kill", "isolation"):
		but = append(but, "a failover, which may lose locks that were not replicated")
	case has("server-kill"):
		but = append(but, "the server came back without data")
	case deployment == "sentinel" || deployment == "cluster":
		exclusion += " (a failover would be an exception; none is among the faults)"
	}
	if has("clock-ahead") {
		but = append(but, "a clock was set ahead")
	}
	if has("delete-key") {
		but = append(but, "the key of a lock was deleted")
	}
	if len(but) > 0 {
		exclusion += ", except for one TTL after a fault by verify itself: " + strings.Join(but, ", or ")
	}
	return append([]string{exclusion}, all...)
}

// writeJSON writes a file of a run.
func writeJSON(path string, what any) error {
	text, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
