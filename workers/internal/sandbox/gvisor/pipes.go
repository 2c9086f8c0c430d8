package gvisor

import (
	"errors"
	"fmt"
	"os"
)

// pipe is a pipe between a sandbox and this process. The sandbox has one end, and this process has
// the other end.
type pipe struct{ child, ours *os.File }

// pipes are the pipes of a sandbox's standard input and output.
type pipes struct{ in, out pipe }

// newPipes creates both pipes. If it returns an error, neither pipe is open.
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

// close closes both ends of both pipes.
func (p pipes) close() {
	p.closeChild()
	p.closeOurs()
}

// closeChild closes the sandbox's ends of both pipes, and closeOurs the ends of this process. They
// ignore errors, because closing these pipes loses no data.
func (p pipes) closeChild() { closeAll(p.in.child, p.out.child) }
func (p pipes) closeOurs()  { closeAll(p.in.ours, p.out.ours) }

// closeAll closes files. A file may be nil.
func closeAll(list ...*os.File) {
	for _, f := range list {
		_ = f.Close() // works for nil, too
	}
}
