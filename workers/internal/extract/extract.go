package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"parley/shared/truncate"
	"parley/workers/internal/document"
	"parley/workers/internal/sandbox"
)

// Config configures an Extractor.
type Config struct {
	NoOCR bool // if true, text in images is not recognized, even if tesseract is installed
	// Report, if not nil, is called with an error when this machine has a fault or a reader
	// crashes. The error contains no output of the reader, because the output may include text from
	// the document.
	Report func(error)
	// Detail, if not nil, is called in addition to Report. said is the beginning of the reader's
	// output, which may contain text from the document.
	Detail func(why error, said string)
}

// Document is a document to be read.
type Document struct {
	Name     string // name that the sender gave
	MIMEType string // type that the sender declared
	Content  []byte
	// Short limits the reader to one second of processor time. If the document needs more, Read
	// fails with the code limit_exceeded. The worker enforces this limit without the reader's
	// knowledge, so Short does not change the events of a document.
	Short bool
	// OnCPUTime, if not nil, is called with the processor time that the reader has used so far. It
	// is called repeatedly, and once more after the reader has exited.
	OnCPUTime func(cpu time.Duration)
}

// Extractor reads documents, each in a separate sandbox. It is safe for concurrent use.
type Extractor struct {
	backend sandbox.Backend
	config  Config
	program *program
}

// Open returns an Extractor that uses backend to start readers. The caller closes backend.
func Open(backend sandbox.Backend, c Config) *Extractor {
	if c.Report == nil {
		c.Report = func(error) {}
	}
	if c.Detail == nil {
		c.Detail = func(error, string) {}
	}
	return &Extractor{backend: backend, config: c, program: openProgram()}
}

// Close removes the copy of the reader's program. No call of Read may be in progress.
func (e *Extractor) Close() error { return e.program.close() }

// Read reads a document, passes its events in order to the function each, and returns information
// about the whole document. An error of the function each ends Read and is returned unchanged. If
// ctx ends, the error wraps the cause. Any other error is a *document.Failure.
func (e *Extractor) Read(ctx context.Context, d Document, l Limits, each func(document.Event) error) (info document.Info, err error) {
	l = l.forContent(d.Content)
	o := order{Name: d.Name, MIMEType: d.MIMEType, Limits: l, NoOCR: e.config.NoOCR}
	err = e.run(ctx, d, o, func(output io.Reader) (err error) {
		info, err = newChecker(l).follow(output, each)
		return err
	})
	if err != nil {
		return document.Info{}, err
	}
	return info, nil
}

// run starts a reader, sends it an order, and passes its output to the function read. read returns
// a *readerError or an error that Read may return. When run returns, no process is left in the
// sandbox.
func (e *Extractor) run(ctx context.Context, d Document, o order, read func(output io.Reader) error) error {
	box, err := e.start(ctx, d.Content, o)
	if ctx.Err() != nil {
		return fmt.Errorf("reading a document: %w", context.Cause(ctx))
	}
	if err != nil {
		return e.startFailure(err)
	}

	if d.OnCPUTime != nil {
		box = meteredBox{Box: box, spent: d.OnCPUTime}
	}

	r := &readerRun{box: box, limits: o.Limits}
	if d.Short {
		r.limits.CPU = min(o.Limits.CPU, shortCPU)
	}

	err = r.follow(ctx, read)
	_, _ = box.Usage() // reports the total processor time to OnCPUTime
	if own, is := errors.AsType[*readerError](err); is {
		return e.explain(ctx, r, own)
	}
	return err
}

// start starts a reader in a sandbox.
func (e *Extractor) start(ctx context.Context, content []byte, o order) (sandbox.Box, error) {
	// Ask for the path in each call, because it changes to the path of a copy if the executable is
	// updated.
	program, err := e.program.path()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("sending the request to the reader: %w", err)
	}
	return e.backend.Start(ctx, sandbox.Command{ //nolint:wrapcheck // the backend's errors name the operation
		// The environment contains no settings of this process. Main recognizes a reader by its
		// first argument.
		Args:   []string{programPath},
		Env:    []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "GOTRACEBACK=single"},
		Data:   []sandbox.Data{{Path: documentPath, Content: content}, {Path: orderPath, Content: text}},
		Shown:  []sandbox.Shown{{Path: programPath, Host: program}},
		Limits: sandboxLimits(o.Limits),

		// Other work on the machine, such as executing runs, has priority over reading documents.
		GivesWay: true,
	})
}

// meteredBox is a sandbox that reports its processor time. Each call of Usage also passes the
// processor time to the function spent.
type meteredBox struct {
	sandbox.Box

	spent func(cpu time.Duration)
}

// Usage returns the resources that the sandbox has used so far.
func (s meteredBox) Usage() (sandbox.Usage, error) {
	u, err := s.Box.Usage()
	if err == nil {
		s.spent(u.CPU)
	}
	return u, err //nolint:wrapcheck // the sandbox's own error
}

// spareMemory is added to the memory limit of the sandbox, because that limit also includes the
// memory for the reader's program and for cached files.
const spareMemory = 64 << 20

// fileCount is the maximum number of files that a reader may create. A reader creates files only
// for pages of PDF documents.
const fileCount = 1000

// sandboxLimits converts the limits of a document to those of its sandbox.
func sandboxLimits(l Limits) sandbox.Limits {
	return sandbox.Limits{
		CPU: l.CPU, Wall: l.Wall, Memory: l.Memory + spareMemory, Processes: l.Processes, Files: l.Files, FileCount: fileCount,
		Output: l.Text,
	}
}

// startFailure returns the failure for a reader that could not start. The document has not caused
// this failure.
func (e *Extractor) startFailure(why error) error {
	e.config.Report(fmt.Errorf("starting the document reader: %w", why))
	return &document.Failure{Code: document.Internal, Message: "The document could not be read: its reader did not start.", Retry: true}
}

// readerError means that a reader ended without a valid final event.
type readerError struct {
	why    error  // one of a fixed set of errors, without output of the reader
	detail string // output of the reader, which may contain text from the document
	begun  bool   // true if the reader itself had started
}

// Error returns the reason, which contains no output of the reader.
func (r *readerError) Error() string { return r.why.Error() }

// explain returns the error of Read if a reader has ended without a valid final event.
func (e *Extractor) explain(ctx context.Context, r *readerRun, why *readerError) error {
	// If the caller has cancelled the call, the reader has not failed.
	if ctx.Err() != nil {
		return fmt.Errorf("reading a document: %w", context.Cause(ctx))
	}

	if limit := r.limit(); limit != "" {
		return limitReached(limitWords[limit])
	}

	// Go's runtime and the PDF programs report a lack of memory only as text on standard error.
	complaint := strings.TrimSpace(r.box.Stderr())
	if strings.Contains(complaint, "out of memory") || strings.Contains(complaint, "cannot allocate memory") {
		return limitReached(limitWords[sandbox.LimitMemory])
	}

	e.config.Detail(why.why, truncate.Bytes(why.detail, maxDetail)+"; "+truncate.Bytes(complaint, maxDetail))
	// If the reader has not begun to read the document, the document has not caused the failure.
	// Another attempt may succeed.
	if !why.begun {
		return e.startFailure(why.why)
	}
	e.config.Report(fmt.Errorf("reading a document: %w", why.why))
	return &document.Failure{Code: document.Damaged, Message: "The document could not be read: its reader failed."}
}

// maxDetail is the maximum number of bytes of a reader's output that are passed to Detail.
const maxDetail = 2000

// limitWords contains the names of the sandbox's limits, for error messages.
var limitWords = map[sandbox.Limit]string{
	sandbox.LimitCPU: "CPU time", sandbox.LimitWall: "time", sandbox.LimitMemory: "memory",
	sandbox.LimitProcesses: "processes", sandbox.LimitFiles: "space for files", sandbox.LimitOutput: "output",
}

// readerRun is one execution of a reader in its sandbox.
type readerRun struct {
	box    sandbox.Box
	limits Limits

	mu  sync.Mutex
	hit sandbox.Limit // the limit because of which the reader was killed
}

// follow passes the reader's output to the function read. When follow returns, no process is left
// in the sandbox.
func (r *readerRun) follow(ctx context.Context, read func(output io.Reader) error) error {
	// The deferred calls run in reverse order: first the sandbox is killed, and then Watch returns.
	var watching sync.WaitGroup
	defer watching.Wait()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	defer r.box.Kill()
	defer context.AfterFunc(ctx, r.box.Kill)()
	defer time.AfterFunc(r.limits.Wall, func() { r.kill(sandbox.LimitWall) }).Stop()
	watching.Go(func() {
		if limit := sandbox.Watch(watched, r.box, sandboxLimits(r.limits), sandbox.Usage{}); limit != "" {
			r.kill(limit)
		}
	})

	return read(r.box.Stdout())
}

// kill kills the reader because it exceeded a limit. Only the first limit is recorded.
func (r *readerRun) kill(limit sandbox.Limit) {
	r.mu.Lock()
	if r.hit == "" {
		r.hit = limit
	}
	r.mu.Unlock()
	r.box.Kill()
}

// limit returns the limit that the reader exceeded, or "". It must be called after the reader has
// exited.
func (r *readerRun) limit() sandbox.Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hit != "" {
		return r.hit
	}

	// The kernel enforces some limits itself. It kills the reader without reporting the limit.
	usage, err := r.box.Usage()
	switch {
	case err != nil:
		return ""
	case usage.OutOfMem:
		return sandbox.LimitMemory
	case usage.CPU >= r.limits.CPU: // the kernel killed the reader before sandbox.Watch detected that it had exceeded the limit
		return sandbox.LimitCPU
	default:
		return ""
	}
}
