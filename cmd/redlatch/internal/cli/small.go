//go:build redlatch_small

package cli

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// bigCommands returns none.
func bigCommands(*app.App) []*cobra.Command { return nil }
