package code

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
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

// call runs the program; what is timed is up to its end, as the other sides' calls are.
func (f *floor) call(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, f.path, append(strings.Fields(bare), python, "-c", program)...).Output()
	if err != nil {
		return fmt.Errorf("running bwrap: %w", err)
	}
	if strings.TrimSpace(string(out)) != answer {
		return fmt.Errorf("bwrap answered %q", out)
	}
	return nil
}
