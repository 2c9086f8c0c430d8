package pdf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"parley/workers/internal/document"
)

// complaintSize is the number of bytes of a program's standard error that are kept.
const complaintSize = 16 << 10

// program is a running program of poppler or tesseract. Its output is read from stdout.
type program struct {
	// The field said is the beginning of the standard error of the command cmd.
	cmd    *exec.Cmd
	stdout io.Reader
	said   complaint
}

// complaint keeps the beginning of a program's standard error.
type complaint struct{ kept bytes.Buffer }

// Write accepts all bytes but keeps only the first complaintSize bytes.
func (c *complaint) Write(p []byte) (int, error) {
	c.kept.Write(p[:min(len(p), complaintSize-c.kept.Len())])
	return len(p), nil
}

// start starts a program. The variables in the argument env are added to the environment of this
// process. The program is killed when ctx ends. The caller must read stdout to its end and then
// call finish, or call abandon.
//
// If the program is not installed, start fails with the code internal and a message for the
// operator.
func start(ctx context.Context, env []string, name string, args ...string) (*program, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		why := fmt.Sprintf("PDFs cannot be read: %s is missing. Install poppler-utils on the workers' hosts.", name)
		return nil, &document.Failure{Code: document.Internal, Message: why}
	}

	p := &program{cmd: exec.CommandContext(ctx, path, args...)}
	p.cmd.Stderr = &p.said
	p.cmd.Env = append(p.cmd.Environ(), env...)
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}

	if err := startWithinLimit(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// output runs a program and returns its output, truncated to the number of bytes in the argument
// maximum. The variables in the argument env are added to the environment. The error is nil only if
// the program succeeded.
func output(ctx context.Context, maximum int64, env []string, name string, args ...string) ([]byte, error) {
	p, err := start(ctx, env, name, args...)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(p.stdout, maximum))
	// The program would block if its output were not read.
	if err == nil {
		_, err = io.Copy(io.Discard, p.stdout)
	}
	return text, errors.Join(err, p.finish())
}

// finish waits until the program has exited. If the program could not read the document, finish
// returns the reason as a *document.Failure. The method finish must be called exactly once, after
// stdout was read.
func (p *program) finish() error {
	err := p.cmd.Wait()
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("waiting for %s: %w", p.cmd.Path, err)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	return explain(status, p.said.kept.String())
}

// damaged reports whether poppler found the file damaged and repaired it as far as possible.
func (p *program) damaged() bool {
	return strings.Contains(p.said.kept.String(), "Syntax Error")
}

// Exit codes of poppler's programs.
const (
	exitPermission = 3
)

// These failures state why a program failed. The messages are for the person who uploaded the
// document.
var (
	errEncrypted = &document.Failure{
		Code: document.Encrypted, Message: "The PDF is protected by a password. Send the PDF without a password.",
	}
	errForbidden = &document.Failure{
		Code: document.Encrypted, Message: "The PDF does not permit copying its text. Send it without that protection.",
	}
	errDamaged = &document.Failure{
		Code: document.Damaged, Message: "The PDF is damaged: its pages cannot be found.",
	}
	errCrashed = &document.Failure{
		Code: document.Damaged, Message: "The PDF is damaged in a way that makes its reader crash.",
	}
	errMemory = &document.Failure{
		Code: document.LimitReached, Message: "Reading the PDF exceeded the memory limit.",
	}
	errCPU = &document.Failure{
		Code: document.LimitReached, Message: "Reading the PDF exceeded the CPU time limit.",
	}
	errFiles = &document.Failure{
		Code: document.LimitReached, Message: "Reading the PDF exceeded the limit of temporary files.",
	}
)

// explain returns the failure for a program that did not succeed. The argument said is the
// program's standard error. The signal is examined first, because the kernel ends programs that
// exceed limits with signals.
func explain(status syscall.WaitStatus, said string) *document.Failure {
	if status.Signaled() {
		switch status.Signal() { //nolint:exhaustive // any other signal is a crash
		case syscall.SIGXCPU:
			return errCPU
		case syscall.SIGXFSZ:
			return errFiles
		case syscall.SIGKILL: // only the kernel sends SIGKILL: if memory is exhausted, or if the CPU limit is far exceeded
			return errMemory
		case syscall.SIGABRT:
			if outOfMemory(said) {
				return errMemory
			}
		}
		return errCrashed
	}

	switch {
	case strings.Contains(said, "Incorrect password"):
		return errEncrypted
	case outOfMemory(said):
		return errMemory
	case status.ExitStatus() == exitPermission:
		return errForbidden
	default: // exit status 1 means that the file cannot be opened; any other status means that it has no pages
		return errDamaged
	}
}

// outOfMemory reports whether a program's standard error says that it could not allocate memory.
func outOfMemory(said string) bool {
	return strings.Contains(said, "Out of memory") || strings.Contains(said, "bad_alloc") || strings.Contains(said, "cannot allocate memory")
}
