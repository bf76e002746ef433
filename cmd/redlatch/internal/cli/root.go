package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Main runs the program with these arguments, which leave its own name out, and returns its exit
// code. The streams become those of the commands that `redlatch run` starts.
//
// Main itself handles no signals: a command that has something to put in order does, for as long as
// it has.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, talk: stderr, flush: func() {}}
	root := newRootCommand(a)
	root.SetArgs(args)
	a.typed = args
	code := a.finish(root.ExecuteContext(ctx))
	a.flush()
	return code
}

// finish says what went wrong, if anything did, and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return 0
	}
	f := asFailure(err)
	if !a.started && f.code == exitFailure {
		f = &failure{exitUsage, err, "see `redlatch --help`"} // cobra's own complaints
	}
	if f.hint == "" && f.code == exitUnreachable {
		f.hint = advice(f.err, a.urls())
	}
	a.fail(f)
	return f.code
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:              "redlatch",
		Short:            "Locks on Redis that are fair, fenced and fast",
		Version:          version(),
		Args:             knownCommand,
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
		SilenceErrors:    true,
		SilenceUsage:     true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.redis, "redis", nil, "`URL` of the server (default REDLATCH_REDIS, REDLATCH_REDIS_FILE, REDIS_URL or "+defaultRedis+"); several are a quorum")
	flags.StringVar(&a.prefix, "prefix", defaultPrefix, "what begins every key in Redis; all who share a lock must agree on it")
	root.AddCommand(
		newRunCommand(a),
		newElectCommand(a),
		newLockCommand(a),
		newUnlockCommand(a),
		newListCommand(a),
		newInspectCommand(a),
		newReleaseCommand(a),
		newLogCommand(a),
		newDoctorCommand(a),
		newVerifyCommand(a),
		newTopCommand(a),
		newWebCommand(a),
		newDemoCommand(a),
		newDevCommand(a),
		newVersionCommand(a),
		newGuardCommand(a),
		newVerifyWorkerCommand(a),
		newVerifyGuardCommand(a),
	)
	arrangeHelp(root)
	arrangeArguments(a, root)
	arrangeCompletion(root)
	return root
}

// Commands returns the tree of the program's commands, for its manual and its completions.
func Commands() *cobra.Command {
	root := newRootCommand(&app{stdout: io.Discard, stderr: io.Discard, talk: io.Discard, flush: func() {}})
	root.Long = helpText("redlatch.txt")
	return root
}

// The linker sets these in a released binary; see .goreleaser.yaml.
var (
	releaseVersion string // such as v1.2.3
	releaseCommit  string
)

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := command("version", nothing, func(*cobra.Command, []string) error {
		if asJSON {
			return a.answerJSON(thisBuild())
		}
		return a.answer("%s\n", version())
	})
	cmd.Annotations = map[string]string{talksToNone: "yes"}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as one object on one line: version, revision, modified, protocol, go, os, arch")
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

// thisBuild returns what the linker was told about this build, or else what the Go tool knows.
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
