package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"parley/workers/internal/sandbox"
)

// tryTime is the time limit of the trial sandbox. A sandbox usually starts and exits in much less
// time.
const tryTime = 20 * time.Second

// try starts the interpreter in a trial sandbox. If that fails, the error states the reason in one
// sentence.
func (b *Backend) try(python string) error {
	// The trial needs the same rights as a later sandbox. So a missing right is found when the
	// worker starts, and not when a program is first run.
	x, err := b.start(context.Background(), sandbox.Command{
		Args:   []string{python, "-I", "-S", "-c", "print('started')"},
		Limits: sandbox.Limits{Memory: 256 << 20, Processes: 16, Files: 1 << 20},
	})
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("bubblewrap needs permission to create namespaces: %w", err)
	}
	if err != nil {
		return err
	}

	late := time.AfterFunc(tryTime, x.Kill)
	defer late.Stop()
	said, _ := io.ReadAll(x.Stdout()) // reading a pipe does not fail
	<-x.Done()

	if string(said) == "started\n" {
		return nil
	}

	// bwrap's first line names the step that failed.
	why, _, _ := strings.Cut(strings.TrimSpace(x.Stderr()), "\n")
	if why == "" {
		why = fmt.Sprintf("%s printed no output (%s)", python, x.cmd.ProcessState)
	}
	return fmt.Errorf("cannot start a sandbox on this machine: %s", strings.TrimSuffix(why, "."))
}
