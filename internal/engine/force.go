package engine

import (
	"time"

	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// rememberForce is how long Redis remembers a forced release.
const rememberForce = time.Hour

// Rob returns how to take a lock from its holder at that time; the zero victim means none. Once it
// is taken, Tell tells the journal, and a lease of this client, which may not listen.
func (e *Engine) Rob(l *lock.Lock, victim survey.Holder, at time.Time, reason string) acquire.Robbery {
	where := func(p presence.Process) lock.Process {
		return lock.Process{Host: p.Host, PID: p.PID, Program: p.Program}
	}
	note := lock.Force{By: where(e.Presence.Self()), From: where(victim.Process), Reason: reason, At: at}
	s := script.Seizure{From: victim.Owner, Note: note.String(), Remember: rememberForce}
	if victim.Client != "" {
		s.Address = keys.Grants(e.Prefix, victim.Client)
		if e.Conn.Target().Cluster { // that client may have sharded channels even if this has none
			s.Shard = l.Keys.Grants(victim.Client)
		}
	}
	return acquire.Robbery{Seizure: s, Tell: func() {
		if victim.Owner != "" && e.recorder != nil {
			e.recorder.forced(l, victim, reason)
		}
		if victim.Client == e.ID {
			e.Keeper.Revoked(victim.Owner, note.Dated())
		}
	}}
}
