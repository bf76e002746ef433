package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

func TestHelpNamesEveryCommandAndEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, cmd := range Commands().Commands() {
		if cmd.Hidden {
			continue
		}
		if !strings.Contains(app.HelpText("redlatch.txt"), "redlatch "+cmd.Name()) {
			t.Errorf("redlatch --help does not name %s", cmd.Name())
		}
		if cmd.Example == "" && cmd.Name() != "completion" { // cobra's own has them in its text
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}

func TestMainTalksOnTheStreamsItIsGiven(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	if code := Main(context.Background(), []string{"inspect"}, nil, &out, &said); code != exit.Usage {
		t.Errorf("Main(inspect) = %d, want %d", code, exit.Usage)
	}
	want := "redlatch: inspect wants the name of one lock, got 0\nredlatch: hint: `redlatch inspect NAME`\n"
	if out.Len() > 0 || said.String() != want {
		t.Errorf("stdout %q, stderr %q, want %q on stderr", out.String(), said.String(), want)
	}
}

// TestHelpFitsOnAScreen: --help shows how a command is used, and `redlatch help` the rest.
func TestHelpFitsOnAScreen(t *testing.T) {
	t.Parallel()
	for _, cmd := range Commands().Commands() {
		if cmd.Hidden || cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		page, whole := helpPage(cmd, false, 80), helpPage(cmd, true, 80)
		if n := strings.Count(page, "\n"); n > 46 {
			t.Errorf("%s --help has %d lines, want 46 at most:\n%s", cmd.Name(), n, page)
		}
		if strings.Index(page, "Examples:") > strings.Index(page, "Flags:") {
			t.Errorf("%s --help has flags before examples", cmd.Name())
		}
		for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
			if word := strings.Fields(paragraph)[0]; !strings.Contains(whole, word) {
				t.Errorf("redlatch help %s leaves out the paragraph that begins with %q", cmd.Name(), word)
			}
		}
	}
}
