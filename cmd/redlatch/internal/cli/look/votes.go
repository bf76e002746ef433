package look

import (
	"context"
	"slices"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/internal/fleet"
)

// warnOfVotes says so if too few nodes of a quorum vote for locks of a kind, or of any if it is "". It
// returns which.
func warnOfVotes(ctx context.Context, a *app.App, client *redlatch.Client, kind string) (mute []string) {
	mute = slices.DeleteFunc(fleet.Mute(client.Nodes(ctx)), func(k string) bool { return kind != "" && k != kind })
	if len(mute) > 0 {
		a.Say("%s", fleet.MuteText(mute))
	}
	return mute
}
