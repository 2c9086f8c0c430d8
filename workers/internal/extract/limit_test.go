//go:build linux

package extract

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/sandbox"
)

// unwatched is a backend that cannot measure usage. Only the limits that the reader sets for itself
// then apply.
type unwatched struct{ sandbox.Backend }

func (u unwatched) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	box, err := u.Backend.Start(ctx, c)
	if err != nil {
		return nil, err //nolint:wrapcheck // the backend's own error
	}
	return unmeasured{box}, nil
}

type unmeasured struct{ sandbox.Box }

func (unmeasured) Usage() (sandbox.Usage, error) { return sandbox.Usage{}, errors.New("not measured") }

// slowPage returns a page that takes several seconds of processor time to parse. During this time,
// the reader reports no progress.
func slowPage() []byte { return []byte("<html>" + strings.Repeat("<b>x</b> <i>y</i> ", 1_000_000)) }

func TestAReaderAtItsProcessorLimitExceedsIt(t *testing.T) {
	t.Parallel()
	failure := fails(t, opened(t, unwatched{mustShared(t)}, Config{}), slowPage(), Limits{CPU: time.Second})
	if failure.Code != document.LimitReached || failure.Retry || !strings.Contains(failure.Message, "CPU time") {
		t.Errorf("got %+v", failure)
	}
}

// killedAtFirst is a backend that kills a process after its first write, as the kernel does at the
// hard limit of processor time. The reader cannot report the reason for its end, and no measurement
// shows the reason.
type killedAtFirst struct {
	sandbox.Backend

	wrote *[]byte // the data of the first write
}

func (k killedAtFirst) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	box, err := unwatched{k.Backend}.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &killedBox{Box: box, wrote: k.wrote}, nil
}

type killedBox struct {
	sandbox.Box

	wrote *[]byte
}

func (k *killedBox) Stdout() io.Reader { return k }

func (k *killedBox) Read(p []byte) (int, error) {
	n, err := k.Box.Stdout().Read(p)
	if *k.wrote == nil && n > 0 {
		*k.wrote = slices.Clone(p[:n])
		k.Kill()
	}
	return n, err //nolint:wrapcheck // the box's own error
}

// A reader sends its greeting before it parses the document. If the reader then dies, the document
// is the cause, so the document is not retried.
func TestAReaderGreetsBeforeItParses(t *testing.T) {
	t.Parallel()
	var wrote []byte
	e := opened(t, killedAtFirst{mustShared(t), &wrote}, Config{})
	failure := fails(t, e, slowPage(), Limits{CPU: time.Second})
	if string(wrote) != protocol {
		t.Errorf("the reader first wrote %.200q, want its greeting %q alone", wrote, protocol)
	}
	if failure.Code != document.Damaged || failure.Retry {
		t.Errorf("got %+v, want a failure of the document", failure)
	}
}

// The reader of a short document may use only shortCPU of processor time. OnCPUTime receives the
// time that the reader has used.
func TestReadersOfShortDocumentsTakeLittle(t *testing.T) {
	t.Parallel()
	var spent time.Duration
	d := Document{Name: "page.html", Content: slowPage(), Short: true, OnCPUTime: func(cpu time.Duration) { spent = cpu }}
	_, err := open(t, Config{}).Read(t.Context(), d, Limits{}, func(document.Event) error { return nil })
	failure, is := errors.AsType[*document.Failure](err)
	if !is || failure.Code != document.LimitReached || spent < shortCPU {
		t.Errorf("got %v after %s", err, spent)
	}
}

// dead is a box whose process was killed before it could write anything.
type dead struct{ usage sandbox.Usage }

func (dead) Stdin() io.WriteCloser { return nil }

func (dead) Stdout() io.Reader { return strings.NewReader("") }

func (d dead) Usage() (sandbox.Usage, error) { return d.usage, nil }

func (dead) Kill() {}

func (dead) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (dead) Stderr() string { return "" }

type deadBackend struct {
	sandbox.Backend

	usage sandbox.Usage
}

func (d deadBackend) Start(context.Context, sandbox.Command) (sandbox.Box, error) {
	return dead{d.usage}, nil
}

func TestADeathAtTheProcessorLimitIsFinal(t *testing.T) {
	t.Parallel()
	for cpu, want := range map[time.Duration]document.Failure{
		textCPU:             {Code: document.LimitReached},
		textCPU / 2:         {Code: document.Internal, Retry: true},
		textCPU + time.Hour: {Code: document.LimitReached},
	} {
		e := opened(t, deadBackend{Backend: mustShared(t), usage: sandbox.Usage{CPU: cpu}}, Config{})
		failure := fails(t, e, []byte("Words"), Limits{})
		if failure.Code != want.Code || failure.Retry != want.Retry {
			t.Errorf("after %v: %+v", cpu, failure)
		}
	}
}

func TestTextHasLessProcessorTime(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]time.Duration{
		"# Title": textCPU, "<html>": textCPU, "a,b": textCPU, "%PDF-1.7": 2 * time.Minute, "PK\x03\x04": 2 * time.Minute,
	} {
		if got := (Limits{}).forContent([]byte(content)).CPU; got != want {
			t.Errorf("%q: %v", content, got)
		}
	}
	if got := (Limits{CPU: time.Second}).forContent([]byte("a")).CPU; got != time.Second {
		t.Error(got)
	}
}
