//go:build linux

package extract

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/gvisor"
)

func TestMain(m *testing.M) {
	misbehave() // returns immediately outside of a sandbox, or if the document names no behavior
	Main()
	os.Exit(m.Run())
}

// shared is the backend of all tests that do not need a backend of their own.
var shared = sync.OnceValues(func() (sandbox.Backend, error) { return bubblewrap.Open(bubblewrap.Config{}) })

func open(tb testing.TB, c Config) *Extractor {
	tb.Helper()
	return opened(tb, mustShared(tb), c)
}

func opened(tb testing.TB, backend sandbox.Backend, c Config) *Extractor {
	tb.Helper()
	if c.Report == nil {
		c.Report = func(err error) { tb.Log("reported:", err) }
	}
	e := Open(backend, c)
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error("closing:", err)
		}
	})
	return e
}

func openGVisor(t *testing.T) *Extractor {
	t.Helper()
	path := os.Getenv("RUNSC")
	if path == "" {
		path = "runsc"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Skipf("NOT TESTED: reading documents in gVisor: there is no %s on this machine (install the package runsc, or set RUNSC)", path)
	}
	backend, err := gvisor.Open(gvisor.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error("closing:", err)
		}
	})
	return opened(t, backend, Config{})
}

// readResult contains everything that was read from a document.
type readResult struct {
	info   document.Info
	blocks []document.Block
	done   []int
	pages  int
	took   time.Duration
	first  time.Duration
}

func read(ctx context.Context, e *Extractor, content []byte, l Limits) (d readResult, err error) {
	began := time.Now()
	d.info, err = e.Read(ctx, Document{Name: "a document", Content: content}, l, func(event document.Event) error {
		if d.first == 0 {
			d.first = time.Since(began)
		}
		switch {
		case event.Pages != nil:
			d.pages = *event.Pages
		case event.Done != nil:
			d.done = append(d.done, *event.Done)
		case event.Block != nil:
			d.blocks = append(d.blocks, *event.Block)
		default:
			return errors.New("an end was readResult as an event")
		}
		return nil
	})
	d.took = time.Since(began)
	return d, err
}

// fails calls Read with a document that Read must reject, and returns the failure.
func fails(t *testing.T, e *Extractor, content []byte, l Limits) *document.Failure {
	t.Helper()
	_, err := read(t.Context(), e, content, l)
	var failure *document.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, not a failure", err)
	}
	return failure
}

func mustShared(tb testing.TB) sandbox.Backend {
	tb.Helper()
	backend, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return backend
}

// watchedBackend is a backend that records the last box that it has started.
type watchedBackend struct {
	sandbox.Backend

	last sandbox.Box
}

// Start starts a command and records its box.
func (w *watchedBackend) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	box, err := w.Backend.Start(ctx, c)
	w.last = box
	return box, err //nolint:wrapcheck // the backend's own error
}
