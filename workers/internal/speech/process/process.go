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

	"parley/shared/lifecycle/childproc"
)

// Command is a program with its inputs and limits. Path, Max, CPU and Bytes are required.
type Command struct {
	Path  string
	Args  []string
	Files []*os.File // open files that become the descriptors 3, 4 and so on of the program; the caller must still close them
	Max   int64      // maximum number of bytes of output
	// CPU is the maximum processor time, which is rounded up to whole seconds.
	CPU   time.Duration
	Bytes int64 // maximum number of bytes of memory
	Disk  int64 // maximum number of bytes in a file that the program writes
}

// Reasons why a program is killed.
var (
	errTooMuch = errors.New("the program's output is too large")
	errTooLong = errors.New("the program took too long")
)

// Process is a running program. Its output is buffered as it arrives, so a slow reader does not
// block the program. The buffer holds at most Command.Max bytes.
//
// The methods are safe for concurrent use.
type Process struct {
	// Stdin is the program's standard input. The caller closes it when the input is complete.
	Stdin io.WriteCloser
	child *childproc.Child
	said  stderrHead

	// mu protects the fields below.
	mu     sync.Mutex
	output []byte
	err    error         // error from reading the output, or io.EOF at the end of the output
	more   chan struct{} // closed when more output or an error has arrived
}

// Start starts a program with the limits of c, in the folder "/" and with an environment that
// contains only a locale. It returns when the limits are set, so the program cannot process input
// without limits. Start takes no context. The caller must call [Process.Kill], for example when the
// context of its call ends.
func Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // no context, because Kill ends the program and its process group
	cmd.Env = []string{"LANG=C.UTF-8"}
	cmd.Dir = "/"
	cmd.ExtraFiles = c.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	p := &Process{more: make(chan struct{})}
	cmd.Stderr = &p.said
	cmd.WaitDelay = time.Second // time to wait for the end of a pipe that another process keeps open

	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	p.Stdin = stdin

	cmd.Stdout = &outputWriter{process: p, room: c.Max}
	if p.child, err = childproc.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}

	if err := setLimits(p.child.PID(), c); err != nil {
		p.Kill()
		return nil, fmt.Errorf("limiting %s: %w", c.Path, err)
	}

	go func() {
		<-p.child.Done()
		p.record(nil, io.EOF)
	}()
	return p, nil
}

// Kill kills the program and its children, and waits until the program has ended. It does nothing
// if the program has ended already.
func (p *Process) Kill() {
	if !p.child.Ended() {
		_ = syscall.Kill(-p.child.PID(), syscall.SIGKILL)
	}
	_ = p.Stdin.Close()
	<-p.child.Done()
}

// Limit starts a timer that kills the program if it runs longer than wall. Fault then returns the
// reason. stop stops the timer.
func (p *Process) Limit(wall time.Duration) (stop func() bool) {
	return time.AfterFunc(wall, func() {
		p.record(nil, errTooLong)
		p.Kill()
	}).Stop
}

// Ended returns a channel that is closed when the program has ended and all of its output has
// arrived.
func (p *Process) Ended() <-chan struct{} { return p.child.Done() }

// PID returns the id of the program's process, which is also the id of its process group.
func (p *Process) PID() int { return p.child.PID() }

// Fault returns nil if the program has succeeded. Otherwise it returns the reason of the failure,
// with the beginning of the program's standard error. The program must have ended.
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

// Reader returns a reader of the program's output. Its Read method fails when ctx ends. Even if the
// program has failed, Read returns the output that has arrived; see Fault. Only one reader may be
// used.
func (p *Process) Reader(ctx context.Context) io.Reader { return &reader{ctx: ctx, process: p} }

// reader reads the output of a process. rest is output that has been taken and not returned.
type reader struct {
	ctx     context.Context //nolint:containedctx // Read has no context parameter
	process *Process
	rest    []byte
}

// Read waits until output is available. It returns io.EOF when the program has ended and all of its
// output was read.
func (r *reader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, fmt.Errorf("reading a program's output: %w", r.ctx.Err())
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
			return 0, fmt.Errorf("reading a program's output: %w", r.ctx.Err())
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next returns the output that has arrived since the last call, and a channel that is closed when
// further output arrives. err is the reason why no further output will arrive.
func (p *Process) next() (said []byte, more <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said, p.output = p.output, nil
	return said, p.more, p.err
}

// record appends output, stores the first error, and wakes up the readers.
func (p *Process) record(said []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, said...)
	if p.err == nil {
		p.err = err
	}
	close(p.more)
	p.more = make(chan struct{})
}

// outputWriter stores a program's output. room is the number of bytes that may still be stored.
type outputWriter struct {
	process *Process
	room    int64
}

// Write stores a piece of output. It fails when the limit is reached, and the program then receives
// SIGPIPE.
func (t *outputWriter) Write(piece []byte) (int, error) {
	if t.room -= int64(len(piece)); t.room < 0 {
		t.process.record(nil, errTooMuch)
		return 0, errTooMuch
	}
	t.process.record(piece, nil)
	return len(piece), nil
}

// maxStderr is the maximum number of bytes of a program's standard error that are kept.
const maxStderr = 500

// stderrHead keeps the first bytes of standard error, for Fault.
type stderrHead struct {
	mu   sync.Mutex
	said bytes.Buffer
}

// Write accepts all bytes but keeps only the first maxStderr bytes.
func (c *stderrHead) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said.Write(b[:min(len(b), maxStderr-min(c.said.Len(), maxStderr))])
	return len(b), nil
}

// text returns the stored bytes without white space at their ends.
func (c *stderrHead) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(bytes.TrimSpace(c.said.Bytes()))
}
