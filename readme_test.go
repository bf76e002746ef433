package redlatch_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestReadmeCodeIsCompiled looks for every Go block of the README in the examples, indentation
// aside. Programs and tests are not among them: TestReadmeFromAClone runs those.
func TestReadmeCodeIsCompiled(t *testing.T) {
	t.Parallel()
	readme := squeeze(t, "README.md")
	examples := squeeze(t, "example_test.go") + squeeze(t, "example_kinds_test.go") + squeeze(t, "redlatchgoredis/example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	check.That(t, len(blocks) != 0, "README.md has no Go block")
	for _, block := range blocks {
		if strings.HasPrefix(block[1], "package main\n") || strings.HasPrefix(block[1], "func Test") {
			continue
		}
		// Only the address is the reader's own.
		code := strings.ReplaceAll(block[1], `"redis://localhost:6379"`, "url")
		check.That(t, strings.Contains(examples, code), "not in example_test.go:\n%s", block[1])
	}
}

// squeeze is a file without indentation.
func squeeze(t *testing.T, file string) string {
	t.Helper()
	data := check.Value(os.ReadFile(file)).OK(t)
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(data), "")
}
