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

//go:embed parley_*.py
var sources embed.FS

// home is where the sandbox has the runner.
const home = "/parley"

const (
	openWithin    = time.Minute
	readyWithin   = 10 * time.Second
	beginWithin   = 20 * time.Second
	wallGrace     = time.Second
	stopWithin    = time.Second
	collectWithin = 20 * time.Second
)

// ErrClosed is the error of a run after, or during, Close.
var ErrClosed = errors.New("the interpreter is closed")

// Config is what an interpreter is opened with.
type Config struct {
	Limits sandbox.Limits
	Warm   int         // sandboxes that are kept ready
	Path   string      // of the interpreter; "" is /usr/bin/python3
	Report func(error) // is told why a sandbox cannot be kept ready; nil for nobody
}

// Package is something that programs can import, or the interpreter itself as "python".
type Package struct {
	Name, Version string
}

// Interpreter runs programs, each in a sandbox of its own; safe for concurrent use.
type Interpreter struct {
	backend  sandbox.Backend
	limits   sandbox.Limits
	command  sandbox.Command
	packages []Package
	pool     *pool
	ctx      context.Context //nolint:containedctx // the interpreter's life, which ends all runs
	cancel   context.CancelFunc
	ending   sync.WaitGroup // runs, and sandboxes that have done their work

	mu     sync.Mutex
	closed bool
}

// Open tries the backend with a first program, which finds out what there is, and begins to keep sandboxes ready.
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
		return nil, fmt.Errorf("trying the sandbox: %w", err)
	}
	i.pool = newPool(c.Warm, func(ctx context.Context) (*box, error) { return i.start(ctx, true) }, c.Report)
	return i, nil
}

// Packages are Python itself, and the packages that programs can import, by name.
func (i *Interpreter) Packages() []Package {
	return slices.Clone(i.packages)
}

// Close ends all sandboxes; runs under way fail. The backend stays open.
func (i *Interpreter) Close() error {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.cancel()
	i.pool.close()
	i.ending.Wait()
	return nil
}

// enter lets a run begin, unless it is too late for that; i.ending.Done must follow.
func (i *Interpreter) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.ending.Add(1)
	}
	return !i.closed
}

// Run runs a program. An error says that there was no sandbox for it, or that ctx is done.
func (i *Interpreter) Run(ctx context.Context, p Program) (Outcome, error) {
	if err := checkFiles(p.Files); err != nil {
		return Outcome{}, err
	}
	if !i.enter() {
		return Outcome{}, ErrClosed
	}
	defer i.ending.Done()
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("running the program: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // a run has two lives to depend on: the caller's and the interpreter's
	defer context.AfterFunc(i.ctx, func() { cancel(ErrClosed) })()
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

// checkFiles refuses names that no folder could have, and two of which one would have to be a folder.
func checkFiles(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		if !goodName(f.Name) || names[f.Name] {
			return fmt.Errorf("placing files: the name %q cannot be used", f.Name)
		}
		names[f.Name] = true
	}
	for name := range names {
		for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			if names[name[:at]] {
				return fmt.Errorf("placing files: %q cannot be a file and a folder", name[:at])
			}
		}
	}
	return nil
}

// command says how the interpreter is started. Without site, which takes it longer than all the rest; the environment is
// ours alone, and so is what it would import at its start.
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

// readSources returns the runner as it is written.
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
