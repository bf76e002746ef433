package app

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed help
var helpFiles embed.FS

// HelpText returns a file below help.
func HelpText(file string) string {
	text, err := helpFiles.ReadFile("help/" + file)
	if err != nil {
		panic(err) // there is no such file
	}
	return string(text)
}

// Command returns the command that a file below help describes. The file has a line with its usage,
// a line with its purpose, then the full text, then the examples.
func Command(name string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	use, text, _ := strings.Cut(HelpText(name+".txt"), "\n")
	short, text, _ := strings.Cut(text, "\n\n")
	long, examples, _ := strings.Cut(text, "\n\nExamples:\n")
	for _, shared := range []string{"belief.txt", "report.txt"} {
		if before, after, found := strings.Cut(long, "{"+shared+"}"); found {
			long = before + strings.TrimSpace(HelpText(shared)) + after
		}
	}
	return &cobra.Command{Use: use, Short: short, Long: long, Example: strings.TrimSuffix(examples, "\n"), Args: args, RunE: run}
}

// Offer makes the shell complete the value of a flag with one of these.
func Offer(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // which the command has
}

// Hidden returns a command that redlatch starts itself.
func Hidden(use, short string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Hidden: true, Args: Nothing, RunE: run}
}

// TalksToNone annotates commands that talk to no server, or to none that --redis names. Their help
// omits --redis and --prefix.
const TalksToNone = "talks to none"

// OwnServer annotates commands that do not read REDLATCH_REDIS. Its value names the server that
// they use without --redis.
const OwnServer = "own server"
