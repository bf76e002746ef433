// Command manual writes the man pages of redlatch and its completions for shells, for packages.
//
//	manual DIR
//
// It writes DIR/man/*.1 and DIR/completions/redlatch.{bash,zsh,fish,ps1}.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIR")
		os.Exit(64)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true
	if err := pages(root, man); err != nil {
		return err
	}
	file := func(suffix string) string { return filepath.Join(completions, "redlatch."+suffix) }
	return errors.Join(
		root.GenBashCompletionFileV2(file("bash"), true), root.GenZshCompletionFile(file("zsh")),
		root.GenFishCompletionFile(file("fish"), true), root.GenPowerShellCompletionFileWithDesc(file("ps1")))
}

// pages writes the man page of a command, and those of the commands under it. Pages are packed
// without a date, so that the same commands give the same files.
func pages(cmd *cobra.Command, dir string) error {
	for _, under := range cmd.Commands() {
		if under.IsAvailableCommand() {
			if err := pages(under, dir); err != nil {
				return err
			}
		}
	}
	cmd.InitDefaultHelpFlag()
	verbatim(cmd)
	header := &doc.GenManHeader{Title: strings.ToUpper(name(cmd)), Section: "1", Source: "redlatch", Manual: "redlatch", Date: &time.Time{}}
	var text, packed bytes.Buffer
	if err := doc.GenMan(cmd, header, &text); err != nil {
		return err
	}
	page, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)                         // a valid level
	_, _ = page.Write(bytes.Replace(text.Bytes(), []byte(`"Jan 0001"`), []byte(`""`), 1)) // a buffer takes all
	_ = page.Close()
	return os.WriteFile(filepath.Join(dir, name(cmd)+".1.gz"), packed.Bytes(), 0o644)
}

func name(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// verbatim keeps the lines of a help text that are indented, such as tables, as they are: the
// generator keeps lines as they are if they begin with four spaces.
func verbatim(cmd *cobra.Command) {
	lines := strings.Split(cmd.Long, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "    " + strings.TrimPrefix(line, "  ")
			if i > 0 && lines[i-1] != "" && !strings.HasPrefix(lines[i-1], "  ") {
				lines[i-1] += "\n"
			}
		}
	}
	cmd.Long = strings.Join(lines, "\n")
}
