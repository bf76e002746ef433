package look

import (
	"context"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/internal/fleet"
)

// connect connects to the server, or the quorum, for a look at locks. It says so if too few nodes of a
// quorum vote.
func connect(ctx context.Context, a *app.App, use func(*redlatch.Client) error) error {
	return a.Connect(ctx, redlatch.Options{}, func(client *redlatch.Client) error {
		if kinds := fleet.Mute(client.Nodes(ctx)); len(kinds) > 0 {
			a.Say("too few nodes vote for: %s. No client can acquire such a lock, and one that is held may seem free", strings.Join(kinds, ", "))
		}
		return use(client)
	})
}
