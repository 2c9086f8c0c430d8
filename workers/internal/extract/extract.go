package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/sandbox"
)

// Config is what an Extractor is opened with.
type Config struct {
	NoOCR bool // images are not read, even where tesseract is installed
	// Report, if not nil, is called with faults of this machine and with crashes of readers. The error contains no output of the reader,
	// because that may be text of the document.
	Report func(error)
	// Detail, if not nil, is called with each reported error and the beginning of the reader's output, which may contain text of the document.
	Detail func(why error, said string)
}

// Document is what is to be read.
type Document struct {
	Name     string // as its sender called it
	MIMEType string // as its sender said
	Content  []byte
	// Short limits the reader to a second of processor time, after which the reading fails with limit_exceeded. The reader is not told,
	// so the events of a document do not depend on it.
	Short bool
	// Spent, if not nil, is called with the processor time that the reader has used so far, repeatedly and once after its end.
	Spent func(cpu time.Duration)
}

// Extractor reads documents, each in a sandbox of its own; safe for concurrent use.
type Extractor struct {
	backend sandbox.Backend
	config  Config
	program *program
}

// Open returns an Extractor that starts readers with backend. The caller closes backend.
func Open(backend sandbox.Backend, c Config) *Extractor {
	if c.Report == nil {
		c.Report = func(error) {}
	}
	if c.Detail == nil {
		c.Detail = func(error, string) {}
	}
	return &Extractor{backend: backend, config: c, program: openProgram()}
}

// Close removes the reader's program from the host. No Read may be in progress.
func (e *Extractor) Close() error { return e.program.close() }

// Read reads a document and calls each with its parts in order. It returns the information about the whole document.
// Errors are *document.Failure, except errors of each and of ctx, which end the reading and are returned unchanged.
func (e *Extractor) Read(ctx context.Context, d Document, l Limits, each func(document.Event) error) (document.Info, error) {
	l = l.of(d.Content)
	box, err := e.start(ctx, d, l)
	if ctx.Err() != nil {
		return document.Info{}, fmt.Errorf("reading a document: %w", context.Cause(ctx))
	}
	if err != nil {
		return document.Info{}, e.unable(err)
	}
	if d.Spent != nil {
		box = spending{Box: box, spent: d.Spent}
	}
	r := &reading{box: box, limits: l}
	if d.Short {
		r.limits.CPU = min(l.CPU, shortCPU)
	}
	info, err := r.follow(ctx, each)
	_, _ = box.Usage() // calls Spent with the total
	if err == nil {
		return info, nil
	}
	if own, is := errors.AsType[*readerError](err); is {
		return document.Info{}, e.explain(ctx, r, own)
	}
	return document.Info{}, err
}

func (e *Extractor) start(ctx context.Context, d Document, l Limits) (sandbox.Box, error) {
	program, err := e.program.path()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order{Name: d.Name, MIMEType: d.MIMEType, Limits: l, NoOCR: e.config.NoOCR})
	if err != nil {
		return nil, fmt.Errorf("writing the order: %w", err)
	}
	return e.backend.Start(ctx, sandbox.Command{ //nolint:wrapcheck // it says what it did
		Args:   []string{programPath},
		Env:    []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "GOTRACEBACK=single"},
		Data:   []sandbox.Data{{Path: documentPath, Content: d.Content}, {Path: orderPath, Content: text}},
		Shown:  []sandbox.Shown{{Path: programPath, Host: program}},
		Limits: sandboxLimits(l),

		GivesWay: true,
	})
}

// spending is a box that reports its processor time to spent whenever its usage is read.
type spending struct {
	sandbox.Box

	spent func(cpu time.Duration)
}

// Usage returns what the sandbox has used so far.
func (s spending) Usage() (sandbox.Usage, error) {
	u, err := s.Box.Usage()
	if err == nil {
		s.spent(u.CPU)
	}
	return u, err //nolint:wrapcheck // it is the box's
}

// spareMemory is for what the sandbox counts beside the reader's own memory: its program, and pages of files.
const spareMemory = 64 << 20

const fileCount = 1000

func sandboxLimits(l Limits) sandbox.Limits {
	return sandbox.Limits{
		CPU: l.CPU, Wall: l.Wall, Memory: l.Memory + spareMemory, Processes: l.Processes, Files: l.Files, FileCount: fileCount,
		Output: l.Text,
	}
}

// unable is the failure when nothing could be read here, whatever the document is.
func (e *Extractor) unable(why error) error {
	e.config.Report(fmt.Errorf("starting the reader of documents: %w", why))
	return &document.Failure{Code: document.Internal, Message: "The document could not be read: its reader did not start.", Retry: true}
}

// readerError is an end that the reader did not tell, or told in a way that it may not.
type readerError struct {
	why    error  // one of a few: nothing of what was said
	detail string // what was said; it may be the document's
	begun  bool   // it was the reader that ended, not what starts it
}

func (r *readerError) Error() string { return r.why.Error() }

// explain finds the reason why a reader ended without saying so.
func (e *Extractor) explain(ctx context.Context, r *reading, why *readerError) error {
	if ctx.Err() != nil {
		return fmt.Errorf("reading a document: %w", context.Cause(ctx))
	}
	if limit := r.limit(); limit != "" {
		return reached(limitWords[limit])
	}
	complaint := strings.TrimSpace(r.box.Complaint())
	if strings.Contains(complaint, "out of memory") || strings.Contains(complaint, "cannot allocate memory") {
		return reached(limitWords[sandbox.LimitMemory])
	}
	e.config.Detail(why.why, clip(why.detail)+"; "+clip(complaint))
	if !why.begun {
		return e.unable(why.why)
	}
	e.config.Report(fmt.Errorf("reading a document: %w", why.why))
	return &document.Failure{Code: document.Damaged, Message: "The document could not be read: its reader failed."}
}

// maxDetail is how much of what a reader said is told, in bytes.
const maxDetail = 2000

func clip(said string) string { return said[:min(len(said), maxDetail)] }

// limitWords say what was too much.
var limitWords = map[sandbox.Limit]string{
	sandbox.LimitCPU: "CPU time", sandbox.LimitWall: "time", sandbox.LimitMemory: "memory",
	sandbox.LimitProcesses: "processes", sandbox.LimitFiles: "space for files", sandbox.LimitOutput: "output",
}

// reading follows one reader.
type reading struct {
	box    sandbox.Box
	limits Limits

	mu  sync.Mutex
	hit sandbox.Limit // for which it was killed
}

// follow takes what the reader says until it has said all, or too much. Nothing in the sandbox lives when it returns.
func (r *reading) follow(ctx context.Context, each func(document.Event) error) (document.Info, error) {
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
	return newChecker(r.limits).follow(r.box.Stdout(), each)
}

func (r *reading) kill(limit sandbox.Limit) {
	r.mu.Lock()
	if r.hit == "" {
		r.hit = limit
	}
	r.mu.Unlock()
	r.box.Kill()
}

// limit is the one for which the reader ended; nothing of it lives any more.
func (r *reading) limit() sandbox.Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hit != "" {
		return r.hit
	}
	usage, err := r.box.Usage()
	switch {
	case err != nil:
		return ""
	case usage.OutOfMem:
		return sandbox.LimitMemory
	case usage.CPU >= r.limits.CPU: // the kernel killed it before the watch looked again
		return sandbox.LimitCPU
	default:
		return ""
	}
}
