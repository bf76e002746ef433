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
	var out, talk bytes.Buffer
	if code := Main(context.Background(), []string{"inspect"}, nil, &out, &talk); code != exit.Usage {
		t.Errorf("Main(inspect) = %d, want %d", code, exit.Usage)
	}
	want := "redlatch: inspect wants the name of one lock, got 0\nredlatch: hint: `redlatch inspect NAME`\n"
	if out.Len() > 0 || talk.String() != want {
		t.Errorf("stdout %q, stderr %q, want %q on stderr", out.String(), talk.String(), want)
	}
}
