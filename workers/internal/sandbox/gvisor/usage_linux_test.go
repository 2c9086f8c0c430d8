package gvisor

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
)

// takesAll is a program that waits for a line of input and then allocates memory in small pieces.
const takesAll = `input()
kept = []
while True:
    kept.append(b"x" * 10_000)`

// limited returns a sandbox that is limited by cgroups and in which the program takesAll waits for
// its input. If runsc is "", limited uses the installed runsc.
func limited(t *testing.T, runsc string) *box {
	t.Helper()
	groups, err := cgroup.Open()
	if err != nil {
		t.Skipf("NOT TESTED: what the kernel limits: %v", err)
	}
	b, err := open(Config{Runsc: runsc, Folder: t.TempDir()}, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error("closing:", err)
		}
	})
	started, err := b.Start(t.Context(), sandbox.Command{
		Args: []string{"/usr/bin/python3", "-I", "-S", "-u", "-c", "print('ready')\n" + takesAll}, Limits: limits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ready := make([]byte, 6); !readsFull(started.Stdout(), ready) {
		t.Fatalf("the sandbox does not start: %s", started.Stderr())
	}
	x, ok := started.(*box)
	if !ok {
		t.Fatalf("the sandbox is a %T", started)
	}
	return x
}

func readsFull(r io.Reader, into []byte) bool {
	_, err := io.ReadFull(r, into)
	return err == nil
}

// endsForWantOfMemory lets the program use up its memory. It reads the usage repeatedly until the
// sandbox has ended, and once more. Each read must succeed.
func endsForWantOfMemory(t *testing.T, x *box) {
	t.Helper()
	late := time.AfterFunc(time.Minute, x.Kill)
	if _, err := io.WriteString(x.Stdin(), "\n"); err != nil {
		t.Fatal(err)
	}
	var askers sync.WaitGroup
	for range 3 {
		askers.Go(func() {
			known := sandbox.Usage{}
			for ended := false; !ended; {
				select {
				case <-x.Done():
					ended = true // read once more after the end
				default:
				}
				u, err := x.Usage()
				if err != nil || u.CPU < known.CPU || known.OutOfMem && !u.OutOfMem {
					t.Errorf("usage after %+v = %+v, %v", known, u, err)
					return
				}
				known = u
			}
			if !known.OutOfMem || known.CPU == 0 {
				t.Errorf("usage after the end = %+v", known)
			}
		})
	}
	askers.Wait()
	if !late.Stop() {
		t.Error("the sandbox did not end within a minute")
	}
}

func TestUsageUpToTheEnd(t *testing.T) {
	t.Parallel()
	needRunsc(t)
	endsForWantOfMemory(t, limited(t, ""))
}

// TestUsageWhenRunscIsEnded makes the kernel kill runsc, the first process of the sandbox's
// namespace, when memory is used up.
func TestUsageWhenRunscIsEnded(t *testing.T) {
	t.Parallel()
	needRunsc(t)
	runsc, err := findTool("")
	if err != nil {
		t.Fatal(err)
	}
	// The kernel must not kill another process of the sandbox first.
	later := filepath.Join(t.TempDir(), "runsc")
	writeProgram(t, later, strings.NewReader(`#!/bin/sh
for option; do case $option in -bundle=*)
	/usr/bin/sed -i 's/"oomScoreAdj":`+strconv.Itoa(oomScore)+`/"oomScoreAdj":0/' "${option#-bundle=}/config.json" ;;
esac; done
exec '`+runsc.path+`' "$@"
`))
	x := limited(t, later)
	<-x.found
	score := filepath.Join("/proc", strconv.Itoa(x.first.Pid), "oom_score_adj")
	if err := os.WriteFile(score, []byte(strconv.Itoa(oomScore)), 0); err != nil {
		t.Fatal(err)
	}
	endsForWantOfMemory(t, x)
}
