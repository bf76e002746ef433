package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestPagesHaveNoDate: the generator writes one below each page, and of that of no day it makes "Jan 0001".
func TestPagesHaveNoDate(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, "write", write(dir))
	packed := check.Value(os.Open(filepath.Join(dir, "man", "redlatch-run.1.gz"))).OK(t)
	defer packed.Close()
	page := string(check.Value(io.ReadAll(check.Value(gzip.NewReader(packed)).OK(t))).OK(t))
	check.That(t, strings.Contains(page, `.TH "REDLATCH-RUN" "1" "" `), "the page begins with %.100q", page)
}

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
