package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"parley/shared/lifecycle"
)

// Command is a program and what it gets.
type Command struct {
	Path  string
	Args  []string
	Files []*os.File // from descriptor 3 on; they stay the caller's
	Max   int64      // bytes of output
	CPU   time.Duration
	Bytes int64 // of memory
	Disk  int64 // bytes of a file that it makes
}

// Why a program was ended.
var (
	errTooMuch = errors.New("the program's output is too large")
	errTooLong = errors.New("the program took too long")
)

// Process is a program that runs. Its output is taken as it comes, whoever reads it: a slow reader does not hold the program up.
type Process struct {
	Stdin io.WriteCloser
	child *lifecycle.Child
	said  complaint

	mu     sync.Mutex
	output []byte
	err    error         // of reading the output; io.EOF at its end
	more   chan struct{} // closed when there is more of either
}

// Start starts a program.
func Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // Kill ends it, with its group
	cmd.Env = []string{"LANG=C.UTF-8"}
	cmd.Dir = "/"
	cmd.ExtraFiles = c.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{more: make(chan struct{})}
	cmd.Stderr = &p.said
	cmd.WaitDelay = time.Second // for a pipe that somebody else holds
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	p.Stdin = stdin
	cmd.Stdout = &taking{process: p, room: c.Max}
	if p.child, err = lifecycle.StartChild(cmd, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	if err := restrain(p.child.PID(), c); err != nil {
		p.Kill()
		return nil, fmt.Errorf("limiting %s: %w", c.Path, err)
	}
	go func() {
		<-p.child.Done()
		p.told(nil, io.EOF)
	}()
	return p, nil
}

// Kill ends the program and what it started; it has ended on return.
func (p *Process) Kill() {
	if !p.child.Ended() {
		_ = syscall.Kill(-p.child.PID(), syscall.SIGKILL)
	}
	_ = p.Stdin.Close()
	<-p.child.Done()
}

// Limit ends the program if it has not ended by itself in so long; stop takes that back.
func (p *Process) Limit(wall time.Duration) (stop func() bool) {
	return time.AfterFunc(wall, func() {
		p.told(nil, errTooLong)
		p.Kill()
	}).Stop
}

// Ended is closed when the program has ended and all that it said can be read.
func (p *Process) Ended() <-chan struct{} { return p.child.Done() }

// PID is the program's process and group.
func (p *Process) PID() int { return p.child.PID() }

// Fault is nil when the program ended well, else why it did not, with the beginning of its complaint. It must have ended.
func (p *Process) Fault() error {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if errors.Is(err, errTooMuch) || errors.Is(err, errTooLong) {
		return err
	}
	if err := p.child.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, p.said.text())
	}
	return nil
}

// Reader reads what the program says, until ctx ends.
func (p *Process) Reader(ctx context.Context) io.Reader { return &reader{ctx: ctx, process: p} }

type reader struct {
	ctx     context.Context //nolint:containedctx // Read has none
	process *Process
	rest    []byte
}

// Read waits until there is something.
func (r *reader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, fmt.Errorf("reading what a program says: %w", r.ctx.Err())
	}
	for len(r.rest) == 0 {
		said, more, err := r.process.next()
		if r.rest = said; len(said) > 0 {
			break
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-more:
		case <-r.ctx.Done():
			return 0, fmt.Errorf("reading what a program says: %w", r.ctx.Err())
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next gives what was said since it was last asked, and when to ask again.
func (p *Process) next() (said []byte, more <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said, p.output = p.output, nil
	return said, p.more, p.err
}

func (p *Process) told(said []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, said...)
	if p.err == nil {
		p.err = err
	}
	close(p.more)
	p.more = make(chan struct{})
}

// taking is where a program's output goes.
type taking struct {
	process *Process
	room    int64
}

// Write takes a piece. Behind the last one that it may say, the program is told that nobody reads.
func (t *taking) Write(piece []byte) (int, error) {
	if t.room -= int64(len(piece)); t.room < 0 {
		t.process.told(nil, errTooMuch)
		return 0, errTooMuch
	}
	t.process.told(piece, nil)
	return len(piece), nil
}

// maxComplaint is how much is kept of what a program complains of.
const maxComplaint = 500

// complaint keeps the beginning of what it is told.
type complaint struct {
	mu   sync.Mutex
	said bytes.Buffer
}

// Write takes all of it.
func (c *complaint) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said.Write(b[:min(len(b), maxComplaint-min(c.said.Len(), maxComplaint))])
	return len(b), nil
}

func (c *complaint) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(bytes.TrimSpace(c.said.Bytes()))
}
