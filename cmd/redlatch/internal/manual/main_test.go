package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestCaskHasEveryPage: the Homebrew cask lists the man pages one by one, so a new command is
// missed there, and one that is gone keeps the cask from being installed.
func TestCaskHasEveryPage(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, "write", write(dir))
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*"))
	check.Must(t, err == nil && len(pages) >= 10, "%d man pages, %v", len(pages), err)
	release := check.Value(os.ReadFile("../../../../.goreleaser.yaml")).OK(t)
	for _, page := range pages {
		listed := strings.Contains(string(release), "- man/"+filepath.Base(page)+"\n")
		check.That(t, listed, ".goreleaser.yaml does not list %s among the pages of the cask", page)
	}
	check.Equal(t, strings.Count(string(release), "- man/redlatch"), len(pages), "pages of the cask in .goreleaser.yaml")
}
