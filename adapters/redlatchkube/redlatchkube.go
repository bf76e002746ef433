// Package redlatchkube makes the leader election of Kubernetes' client-go, and so of the
// controllers built on it, use Redis instead of the API server:
//
//	lock := redlatchkube.New(client.Election("my-controller"), podName+"_"+rand.Text())
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:            lock,
//		LeaseDuration:   15 * time.Second,
//		RenewDeadline:   10 * time.Second,
//		RetryPeriod:     2 * time.Second,
//		ReleaseOnCancel: true,
//		Callbacks: leaderelection.LeaderCallbacks{
//			OnStartedLeading: func(ctx context.Context) {
//				ctx, cancel := lock.Context(ctx) // ends as soon as the term is lost
//				defer cancel()
//				run(ctx, lock.Token())
//			},
//			OnStoppedLeading: func() { os.Exit(0) },
//		},
//	})
//
// The term of the leader is a lease of redlatch with LeaseDuration as its TTL. client-go extends it
// in its own loop, every RetryPeriod, so a leader whose loop hangs loses the term. Candidates do not
// stand in line: client-go asks Redis again after 1 to 2.2 times RetryPeriod. A leader that cannot
// reach Redis steps down at most RetryPeriod and RenewDeadline after its last extend: let them
// together be less than LeaseDuration. A program that does not need client-go is better served by
// [redlatch.Election], which tells the next leader at once.
//
// # When a term is lost
//
// client-go finds out that a term is gone when it has failed to extend it for RenewDeadline. Redis
// may say so earlier: an operator has taken the term by force, or the server has lost its data.
// Another process can then lead before this one has stepped down. So work under [Lock.Context],
// which ends at once, take [Lock.Token] once, as the work begins, and pass it along with each
// write: work that goes on by mistake must not have the token of a later term. The process takes no
// new term until client-go has stepped down, so that its work and its leadership begin and end
// together.
package redlatchkube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/redlatch/redlatch"
)

// Lock is the lock of a leader election of client-go. Use it for one elector only. It is safe for
// concurrent use.
type Lock struct {
	election *redlatch.Election
	identity string

	mu      sync.Mutex
	term    *redlatch.Lease // the last one of this process; nil if it had none
	leading bool            // client-go has not stepped down from it
	length  time.Duration   // of a lease, as client-go asked for
}

var _ resourcelock.Interface = (*Lock)(nil)

// resource is what the errors for client-go call an election.
var resource = schema.GroupResource{Group: "redlatch", Resource: "elections"}

// New returns the lock of a candidate in that election. The identity must be that of one process
// alone, such as its pod's name and a random text, as client-go takes the leader of its own identity
// for itself. It is at most 256 bytes long. New sends nothing.
func New(election *redlatch.Election, identity string) *Lock {
	return &Lock{election: election, identity: identity}
}

// Get returns the leader that Redis names now. If there is no leader, the error says that the
// record was not found, and client-go calls Create. RenewTime is the time of the answer:
// Redis forgets a leader when its lease ends. LeaderTransitions is not counted; see
// [redlatch.Lease.Token], which grows with every term. A leader that steps down asks once more before
// it says so, and waits for no answer beyond the end of its term: another process may lead then.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if term := l.Term(); term != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, term.Deadline())
		defer cancel()
	}
	leader, err := l.election.Leader(ctx)
	switch {
	case errors.Is(err, redlatch.ErrNotHeld):
		return nil, nil, apierrors.NewNotFound(resource, l.election.Name())
	case err != nil:
		return nil, nil, err
	}
	l.mu.Lock()
	length, term, identity := l.length, l.term, leader.Value
	l.mu.Unlock()
	if identity == l.identity && !leads(term, leader.Term) {
		identity += " (another process)" // which client-go would take for this one
	}
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity:       identity,
		LeaseDurationSeconds: int(max(length, time.Second) / time.Second),
		AcquireTime:          metav1.NewTime(leader.Since),
		RenewTime:            metav1.Now(),
	}
	// The time makes every answer another one, which is how client-go sees that a leader lives.
	raw, err := json.Marshal(struct {
		resourcelock.LeaderElectionRecord
		Term, At int64
	}{record, leader.Term, time.Now().UnixNano()})
	return &record, raw, err
}

// leads reports whether the term that Redis told is that of the lease. The nodes of a quorum that
// answer may tell a smaller number than the token; a later leader has a larger one.
func leads(l *redlatch.Lease, term int64) bool {
	return l != nil && (l.Token() == term || l.Held() && l.Token() > term)
}

// Create makes this process the leader if there is none. Otherwise the error says that the election
// exists already. A process that has lost its term is refused until client-go has stepped down.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	length := time.Duration(record.LeaseDurationSeconds) * time.Second
	if length <= 0 { // client-go passes whole seconds on
		return fmt.Errorf("redlatchkube: stand for %q: %w: LeaseDuration must be at least a second", l.election.Name(), redlatch.ErrInvalid)
	}
	l.mu.Lock()
	l.length = length
	leading := l.leading
	l.mu.Unlock()
	if leading {
		return fmt.Errorf("redlatchkube: the term of %q is %w, and this process has to step down first",
			l.election.Name(), redlatch.ErrNotHeld)
	}
	// client-go ends the context of a campaign that has succeeded, and the term must not end with it.
	ctx = context.WithoutCancel(ctx)
	o := redlatch.LockOptions{TTL: length, Renew: redlatch.Off}
	term, err := l.election.With(o).TryCampaign(ctx, l.identity)
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		return errors.Join(apierrors.NewAlreadyExists(resource, l.election.Name()), err)
	case err != nil:
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.leading = term, true
	return nil
}

// Update extends the term of this process. If the record names no holder, it ends the term, and the
// next candidate may lead. If client-go believes that the last leader is gone, it makes this
// process the leader, as Create does. The error matches [redlatch.ErrNotHeld] if the term was lost,
// and [redlatch.ErrUnreachable] if Redis does not answer; client-go then steps down after
// RenewDeadline.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	term, leading := l.term, l.leading
	l.mu.Unlock()
	switch {
	case record.HolderIdentity == "" && term == nil:
		return nil
	case record.HolderIdentity == "":
		return term.Release(ctx)
	case term == nil, !leading && !term.Held():
		return l.Create(ctx, record)
	}
	if err := term.Extend(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = true // perhaps again: Redis was not told when it stepped down
	return nil
}

// RecordEvent is called by client-go when the elector starts and stops leading. It sends nothing:
// `redlatch log` tells of elections; see [redlatch.Options].Journal.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if event == stopped {
		l.leading = false
	}
}

// stopped is what client-go says when an elector has stepped down.
const stopped = "stopped leading"

// Identity returns the identity of this candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the election, for messages.
func (l *Lock) Describe() string { return "redlatch/" + l.election.Name() }

// Term returns the lease of this process's term, or nil if it does not lead. Its token grows with
// every term.
func (l *Lock) Term() *redlatch.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term != nil && l.term.Held() {
		return l.term
	}
	return nil
}

// Token returns the fencing token of this process's term, or 0 if it does not lead.
func (l *Lock) Token() int64 {
	if term := l.Term(); term != nil {
		return term.Token()
	}
	return 0
}

// Context returns a context for the work of the leader. It ends when ctx ends, and at once when the
// term of this process is lost; then [context.Cause] returns the [*redlatch.LostError]. If this
// process does not lead, it has ended already. Call it in OnStartedLeading, and call cancel when
// the work is done.
func (l *Lock) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if term == nil {
		end(fmt.Errorf("redlatchkube: the term of %q is %w", l.election.Name(), redlatch.ErrNotHeld))
		return ctx, func() {}
	}
	if over := term.Context(); over.Err() != nil { // AfterFunc would say so a moment later
		end(context.Cause(over))
		return ctx, func() {}
	}
	forget := context.AfterFunc(term.Context(), func() { end(context.Cause(term.Context())) })
	return ctx, func() {
		forget()
		end(context.Canceled)
	}
}
