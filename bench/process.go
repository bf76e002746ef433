package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// process is another process of this program.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts this program with these arguments.
func start(args ...string) (*process, error) {
	p := &process{Cmd: exec.Command(os.Args[0], args...)}
	p.Stderr = os.Stderr
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.Start()
}

// await reads a line, and wants it to be this one.
func await(out *bufio.Reader, want string) error {
	line, err := out.ReadString('\n')
	if strings.TrimSpace(line) != want {
		return errors.Join(fmt.Errorf("a process said %q, want %q", line, want), err)
	}
	return nil
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}
