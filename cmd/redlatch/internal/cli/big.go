//go:build !redlatch_small

package cli

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/look"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/try"
)

// bigCommands returns the commands that a small build lacks.
func bigCommands(a *app.App) []*cobra.Command { return append(try.Commands(a), look.WebCommand(a)) }
