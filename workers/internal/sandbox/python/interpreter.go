package python

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/workers/internal/sandbox"
)

// sources contains the runner and the first program, which are part of this binary.
//
//go:embed parley_*.py
var sources embed.FS

// home is the folder that contains the runner in the sandbox.
const home = "/parley"

const (
	// openWithin is the time limit of Open, including the run of the first program.
	openWithin    = time.Minute
	readyWithin   = 10 * time.Second // time limit for the start of the interpreter
	beginWithin   = 20 * time.Second // time limit from sending a program until the program begins, including the start of a sandbox
	wallGrace     = time.Second      // time between the wall limit, which the runner enforces, and the moment when the box is killed
	stopWithin    = time.Second      // time limit for the runner to stop a program that has exceeded a limit
	collectWithin = 20 * time.Second // time limit for sending the files after the program has ended
)

// ErrClosed is the error of a run that is started after Close or is in progress during Close.
var ErrClosed = errors.New("the interpreter is closed")

// Config configures an Interpreter. Limits applies to each program.
type Config struct {
	Limits sandbox.Limits
	Warm   int         // number of sandboxes to keep ready
	Path   string      // path of the interpreter; "": /usr/bin/python3
	Report func(error) // called with the reason if a sandbox cannot be kept ready; may be nil
}

// Package is a package that programs can import, or the interpreter itself, whose name is "python".
type Package struct {
	Name, Version string
}

// Interpreter runs programs, each in its own sandbox. It is safe for concurrent use. A worker has
// at most one Interpreter; Close must be called at the end.
type Interpreter struct {
	// backend creates the sandboxes, and command starts the runner in each of them.
	backend  sandbox.Backend
	limits   sandbox.Limits
	command  sandbox.Command
	packages []Package
	// pool contains the sandboxes that are ready.
	pool   *pool
	ctx    context.Context //nolint:containedctx // lifetime of the interpreter; all runs end with it
	cancel context.CancelFunc
	active sync.WaitGroup // runs in progress, and sandboxes that are being removed

	// mu protects closed. After closed is set, no run begins.
	mu     sync.Mutex
	closed bool
}

// Open starts an interpreter. It runs a first program, which tests the backend and finds the
// available packages, and then begins to keep sandboxes ready. It takes up to openWithin. If it
// fails, no sandbox is left, and the error names the cause for the operator.
func Open(backend sandbox.Backend, c Config) (*Interpreter, error) {
	if c.Path == "" {
		c.Path = "/usr/bin/python3"
	}
	if c.Report == nil {
		c.Report = func(error) {}
	}
	i := &Interpreter{backend: backend, limits: c.Limits}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	if err := i.probe(c.Path); err != nil {
		i.cancel()
		return nil, fmt.Errorf("testing the sandbox: %w", err)
	}
	i.pool = newPool(c.Warm, func(ctx context.Context) (*box, error) { return i.start(ctx, true) }, c.Report)
	return i, nil
}

// Packages returns the versions of Python and of the packages that programs can import, sorted by
// name.
func (i *Interpreter) Packages() []Package {
	return slices.Clone(i.packages)
}

// Close ends all sandboxes and waits for their end. Runs in progress fail with ErrClosed. The
// backend stays open.
func (i *Interpreter) Close() error {
	// No run can begin after closed is set, so the counter active can only decrease.
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.cancel()
	i.pool.close()
	i.active.Wait()
	return nil
}

// enter registers a run. It returns false after Close. If it returns true, the caller must call
// i.active.Done when the run has ended.
func (i *Interpreter) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.active.Add(1)
	}
	return !i.closed
}

// Run runs a program in a sandbox of its own. A program that fails or exceeds a limit has an
// outcome; see Outcome. Run fails if the names of its files are invalid, if no sandbox is
// available, or if ctx is done. After Close it fails with ErrClosed.
//
// A program is started at most once: another sandbox is used only if the program has certainly not
// begun.
func (i *Interpreter) Run(ctx context.Context, p Program) (Outcome, error) {
	if err := checkFiles(p.Files); err != nil {
		return Outcome{}, err
	}
	if !i.enter() {
		return Outcome{}, ErrClosed
	}
	defer i.active.Done()
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("running the program: %w", context.Cause(ctx))
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // a run depends on two contexts: the caller's and the interpreter's
	defer context.AfterFunc(i.ctx, func() { cancel(ErrClosed) })()

	// A sandbox that was kept ready may have been lost unnoticed. If the program has not begun, a
	// new sandbox is tried once.
	if b := i.pool.take(); b != nil {
		outcome, err := i.exchange(ctx, b, p)
		if !errors.Is(err, errNotBegun) || ctx.Err() != nil {
			return outcome, err
		}
	}

	b, err := i.start(ctx, false)
	if err != nil {
		return Outcome{}, err
	}
	return i.exchange(ctx, b, p)
}

// checkFiles returns an error if a file's name is invalid or repeated, or if a folder of the same
// name contains another file.
func checkFiles(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		if !validName(f.Name) || names[f.Name] {
			return fmt.Errorf("placing files: the name %q cannot be used", f.Name)
		}
		names[f.Name] = true
	}

	// No parent folder of a file may be a file itself.
	for name := range names {
		for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			if names[name[:at]] {
				return fmt.Errorf("placing files: %q cannot be a file and a folder", name[:at])
			}
		}
	}
	return nil
}

// command returns the command that starts the interpreter at path. runner is the name of the
// runner's file in the folder home, and data contains the files of this folder. The command
// disables Python's site module, which takes most of the start time. The environment contains only
// the variables listed here, so no other variable affects the imports at the start.
func command(path, runner string, limits sandbox.Limits, data []sandbox.Data) sandbox.Command {
	return sandbox.Command{
		Args: []string{path, "-s", "-S", "-B", "-X", "utf8", home + "/" + runner},
		Env: []string{
			"HOME=/tmp", "TMPDIR=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "USER=user", "TERM=dumb",
			"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "MPLBACKEND=Agg", "MPLCONFIGDIR=/tmp/.matplotlib",
			"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
		},
		Data:   data,
		Limits: limits,
	}
}

// readSources returns the runner's source files, including the first program.
func readSources() ([]File, error) {
	names, err := fs.Glob(sources, "parley_*.py")
	if err != nil {
		return nil, fmt.Errorf("finding the runner: %w", err)
	}
	files := make([]File, 0, len(names))
	for _, name := range names {
		content, err := sources.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the runner: %w", err)
		}
		files = append(files, File{Name: name, Content: content})
	}
	return files, nil
}
