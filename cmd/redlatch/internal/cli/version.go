package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// The linker sets these in a released binary; see .goreleaser.yaml.
var (
	releaseVersion string // such as v1.2.3
	releaseCommit  string
)

func newVersionCommand(a *app.App) *cobra.Command {
	cmd := app.Command("version", app.Nothing, func(*cobra.Command, []string) error {
		return a.AnswerAs(thisBuild(), version()+"\n")
	})
	cmd.Annotations = map[string]string{app.TalksToNone: "yes"}
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON, as one object on one line: version, revision, modified, protocol, go, os, arch")
	return cmd
}

// build is what is known about this build.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; "" if unknown
	Modified bool   `json:"modified"` // the source differed from that revision
	Protocol int    `json:"protocol"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisBuild returns what the linker was told about this build, or else what the Go tool recorded.
func thisBuild() build {
	b := build{
		Version: releaseVersion, Revision: releaseCommit, Protocol: script.Protocol,
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = cmp.Or(b.Revision, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

// version returns this build in words.
func version() string {
	b := thisBuild()
	about := []string{fmt.Sprintf("protocol %d", b.Protocol), b.Go, b.OS + "/" + b.Arch}
	if b.Revision != "" {
		commit := "commit " + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			commit += ", modified"
		}
		about = append([]string{commit}, about...)
	}
	return fmt.Sprintf("redlatch %s (%s)", b.Version, strings.Join(about, ", "))
}
