package gvisor

import (
	"errors"
	"fmt"
	"os"
)

// pipe has one end for the sandbox and one end for this process.
type pipe struct{ child, ours *os.File }

// pipes are the pipes of a sandbox's standard input and output.
type pipes struct{ in, out pipe }

// newPipes creates both pipes, or none if it returns an error.
func newPipes() (p pipes, err error) {
	var errs [2]error
	p.in.child, p.in.ours, errs[0] = os.Pipe()
	p.out.ours, p.out.child, errs[1] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.close()
		return p, fmt.Errorf("making pipes: %w", err)
	}
	return p, nil
}

// close closes both sides.
func (p pipes) close() {
	p.closeChild()
	p.closeOurs()
}

// closeChild and closeOurs close all ends of one side. They ignore errors, because closing these
// pipes loses no data.
func (p pipes) closeChild() { closeAll(p.in.child, p.out.child) }
func (p pipes) closeOurs()  { closeAll(p.in.ours, p.out.ours) }

// closeAll closes files; nil is allowed.
func closeAll(list ...*os.File) {
	for _, f := range list {
		_ = f.Close() // works for nil, too
	}
}
