package hold

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

func newUnlockCommand(a *app.App) *cobra.Command {
	return app.Command("unlock", func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.Usagef("`redlatch unlock TEXT`", "unlock wants the text that `redlatch lock` printed, got %d arguments", len(args))
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error { return unlock(cmd.Context(), a, args[0]) })
}

func unlock(ctx context.Context, a *app.App, arg string) error {
	text, err := leaseText(a, arg)
	if err != nil {
		return err
	}
	return a.Connect(ctx, redlatch.Options{Program: "redlatch unlock"}, func(client *redlatch.Client) error {
		h, err := adopt(ctx, client, text)
		if err == nil {
			err = h.release(ctx)
		}
		return exit.LostOr(err)
	})
}

// leaseText returns the text that an argument gives, or for - the one on stdin.
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
	return arg, nil
}

// emptyText is the hint for a text that is empty.
const emptyText = "did `redlatch lock` fail in the step before?"
