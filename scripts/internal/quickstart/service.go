package quickstart

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/lifecycle/childproc"
	"parley/shared/testkit"
)

// Service is a `parley up` that the tests of a package share.
type Service struct {
	// Credentials are those that `parley up` wrote for scripts.
	Credentials

	process *childproc.Process
}

// Start starts `parley up` with additional environment variables, and returns when it is ready. Its
// output is in the file "output" of the directory dir, and its data in the directory "data". The
// service outlives the test. The service must be stopped even if Start returns an error.
func Start(t *testing.T, program, dir string, environment ...string) (*Service, error) {
	t.Helper()
	s, data := &Service{}, filepath.Join(dir, "data")
	var err error
	s.process, err = childproc.Program{
		Name: "parley", Path: program, Args: []string{"up"}, Log: filepath.Join(dir, "output"),
		Env: slices.Concat(os.Environ(), Environment(data, testkit.FreePort(t)), environment),
	}.Start(t.Context())
	if err != nil {
		return s, err
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !bytes.Contains(s.Output(), []byte(BannerEnd)); <-tick.C {
		if s.process.Ended() || testkit.Late(began, time.Minute) {
			return s, fmt.Errorf("parley is not ready: %w\n%s", s.process.Err(), s.Output())
		}
	}

	s.Credentials, err = ReadCredentials(data)
	return s, err
}

// Output returns everything that the service has printed so far.
func (s *Service) Output() []byte { return s.process.Output() }

// Complaints returns the last 40 warnings and errors in the output, for the message of a failed
// test.
func (s *Service) Complaints() string {
	var lines []string
	for line := range strings.Lines(string(s.Output())) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"level":"warn"`) || strings.Contains(line, "panic") {
			lines = append(lines, line)
		}
	}
	const limit = 40
	return strings.Join(lines[max(0, len(lines)-limit):], "")
}

// Stop stops the service. It kills the service and returns an error if the service does not end in
// time. A nil Service needs no stop.
func (s *Service) Stop() error {
	if s == nil || s.process == nil {
		return nil
	}
	if err := s.process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending parley: %w", err)
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !s.process.Ended(); <-tick.C {
		if testkit.Late(began, 30*time.Second) {
			return errors.Join(errors.New("parley did not end in time"), s.process.Kill()) // also ends the service's PostgreSQL
		}
	}
	return s.process.Err()
}
