package workers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"

	"parley/shared/config"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/gvisor"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool/codeexec"
)

// minSandboxes is the smallest default of SANDBOX_CONCURRENCY.
const minSandboxes = 4

// Limits of one call. They protect the worker, so they are constants. Calculations, plots and
// tables stay far below these limits. The settings of a call's time and memory determine how much
// work a call can do.
const (
	sandboxedProcesses = 64       // processes and threads; numerical libraries use one thread
	sandboxedFiles     = 64 << 20 // bytes of files, which are in memory in addition to SANDBOX_MEMORY
	sandboxedFileCount = 10_000   // files and folders
	sandboxedOutput    = 1 << 20  // bytes of output; the model receives a part of this
)

// maxWarm is the maximum number of sandboxes that are kept ready. A used sandbox is replaced within
// a second. Each sandbox needs the memory of an idle interpreter.
const maxWarm = 8

// errSandboxOff is the reason for the lack of a sandbox if the settings disable it. A disabled
// sandbox is the operator's choice, so it is not logged as a failure.
var errSandboxOff = errors.New("SANDBOX is off")

// interpreters contains the possible paths of the system's Python. A Python in a home folder is not
// visible in a sandbox.
var interpreters = []string{"/usr/bin/python3", "/usr/local/bin/python3"}

// codeRunner runs agents' code in this process. Both fields are set.
type codeRunner struct {
	backend     sandbox.Backend
	interpreter *python.Interpreter
}

// openSandbox opens the configured sandbox backend. It never opens another backend instead. If it
// fails, the error states the reason in one sentence.
func openSandbox(cfg config.Sandbox) (sandbox.Backend, error) {
	if cfg.SandboxKind == config.SandboxOff {
		return nil, errSandboxOff
	}
	path, err := findPython()
	if err != nil {
		return nil, err
	}
	return openBackend(cfg.SandboxKind, path)
}

// openCodeRunner starts an interpreter that runs programs in the backend's sandboxes, and keeps
// warm sandboxes ready. The caller must close the interpreter and the backend.
func openCodeRunner(backend sandbox.Backend, cfg config.Sandbox, warm int, report func(error)) (*codeRunner, error) {
	path, err := findPython()
	if err != nil {
		return nil, err
	}

	interpreter, err := python.Open(backend, python.Config{Limits: sandboxLimits(cfg), Warm: warm, Path: path, Report: report})
	if err != nil {
		return nil, err
	}
	return &codeRunner{backend: backend, interpreter: interpreter}, nil
}

// findPython returns the path of the first interpreter that exists.
func findPython() (string, error) {
	for _, path := range interpreters {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no Python at %s", interpreters[0])
}

// openBackend opens a backend of the given kind. In its sandboxes, the interpreter at path is
// visible.
func openBackend(kind, path string) (sandbox.Backend, error) {
	if kind == config.SandboxGVisor {
		return gvisor.Open(gvisor.Config{Python: path})
	}
	return bubblewrap.Open(bubblewrap.Config{Python: path})
}

// isolation contains the sandbox backend of a process, which all of its roles share. It does not
// change after openIsolation.
type isolation struct {
	backend sandbox.Backend // nil if there is no sandbox
	none    error           // reason why there is no sandbox; nil if there is one
	code    *codeRunner     // runs code for the role tool; nil if code cannot be run
	noCode  error           // reason why code cannot be run; nil if it can
}

// openIsolation opens the configured sandbox. If code is true, it also opens a code runner, which
// keeps warm sandboxes ready. Failures are recorded in the result. The function report is called
// later if a sandbox cannot be kept ready.
func openIsolation(cfg config.Sandbox, code bool, warm int, report func(error)) *isolation {
	s := &isolation{}
	// Without a backend, there is no code runner either, so both have the same reason.
	if s.backend, s.none = openSandbox(cfg); s.none != nil {
		s.backend, s.noCode = nil, s.none
		return s
	}
	if code {
		s.code, s.noCode = openCodeRunner(s.backend, cfg, warm, report)
	}
	return s
}

// close ends all sandboxes and waits for their end.
func (s *isolation) close() error {
	var errs []error
	// Close the interpreter before the backend, because its sandboxes belong to the backend.
	if s.code != nil {
		errs = append(errs, s.code.interpreter.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	return errors.Join(errs...)
}

// tool returns the implementation of the tool codeExecution.
func (r *codeRunner) tool(cfg config.Sandbox) *codeexec.Backend {
	return codeexec.New(r.interpreter, codeexec.Config{Limits: sandboxLimits(cfg), Slots: sandboxSlots(cfg)})
}

// sandboxLimits returns the limits of a call. It replaces a setting of zero by its default.
func sandboxLimits(cfg config.Sandbox) sandbox.Limits {
	return sandbox.Limits{
		CPU: cmp.Or(cfg.SandboxCPU, config.DefaultSandboxCPU), Wall: cmp.Or(cfg.SandboxWall, config.DefaultSandboxWall),
		Memory:    cmp.Or(cfg.SandboxMemory, config.DefaultSandboxMemory),
		Processes: sandboxedProcesses, Files: sandboxedFiles, FileCount: sandboxedFileCount, Output: sandboxedOutput,
	}
}

// sandboxSlots returns the number of calls that may use sandboxes at the same time. The default is
// twice the number of cores, because a call sometimes waits.
func sandboxSlots(cfg config.Sandbox) int {
	return cmp.Or(cfg.SandboxConcurrency, max(2*runtime.GOMAXPROCS(0), minSandboxes))
}

// warmSandboxes returns the number of sandboxes that are kept ready: one for each slot, but at most
// maxWarm.
func warmSandboxes(cfg config.Sandbox) int { return min(sandboxSlots(cfg), maxWarm) }
