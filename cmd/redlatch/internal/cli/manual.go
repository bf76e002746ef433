package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// Commands returns the tree of the program's commands, for its manual and its completions.
func Commands() *cobra.Command {
	root := newRootCommand(&app{stdout: io.Discard, stderr: io.Discard, talk: io.Discard, flush: func() {}})
	root.Long = helpText("redlatch.txt")
	return root
}
