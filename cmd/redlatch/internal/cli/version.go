package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  redlatch version",
		Args:    nothing,
		RunE:    func(*cobra.Command, []string) error { return a.answer("%s\n", version()) },
	}
}

// version is what the Go tool knows about this build.
func version() string {
	module, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			module = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && module == "(devel)" {
				revision = " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return fmt.Sprintf("redlatch %s%s (%s, %s/%s)", module, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
