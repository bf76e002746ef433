package tests

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	workIfAsked()
	flag.Parse()
	// These tests wait for servers and deadlines rather than compute, so many fit on few cores.
	setUnlessGiven("test.parallel", "8")
	if flag.Lookup("rapid.nofailfile") != nil { // TestMutants leaves out what its tests do not need
		setUnlessGiven("rapid.nofailfile", "true")
	}
	goleak.VerifyTestMain(m,
		// Rueidis looks at a cluster again up to a second later, and closes connections to nodes
		// that left it five seconds later, also after it was closed itself.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// TestIndexNamesEveryFile keeps the table in doc.go from going stale. A file that it does not name
// is one that no contributor finds.
func TestIndexNamesEveryFile(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, "_test.go")
		for _, system := range []string{"_linux", "_other"} { // as help_sqlserver
			if strings.HasPrefix(name, "help_") {
				name = strings.TrimSuffix(name, system)
			}
		}
		if name != "main" && !strings.Contains(string(doc), "//\t"+name+"  ") {
			t.Errorf("doc.go does not name %s", file)
		}
	}
}

func setUnlessGiven(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		log.Fatal(err)
	}
}
