// Package scenes has the roles that actors of a world play ([All]): crowds on the same names, and
// scenes, in which a player has partners of its own and brings them to a state that chance rarely
// reaches.
package scenes

import (
	"context"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// All returns the roles of a world, which has not begun.
func All() world.Catalogue {
	return world.Catalogue{
		QuorumCrowds: []world.Role{
			as("mutex", mutex, 0),
			as("slots", slots, 0),
			as("election", election, 0),
			as("job", job, 0),
			as("adopt", adopt, 0),
			as("campaign", campaign, 0),
		},
		QuorumScenes: []world.Role{
			as("forgetful", forgetful, 1),
			as("handled", handled, 1),
			as("startled", startled, 1),
			as("surveyed", surveyed, 1),
			as("closed", closed, 1),
			as("does", does, 1),
			as("strays", strays, 1),
			as("unlucky", unlucky, 1),
			as("windowed", windowed, 1),
			as("lessened", lessened, 1),
			as("beset", beset, 1),
			as("revenant", revenant, 1),
			as("sized", sized, 1),
			as("evenly", evenly, 1),
			as("woken", woken, 1),
			as("straggler", straggler, 1),
		},
		Crowds: []world.Role{
			as("rw", rw, 0),
			as("semaphore", semaphore, 0),
			as("reentrant", reentrant, 0),
			as("multi", multi, 0),
			as("minhold", minhold, 0),
			as("bounded", bounded, 0),
			as("crossed", crossed, 0),
			as("lingering", lingering, 0),
		},
		Scenes: []world.Role{
			as("cutshort", cutShort, 1),
			as("emptied", emptied, 1),
			as("filled", filled, 1),
			as("gaveup", gaveUp, 1),
			as("seized", seized, 1),
			as("startled", startled, 1),
			as("surveyed", surveyed, 1),
			as("yields", yields, 1),
			as("awaited", awaited, 1),
			as("crammed", crammed, 1),
			as("cutoff", cutOff, 1),
			as("grown", grown, 1),
			as("listed", listed, 1),
			as("permitted", permitted, 1),
			as("bundled", bundled, 1),
			as("forcesown", forcesOwn, 1),
			as("joined", joined, 1),
			as("led", led, 1),
			as("lengthened", lengthened, 1),
			as("proclaimed", proclaimed, 1),
			as("relayed", relayed, 1),
			as("short", short, 1),
			as("silenced", silenced, 1),
			as("unlike", unlike, 1),
			as("usurped", usurped, 1),
			as("windowed", windowed, 1),
			as("wished", wished, 1),
			as("acknowledged", acknowledged, 1),
			as("bounds", bounds, 1),
			as("crowdedout", crowdedOut, 1),
			as("mute", mute, 1),
			as("handled", handled, 1),
			as("nested", nested, 1),
			as("reentered", reentered, 1),
			as("sharing", sharing, 1),
			as("sized", sized, 1),
			as("succeeds", succeeds, 1),
			as("thrifty", thrifty, 1),
			as("unheard", unheard, 1),
			as("closed", closed, 1),
			as("does", does, 1),
			as("outlives", outlives, 1),
			as("slotgone", slotGone, 1),
			as("straggled", straggled, 1),
			as("strays", strays, 1),
			as("unlucky", unlucky, 1),
			as("announced", announced, 1),
			as("bereaved", bereaved, 1),
			as("beside", beside, 1),
			as("count", countRound, 2),
			as("countdown", countdown, 2),
			as("delete", countDeleted, 1),
			as("downgraded", downgraded, 1),
			as("entangled", entangled, 1),
			as("expiry", countExpires, 1),
			as("fenced", fenced, 2),
			as("fostered", fostered, 1),
			as("inherited", inherited, 1),
			as("gaveback", gaveBack, 1),
			as("keeper", keeper, 1),
			as("knotted", knotted, 1),
			as("labeled", labeled, 1),
			as("lined", lined, 1),
			as("named", named, 2),
			as("observe", observe, 1),
			as("overlabeled", overlabeled, 1),
			as("own", refusedOwn, 1),
			as("panics", panics, 1),
			as("readers", readers, 1),
			as("resized", resized, 1),
			as("robbed", robbed, 2),
			as("shared", shared, 3),
			as("shut", shut, 1),
			as("shelved", shelved, 1),
			as("belated", belated, 1),
			as("lessened", lessened, 1),
			as("beset", beset, 1),
			as("revenant", revenant, 1),
			as("inturn", inTurn, 1),
			as("startledbymany", startledByMany, 1),
			as("namednow", namedNow, 1),
			as("recalled", recalled, 1),
			as("around", around, 1),
		},
		Cluster: as("apart", apart, 1),
		Begin:   watchShared,
		Over: func(w *world.World, c *redlatch.Client) {
			for _, role := range w.Plan.Roles {
				for _, name := range names[role.Name] {
					wantFree(w, c, role.Name, name)
				}
			}
		},
	}
}

// as makes a role of what an actor does.
func as(name string, once func(*player), actors int) world.Role {
	return world.Role{Name: name, Once: func(a *world.Actor) { once(&player{a}) }, Actors: actors}
}

// names are those that each role uses.
var names = map[string][]string{
	"mutex": {"mutex-0", "mutex-1"}, "lingering": {"linger-0", "linger-1", "linger-2", "linger-3", "linger-4", "linger-5"}, "minhold": {"minhold"}, "bounded": {"bounded"}, "adopt": {"adopt"},
	"reentrant": {"reentrant"}, "rw": {"rw"}, "semaphore": {"semaphore"}, "slots": {"slots"}, "election": {"election"},
	"campaign": {"campaign"}, "job": {"job"}, "multi": {"multi-0", "multi-1", "multi-2"}, "crossed": {"cross-0", "cross-1"},
	"downgraded": {"rw"}, "named": {"named"}, "robbed": {"robbed"}, "panics": {"panics-0", "panics-1"}, "shared": {"shared"}, "fenced": {"fenced"},
}

// wantFree checks that the first try gets what is free.
func wantFree(w *world.World, c *redlatch.Client, role, name string) {
	ctx := context.Background()
	var l *redlatch.Lease
	var err error
	switch role {
	case "reentrant", "named", "fenced":
		l, err = c.ReentrantMutex(name).TryLock(ctx)
	case "rw", "downgraded":
		l, err = c.RWMutex(name).TryLock(ctx)
	case "semaphore":
		l, err = c.Semaphore(name, world.Permits).TryAcquire(ctx, world.Permits)
	case "slots":
		var slot *redlatch.Slot
		if slot, err = c.SlotPool(name, world.SlotCount, redlatch.SlotOptions{Quarantine: world.Quarantine}).TryAcquire(ctx); err == nil {
			l = slot.Lease
		}
	case "election", "campaign":
		l, err = c.Election(name).TryCampaign(ctx, "last")
	case "job":
		ran := false
		ran, err = c.Job(name, redlatch.JobOptions{Window: world.Window}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		if !ran || err != nil {
			w.Fail("when all is over, a job does not run: %t, %v", ran, err)
		}
		return
	default:
		l, err = c.Mutex(name).TryLock(ctx)
	}
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		w.Fail("when all is over, %s %q cannot be had at the first try: %v", role, name, err)
	}
}
