//go:build redlatch_small

package try

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// Commands returns none: a small build has none of them.
func Commands(*app.App) []*cobra.Command { return nil }
