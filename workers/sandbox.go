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

const (
	// These numbers bound the defaults of the settings.
	minSandboxes = 4
	maxWarm      = 8
	maxSandboxed = 10_000 // files and folders of one call
)

// errSandboxOff is the reason why there is no sandbox if the settings disable it. It is a choice
// and is not logged as a failure.
var errSandboxOff = errors.New("SANDBOX is off")

// interpreters lists the possible paths of the system's Python. A Python in a home folder is not visible in a sandbox.
var interpreters = []string{"/usr/bin/python3", "/usr/local/bin/python3"}

// codeRunner runs agents' code in this process.
type codeRunner struct {
	backend     sandbox.Backend
	interpreter *python.Interpreter
}

// openSandbox opens the configured sandbox backend, and never another backend instead. If that
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

// openCodeRunner starts an interpreter that runs programs in the backend's sandboxes. The caller
// still has to close the backend.
func openCodeRunner(backend sandbox.Backend, cfg config.Sandbox, report func(error)) (*codeRunner, error) {
	path, err := findPython()
	if err != nil {
		return nil, err
	}

	interpreter, err := python.Open(backend, python.Config{Limits: sandboxLimits(cfg), Warm: warmSandboxes(cfg), Path: path, Report: report})
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

// openBackend opens the backend of this kind, in which the interpreter at path is visible.
func openBackend(kind, path string) (sandbox.Backend, error) {
	if kind == config.SandboxGVisor {
		return gvisor.Open(gvisor.Config{Python: path})
	}
	return bubblewrap.Open(bubblewrap.Config{Python: path})
}

// isolation contains a process's sandbox backend, which all roles share.
type isolation struct {
	backend sandbox.Backend // nil if no sandbox is available
	none    error           // reason why there is none
	code    *codeRunner     // for the role tool
	noCode  error           // reason why there is none
}

// openIsolation opens the configured sandbox. If code is true, it also opens a code runner.
func openIsolation(cfg config.Sandbox, code bool, report func(error)) *isolation {
	s := &isolation{}
	// Without a backend there can be no code runner, and for the same reason.
	if s.backend, s.none = openSandbox(cfg); s.none != nil {
		s.backend, s.noCode = nil, s.none
		return s
	}
	if code {
		s.code, s.noCode = openCodeRunner(s.backend, cfg, report)
	}
	return s
}

// close ends all sandboxes.
func (s *isolation) close() error {
	var errs []error
	// The interpreter's sandboxes belong to the backend, so the interpreter closes first.
	if s.code != nil {
		errs = append(errs, s.code.interpreter.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	return errors.Join(errs...)
}

// tool returns the backend of codeExecution.
func (r *codeRunner) tool(cfg config.Sandbox) *codeexec.Backend {
	return codeexec.New(r.interpreter, codeexec.Config{Limits: sandboxLimits(cfg), Slots: sandboxSlots(cfg)})
}

// sandboxLimits returns the limits from the settings. A limit of zero is replaced with its default.
func sandboxLimits(cfg config.Sandbox) sandbox.Limits {
	return sandbox.Limits{
		CPU: cmp.Or(cfg.SandboxCPU, config.DefaultSandboxCPU), Wall: cmp.Or(cfg.SandboxWall, config.DefaultSandboxWall),
		Memory: cmp.Or(cfg.SandboxMemory, config.DefaultSandboxMemory), Processes: cmp.Or(cfg.SandboxProcesses, config.DefaultSandboxProcesses),
		Files: cmp.Or(cfg.SandboxFiles, config.DefaultSandboxFiles), FileCount: maxSandboxed,
		Output: cmp.Or(cfg.SandboxOutput, config.DefaultSandboxOutput),
	}
}

// sandboxSlots returns the number of calls that may use sandboxes simultaneously. By default, it is
// twice the number of cores, because calls also wait.
func sandboxSlots(cfg config.Sandbox) int {
	return cmp.Or(cfg.SandboxConcurrency, max(2*runtime.GOMAXPROCS(0), minSandboxes))
}

// warmSandboxes returns the number of sandboxes that are kept ready. A negative setting means one
// for each slot, up to maxWarm, because each uses memory.
func warmSandboxes(cfg config.Sandbox) int {
	if cfg.SandboxWarm < 0 {
		return min(sandboxSlots(cfg), maxWarm)
	}
	return cfg.SandboxWarm
}
