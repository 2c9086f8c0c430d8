package code

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// ErrNoBubblewrap says that this machine cannot be measured.
var ErrNoBubblewrap = errors.New("bwrap is not installed")

// floor is bubblewrap with the system's Python, and nothing else: no limits, no seccomp filter, no pool.
type floor struct{ path string }

const (
	python = "/usr/bin/python3"
	bare   = "--unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin --cap-drop ALL " +
		"--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev " +
		"--tmpfs /tmp --tmpfs /work --chdir /work"
)

func findFloor() (*floor, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, ErrNoBubblewrap
	}
	return &floor{path: path}, nil
}

// call runs the program, and gives the time up to its first output.
func (f *floor) call(ctx context.Context) (took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, f.path, append(strings.Fields(bare), python, "-c", program)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}
	first := make([]byte, len(answer))
	_, err = io.ReadFull(out, first)
	took = time.Since(began)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}
	if string(first) != answer {
		return 0, fmt.Errorf("bwrap answered %q", first)
	}
	return took, nil
}
