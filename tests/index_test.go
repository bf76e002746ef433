package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndexNamesEveryFile keeps the tables in the doc.go of each folder from going stale. A file that
// they do not name is one that no contributor finds.
func TestIndexNamesEveryFile(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || filepath.Dir(path) == "." {
			return err
		}
		doc, err := os.ReadFile(filepath.Join(filepath.Dir(path), "doc.go"))
		if os.IsNotExist(err) { // a package of one file
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test")
		if strings.HasPrefix(name, "help_") { // the doc.go names a helper once for all systems
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_linux"), "_other")
		}
		if name != "doc" && name != "main" && !strings.Contains(string(doc), "//\t"+name+"  ") {
			t.Errorf("%s/doc.go does not name %s", filepath.Dir(path), filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
