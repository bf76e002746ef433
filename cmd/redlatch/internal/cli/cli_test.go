package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestHelpThatCannotBeWritten: it fails as every answer does.
func TestHelpThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	reader, full := io.Pipe()
	reader.CloseWithError(errors.New("it is full"))
	for _, line := range []string{"", "help", "--help", "help run", "run -h", "help completion", "help help", "version", "completion bash"} {
		var said bytes.Buffer
		check.Equal(t, Main(context.Background(), strings.Fields(line), nil, full, &said), exit.Failed, "Main(%s)", line)
		check.Equal(t, said.String(), "redlatch: it is full\n", "what %q says", line)
	}
}

// TestHelpFitsOnAScreen: --help names each command, and shows how it is used with an example, and
// `redlatch help` the rest.
func TestHelpFitsOnAScreen(t *testing.T) {
	t.Parallel()
	for _, cmd := range Commands().Commands() {
		if cmd.Hidden {
			continue
		}
		named := strings.Contains(app.HelpText("redlatch.txt"), "redlatch "+cmd.Name())
		check.That(t, named, "redlatch --help does not name %s", cmd.Name())
		if cmd.Name() == "completion" { // cobra's own has its examples in its text
			continue
		}
		check.That(t, cmd.Example != "", "%s has no example", cmd.Name())
		if cmd.Name() == "help" {
			continue
		}
		page, whole := helpPage(cmd, false), helpPage(cmd, true)
		if n := strings.Count(page, "\n"); n > 46 {
			t.Errorf("%s --help has %d lines, want 46 at most:\n%s", cmd.Name(), n, page)
		}
		for line := range strings.SplitSeq(whole, "\n") {
			check.That(t, len(line) <= columns, "a line of the help of %s is longer than %d columns: %s", cmd.Name(), columns, line)
		}
		examples, flags := strings.Index(page, "Examples:"), strings.Index(page, "Flags:")
		check.That(t, examples <= flags, "%s --help has flags before examples", cmd.Name())
		for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
			if word := strings.Fields(paragraph)[0]; !strings.Contains(whole, word) {
				t.Errorf("redlatch help %s leaves out the paragraph that begins with %q", cmd.Name(), word)
			}
		}
	}
}
