package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newUnlockCommand(a *app.App) *cobra.Command {
	return app.Command("unlock", func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.Usagef("`redlatch unlock TEXT`", "unlock needs the text that `redlatch lock` printed, got %d arguments", len(args))
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error { return unlock(cmd.Context(), a, args[0]) })
}

func unlock(ctx context.Context, a *app.App, arg string) error {
	text, err := leaseText(a, arg)
	if err != nil {
		return err
	}
	// The journal gets no entry that this process adopted the lease: the process only releases it.
	o := redlatch.Options{Program: "redlatch unlock", Journal: redlatch.JournalOptions{Off: true}}
	return a.Connect(ctx, o, func(client *redlatch.Client) error {
		lease, err := adopt(ctx, client, text)
		switch {
		case err == nil:
			err = lease.Release(ctx)
		case errors.Is(err, redlatch.ErrNotHeld):
			return wentOn(ctx, a, client, text, err)
		}
		return exit.LostOr(err)
	})
}

// wentOn looks in the journal for another process that adopted a lease which is no longer held,
// such as `redlatch run --adopt` in a script that ends with an unlock. If there is one, it says so
// and returns nil. Otherwise, it returns an error with the hint of err.
func wentOn(ctx context.Context, a *app.App, client *redlatch.Client, text string, err error) error {
	was, _ := lock.ParseText(text) // parsed before, so this cannot fail
	for e, failed := range client.Journal(ctx, redlatch.JournalQuery{}) {
		adopted := failed == nil && e.Type == redlatch.JournalAdopted
		if adopted && e.Name == was.Name && e.Owner == was.Owner {
			a.Say("%q: %s went on with this lease, and has released it or said that it was lost",
				was.Name, fleet.ProcessText(e.Process, e.Client))
			return nil
		}
	}
	over := fmt.Errorf("unlock %q, on %s: the lease has ended, or its text was used before", was.Name, a.Where())
	return exit.New(exit.Lost, over, exit.Of(err).Hint)
}

// leaseText returns the text of a lease from an argument, or from stdin if that is "-".
func leaseText(a *app.App, arg string) (string, error) {
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(a.Stdin, 1<<16))
		if err != nil {
			return "", exit.New(exit.Failed, fmt.Errorf("cannot read the text from stdin: %w", err), "")
		}
		arg = string(text)
	}
	if arg = strings.TrimSpace(arg); arg == "" {
		return "", exit.Usagef(emptyText, "the text that names the lease is empty")
	}
	was, err := lock.ParseText(arg)
	if err != nil {
		return "", exit.New(exit.Usage, err, "give the text that `redlatch lock` printed; of what lock --json printed, its .lease")
	}
	a.Adopted = was.Name
	return arg, nil
}

// emptyText is the hint for a text that is empty.
const emptyText = "did `redlatch lock` fail in the step before?"
