package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

func newUnlockCommand(a *app) *cobra.Command {
	return command("unlock", func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("`redlatch unlock TEXT`", "unlock wants the text that `redlatch lock` printed, got %d arguments", len(args))
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error { return a.unlock(cmd.Context(), args[0]) })
}

func (a *app) unlock(ctx context.Context, arg string) error {
	text, err := a.leaseText(arg)
	if err != nil {
		return err
	}
	return a.connect(ctx, redlatch.Options{Program: "redlatch unlock"}, func(client *redlatch.Client) error {
		h, err := adopt(ctx, client, text)
		if err == nil {
			err = h.release(ctx)
		}
		return lostOr(err)
	})
}

// leaseText returns the text that an argument gives, or for - the one on stdin.
func (a *app) leaseText(arg string) (string, error) {
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(a.stdin, 1<<16))
		if err != nil {
			return "", &failure{exitFailure, fmt.Errorf("cannot read the text from stdin: %w", err), ""}
		}
		arg = string(text)
	}
	if arg = strings.TrimSpace(arg); arg == "" {
		return "", usagef(emptyText, "the text that names the lease is empty")
	}
	return arg, nil
}

// emptyText is the hint for a text that is empty.
const emptyText = "did `redlatch lock` fail in the step before?"

// lostOr gives the error of a lease that has ended its exit code.
func lostOr(err error) error {
	if errors.Is(err, redlatch.ErrNotHeld) && !errors.As(err, new(*failure)) {
		return &failure{exitLost, err, ""}
	}
	return err
}
