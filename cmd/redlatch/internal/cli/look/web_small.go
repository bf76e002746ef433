//go:build redlatch_small

package look

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// serving returns none: a small build has no dashboard.
func serving(*app.App) []*cobra.Command { return nil }
