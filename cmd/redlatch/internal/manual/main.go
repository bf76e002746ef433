// Command manual writes the man pages of redlatch and its completions for shells, for packages.
//
//	manual DIR
//
// It writes DIR/man/*.1 and DIR/completions/redlatch.{bash,zsh,fish,ps1}.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
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
	for suffix, generate := range map[string]func(io.Writer) error{
		"bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":  root.GenZshCompletion,
		"fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		var text bytes.Buffer
		if err := generate(&text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, "redlatch."+suffix), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages writes the page of a command and those of the commands under it. Pages are packed without a
// date, so that the same commands give the same files.
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
	var text bytes.Buffer
	if err := doc.GenMan(cmd, header, &text); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, name(cmd)+".1.gz"))
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := packed.Write(text.Bytes()); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return file.Close()
}

func name(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// verbatim keeps the lines of a help text that are indented, such as tables, as they are: four
// spaces are what the page's generator takes for that.
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
