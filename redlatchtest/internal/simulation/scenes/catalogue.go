// Package scenes has the roles that actors of a world play ([All]): crowds on the same names, and
// scenes, in which a player has partners of its own and brings them to a state that chance rarely
// reaches.
package scenes

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// All returns the roles of a world, which has not begun. A role has the name of its function, in
// lower case.
func All() world.Catalogue {
	both := scenes(
		handled, startled, surveyed, closed, does, strays, windowed, lessened, beset, revenant, sized,
	)
	return world.Catalogue{
		QuorumCrowds: crowds(0, mutex, slots, election, job, adopt, campaign),
		QuorumScenes: slices.Concat(both, scenes(forgetful, evenly, woken, straggler)),
		Crowds:       crowds(0, rw, semaphore, reentrant, multi, minhold, bounded, crossed, lingering),
		Scenes: slices.Concat(both, scenes(
			acknowledged, around, awaited, belated, bereaved, bundled, crammed, crowdedOut,
			cutOff, cutShort, deleted, emptied, entangled, filled, forced, fostered, gaveBack,
			gaveUp, inherited, inTurn, joined, keeper, knotted, lacking, lengthened, lined,
			nested, outlives, own, proclaimed, recalled, relayed, seized, sharing,
			shelved, short, shut, silenced, startledByMany, straggled, thrifty, unheard,
			unlike, usurped, wished, yields,
		), crowds(1, downgraded, observe), crowds(2, count, countdown, fenced, named, robbed), crowds(3, shared)),
		Cluster: scenes(apart)[0],
		Begin:   watchShared,
		Over: func(w *world.World, c *redlatch.Client) {
			for _, role := range w.Plan.Roles {
				for i, name := range names[role.Name] {
					if i > 0 {
						wantFree(w, c, names[role.Name][0], name)
					}
				}
			}
		},
	}
}

// crowds returns roles that this many actors of each client play at once; 0 for as many as the plan
// says.
func crowds(actors int, all ...func(*player)) (roles []world.Role) {
	for _, play := range all {
		name := runtime.FuncForPC(reflect.ValueOf(play).Pointer()).Name()
		name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
		roles = append(roles, world.Role{Name: name, Once: plays(play), Actors: actors})
	}
	return roles
}

// scenes returns roles that one actor of each client plays, with a pause after each time.
func scenes(all ...func(*player)) []world.Role {
	roles := crowds(1, all...)
	for i, once := range roles {
		roles[i].Once = func(a *world.Actor) {
			once.Once(a)
			a.Rest(a.UpTo(1500 * time.Millisecond))
		}
	}
	return roles
}

// names has, for each role, the kind of its locks and then their names.
var names = map[string][]string{
	"adopt": {"mutex", "adopt"}, "bounded": {"mutex", "bounded"}, "campaign": {"election", "campaign"},
	"crossed": {"mutex", "cross-0", "cross-1"}, "downgraded": {"rwmutex", "rw"}, "election": {"election", "election"},
	"fenced": {"reentrant", "fenced"}, "job": {"job", "job"},
	"lingering": {"mutex", "linger-0", "linger-1", "linger-2", "linger-3", "linger-4", "linger-5"},
	"minhold":   {"mutex", "minhold"}, "multi": {"mutex", "multi-0", "multi-1", "multi-2"},
	"mutex": {"mutex", "mutex-0", "mutex-1"}, "named": {"reentrant", "named"}, "reentrant": {"reentrant", "reentrant"},
	"robbed": {"mutex", "robbed"}, "rw": {"rwmutex", "rw"}, "semaphore": {"semaphore", "semaphore"},
	"shared": {"mutex", "shared"}, "slots": {"slotpool", "slots"},
}

// wantFree checks that the first try gets a free lock.
func wantFree(w *world.World, c *redlatch.Client, kind, name string) {
	ctx := context.Background()
	if kind == "job" {
		ran, err := c.Job(name, redlatch.JobOptions{Window: world.Window}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		if !ran || err != nil {
			w.Fail("when all is over, a job does not run: %t, %v", ran, err)
		}
		return
	}
	all := sharables(name, nil)
	k := all[slices.IndexFunc(all, func(k sharable) bool { return k.kind == kind })]
	l, err := k.lock(c, ctx, false)
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		w.Fail("when all is over, %s %q cannot be had at the first try: %v", kind, name, err)
	}
}
