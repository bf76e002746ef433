package redlatch_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeCodeIsCompiled looks for every Go block of the README in the examples, indentation
// aside.
func TestReadmeCodeIsCompiled(t *testing.T) {
	t.Parallel()
	readme, examples := squeeze(t, "README.md"), squeeze(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Error("README.md has no Go block")
	}
	for _, block := range blocks {
		// Only the address is the reader's own.
		code := strings.ReplaceAll(block[1], `"redis://localhost:6379"`, "url")
		if !strings.Contains(examples, code) {
			t.Errorf("not in example_test.go:\n%s", block[1])
		}
	}
}

// squeeze is a file without indentation.
func squeeze(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(data), "")
}
