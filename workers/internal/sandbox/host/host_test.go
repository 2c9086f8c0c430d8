package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOutputIsThereAfterTheEnd(t *testing.T) {
	t.Parallel()
	reading, writing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := NewOutput(reading)
	if _, err := writing.WriteString("first" + strings.Repeat("x", 5000)); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if n, err := o.Read(first); err != nil || string(first[:n]) != "first" {
		t.Errorf("%q, %v", first[:n], err)
	}
	if err := writing.Close(); err != nil {
		t.Fatal(err)
	}
	o.Drain()
	if _, err := reading.Read(first); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the pipe is open still: %v", err)
	}
	o.Drain() // a second call has no effect
	if rest, err := io.ReadAll(o); err != nil || string(rest) != strings.Repeat("x", 5000) {
		t.Errorf("%d bytes are left, %v", len(rest), err)
	}
}

func TestOutputIsClosedAtItsEnd(t *testing.T) {
	t.Parallel()
	reading, writing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writing.Close(); err != nil {
		t.Fatal(err)
	}
	o := NewOutput(reading)
	for range 2 {
		if n, err := o.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, err := reading.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the pipe is open still: %v", err)
	}
}

func TestHeadIsTheBeginning(t *testing.T) {
	t.Parallel()
	var h Head
	for _, part := range []string{"\xffbegin", strings.Repeat("y", headSize), "lost"} {
		if n, err := h.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("of %d bytes %d are taken, %v", len(part), n, err)
		}
	}
	if got := h.String(); !strings.HasPrefix(got, "\uFFFDbeginyyy") || len(got) != headSize+2 || strings.Contains(got, "lost") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

func TestThreadEnds(t *testing.T) {
	t.Parallel()
	thread := NewThread()
	wrong := errors.New("wrong")
	if err := thread.Do(t.Context(), func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := thread.Do(ended, func() error { return errors.New("it was run") }); !errors.Is(err, context.Canceled) {
		t.Errorf("ctx has ended: %v", err)
	}
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = thread.Do(context.Background(), func() error { //nolint:usetesting // it ends before the test does
			close(busy)
			<-free
			return nil
		})
	}()
	<-busy
	waiting, stop := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- thread.Do(waiting, func() error { return errors.New("it was run") }) }()
	stop()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("Do after ctx was canceled = %v", err)
	}
	close(free)
	thread.End()
	thread.End() // a second call has no effect
}

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	systems, local := Folders("/usr/bin/python3"), Folders("/usr/local/bin/python3.14")
	if slices.Contains(systems, "/usr/local/lib") || slices.Contains(systems, "/usr/local/bin") {
		t.Errorf("for the system's interpreter: %v", systems)
	}
	if !slices.Contains(local, "/usr/local/lib") || !slices.Contains(local, "/usr/local/bin") {
		t.Errorf("for one of /usr/local: %v", local)
	}
	all := slices.Concat(local, OuterLinks, Files)
	for _, d := range GeneratedFiles {
		all = append(all, d.Path)
	}
	for i, path := range all {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			t.Errorf("%q is no clean absolute path", path)
		}
		for j, other := range all {
			if i != j && (path == other || strings.HasPrefix(path, other+"/")) {
				t.Errorf("%s lies in %s", path, other)
			}
		}
	}
	if got, want := string(GeneratedFiles[0].Content), fmt.Sprintf("sandbox:x:%d:%d::/work:/bin/sh\n", User, User); got != want {
		t.Errorf("the user is %q", got)
	}
}
