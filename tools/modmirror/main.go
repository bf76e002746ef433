// Command modmirror packs modules as a release would, into a directory that the go command can
// take for a module mirror (GOPROXY=file://...).
//
//	modmirror -out DIR -version v1.2.3 MODULE_DIR...
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	out := flag.String("out", "", "the directory of the mirror")
	version := flag.String("version", "", "the version of all modules")
	flag.Parse()
	for _, dir := range flag.Args() {
		if err := pack(*out, *version, dir); err != nil {
			fmt.Fprintf(os.Stderr, "modmirror: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

// pack writes the module in dir to the mirror, and prints its path and the size of its archive.
func pack(out, version, dir string) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.CreateFromDir(archive, m, dir); err != nil {
		return err
	}
	size, err := archive.Seek(0, 2)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s, %d kB\n", m.Path, version, (size+999)/1000)
	return archive.Close()
}
