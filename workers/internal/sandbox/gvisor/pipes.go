package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// complaintMost is what is kept of standard error.
const complaintMost = 16 << 10

// pipe has one end for a sandbox and one for us.
type pipe struct{ child, ours *os.File }

// pipes are a sandbox's three.
type pipes struct{ in, out, err pipe }

func newPipes() (p pipes, err error) {
	var errs [3]error
	p.in.child, p.in.ours, errs[0] = os.Pipe()
	p.out.ours, p.out.child, errs[1] = os.Pipe()
	p.err.ours, p.err.child, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.close()
		return p, fmt.Errorf("making pipes: %w", err)
	}
	return p, nil
}

func (p pipes) close() {
	p.closeChild()
	p.closeOurs()
}

// closeChild and closeOurs close files that nothing was written to: there is nothing to lose.
func (p pipes) closeChild() { closeAll(p.in.child, p.out.child, p.err.child) }
func (p pipes) closeOurs()  { closeAll(p.in.ours, p.out.ours, p.err.ours) }

func closeAll(list ...*os.File) {
	for _, f := range list {
		_ = f.Close() // of nil too
	}
}

// output is a sandbox's standard output. What is not read when the sandbox ends is kept, at most what a pipe holds, so that no
// descriptor stays open for it.
type output struct {
	mu   sync.Mutex // of file: what is read is read in order
	file *os.File   // nil when it is at its end
	rest []byte
}

// Read reads from the sandbox, then what was left.
func (o *output) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		n, err := o.file.Read(p)
		if err == nil {
			return n, nil
		}
		_ = o.file.Close() // nothing more comes
		o.file = nil
		return n, err
	}
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// drain reads what is left when nobody writes any more.
func (o *output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	o.rest, _ = io.ReadAll(o.file) // up to its end, or what there is
	_ = o.file.Close()             // of what was read
	o.file = nil
}

// complaint keeps the beginning of standard error and lets the rest go, so that who writes it never waits.
type complaint struct {
	once sync.Once
	over chan struct{}
	mu   sync.Mutex
	kept bytes.Buffer
}

func (c *complaint) done() chan struct{} {
	c.once.Do(func() { c.over = make(chan struct{}) })
	return c.over
}

func (c *complaint) read(from *os.File) {
	defer close(c.done())
	_, _ = io.Copy(c, from) // up to its end
	_ = from.Close()        // of what was read
}

// Write keeps what fits.
func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Write(p[:min(len(p), complaintMost-c.kept.Len())])
	return len(p), nil
}

func (c *complaint) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.String()
}
