package python

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/workers/internal/sandbox"
)

// errNotBegun means that a sandbox was lost before its program began, so the program may be run in
// another sandbox. If a sandbox is lost later, the program is considered the cause.
var errNotBegun = errors.New("the sandbox was lost before the program started")

// These reserves for the runner's own files are added to the program's limits. The kernel stops a
// program exactly at the size limit of one folder; measurements detect when several folders
// together exceed the limit.
const (
	ownBytes = 2 << 20
	ownFiles = 64
)

// box is a sandbox in which the runner has started. It runs at most one program, and then it is
// killed.
type box struct {
	sandbox.Box

	// frames reads the runner's output. A ready box has already sent its first frame.
	frames *frameReader
	taken  chan struct{} // closed when a program takes the box
}

// start creates a sandbox. If ready is true, start returns when the runner can accept a program;
// otherwise it returns immediately. The caller must kill the box. If start fails, no box is left.
func (i *Interpreter) start(ctx context.Context, ready bool) (*box, error) {
	made, err := i.backend.Start(ctx, i.command)
	if err != nil {
		return nil, fmt.Errorf("creating a sandbox: %w", err)
	}
	b := &box{Box: made, frames: newFrameReader(made.Stdout()), taken: make(chan struct{})}
	if !ready {
		return b, nil
	}

	// If the runner is not ready in time, the box is killed. This closes its output and ends the
	// read below.
	defer time.AfterFunc(readyWithin, b.Kill).Stop()
	defer context.AfterFunc(ctx, b.Kill)()
	kind, _, err := b.frames.next()
	if err == nil && kind != frameReady {
		err = errFrame
	}
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("waiting for the interpreter: %w%s", err, complaint(b))
	}
	return b, nil
}

// complaint returns the box's standard error in a form that can end an error message, or "". The
// text comes from the sandbox and is untrusted.
func complaint(b sandbox.Box) string {
	if said := strings.TrimSpace(b.Stderr()); said != "" {
		return ": " + said
	}
	return ""
}

// exchange runs a program in the box. The box ends together with the program.
//
// The outcome of a program that fails or exceeds a limit is not an error. exchange fails with
// errNotBegun if the box was lost before the program began, and with the cause of ctx if ctx ends.
func (i *Interpreter) exchange(ctx context.Context, b *box, p Program) (Outcome, error) {
	e := &exchange{box: b, limits: i.limits}

	if p.Wall > 0 {
		e.limits.Wall = min(e.limits.Wall, p.Wall)
	}
	e.resultReader = newResultReader(e.limits, p.Files)

	// The deferred calls run in reverse order: the box is killed, the watch is cancelled, and its
	// goroutine ends.
	e.ctx, e.cancel = context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer e.cancel()
	defer func() {
		if e.complete {
			i.active.Go(b.Kill) // kill the box in the background: no program runs in it, so the caller need not wait
			return
		}
		b.Kill()
	}()

	defer context.AfterFunc(ctx, b.Kill)()
	e.deadline = time.AfterFunc(beginWithin, b.Kill)
	defer func() { e.deadline.Stop() }()

	// The program is sent while frames are received. Otherwise, a full pipe in each direction could
	// block both sides.
	parts.Go(func() { order(b, e.limits, p) })
	err := e.read(b.frames, func() { e.begin(&parts) }, e.end)

	// A complete result is returned even if the caller stopped waiting at the last moment.
	if ctx.Err() != nil && !e.complete {
		return Outcome{}, fmt.Errorf("running the program: %w", context.Cause(ctx))
	}
	if !e.begun && !e.ended {
		return Outcome{}, fmt.Errorf("%w: %w%s", errNotBegun, err, complaint(b))
	}
	return e.outcome(), nil
}

// order sends the program to the runner: the limits, the files and the code. An error is ignored,
// because then reading the runner's frames fails as well.
func order(b *box, l sandbox.Limits, p Program) {
	w := newFrameWriter(b.Stdin())
	var limits strings.Builder
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"cpu", l.CPU.Microseconds()},
		{"wall", l.Wall.Microseconds()},
		{"memory", l.Memory},
		{"processes", int64(l.Processes)},
		{"files", l.Files},
		{"filecount", int64(l.FileCount)},
		{"output", l.Output},
	} {
		limits.WriteString(limit.name + " " + strconv.FormatInt(limit.value, 10) + "\n")
	}

	// The runner applies the limits before it runs the code.
	w.put(frameLimits, []byte(limits.String()))
	for _, f := range p.Files {
		w.put(frameFile, []byte(f.Name))
		w.putParts(frameData, f.Content)
	}
	w.put(frameCode, []byte(p.Code))
	_ = w.flush()
}

// exchange is the state of one execution of a program in a box. Its methods run in the goroutine
// that reads the frames, except for watch and kill.
type exchange struct {
	*resultReader

	box    *box
	limits sandbox.Limits
	ctx    context.Context //nolint:containedctx // context of the watch; used only during the exchange
	cancel context.CancelFunc
	// deadline kills the box if the current phase takes too long: beginning, running or collecting
	// files.
	deadline *time.Timer
	// started and took are the times of the program itself, without the start of the sandbox.
	started time.Time
	took    time.Duration
	// began is the usage when the program began.
	began   sandbox.Usage
	counted bool // whether the field began has been measured
	// memory is the maximum memory usage in bytes that was observed.
	memory atomic.Int64

	// mu protects reached, which kill sets in another goroutine.
	mu      sync.Mutex
	reached sandbox.Limit // the limit because of which the box was killed
}

// begin is called when the runner reports that the program begins. It starts a goroutine that
// measures the usage. The goroutine belongs to the wait group parts.
func (e *exchange) begin(parts *sync.WaitGroup) {
	// The interpreter of a sandbox that was kept ready has already used processor time. The
	// program's usage is counted from here.
	e.started = time.Now()

	usage, err := e.box.Usage()
	e.began, e.counted = usage, err == nil
	e.deadline.Stop()
	e.deadline = time.AfterFunc(e.limits.Wall+wallGrace, func() { e.kill(sandbox.LimitWall) })
	parts.Go(e.watch)
}

// watch measures the program's usage. When a limit is exceeded, watch asks the runner to stop the
// program, so that output and files are kept. If the runner does not respond within stopWithin,
// watch kills the box. watch returns when the program has ended.
func (e *exchange) watch() {
	limits := e.limits
	limits.Files += ownBytes
	limits.FileCount += ownFiles
	limit := sandbox.Watch(e.ctx, peakBox{e.box, &e.memory}, limits, e.began)
	if limit == "" {
		return
	}
	stop := time.AfterFunc(stopWithin, func() { e.kill(limit) })
	defer stop.Stop()
	w := newFrameWriter(e.box.Stdin())
	w.put(frameStop, []byte(limit))
	_ = w.flush()
	<-e.ctx.Done()
}

// kill kills the box because of a limit. Only the first limit is recorded.
func (e *exchange) kill(limit sandbox.Limit) {
	e.mu.Lock()
	if e.reached == "" {
		e.reached = limit
	}
	e.mu.Unlock()
	e.box.Kill()
}

// end is called when the program has ended, or when the stream of frames has ended.
func (e *exchange) end() {
	e.took = time.Since(e.started)
	if !e.ended {
		e.box.Kill() // kill the lost box; afterwards its usage is final
	}

	// After the program has ended, the runner sends the program's files. This step has its own time
	// limit.
	usage, err := e.box.Usage()
	e.deadline.Stop()
	e.deadline = time.AfterFunc(collectWithin, e.box.Kill)
	e.cancel()

	if err != nil {
		return
	}

	if e.counted {
		e.cpu = max(e.cpu, usage.CPU-e.began.CPU)
	}
	e.memory.Store(max(e.memory.Load(), usage.Memory)) // the final measurement may show more memory than the measurements of watch
	killed := !e.ended || e.exitCode == -9
	if killed && e.limit == "" && usage.OutOfMem { // the kernel may have killed the program before begin was called
		e.limit = sandbox.LimitMemory
	}
}

// outcome returns the program's result with its measured usage. If the box was killed, the limit
// that caused this is part of the result.
func (e *exchange) outcome() Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended && e.limit == "" {
		e.limit = e.reached
	}
	o := e.resultReader.outcome()
	o.Took, o.Memory = e.took, e.memory.Load()
	return o
}

// peakBox is a box that records the maximum of its memory usage each time the usage is measured.
type peakBox struct {
	sandbox.Box

	maximum *atomic.Int64
}

// Usage returns the box's current usage.
func (p peakBox) Usage() (sandbox.Usage, error) {
	usage, err := p.Box.Usage()
	if err == nil {
		p.maximum.Store(max(p.maximum.Load(), usage.Memory))
	}
	return usage, err //nolint:wrapcheck // the box's own error
}
