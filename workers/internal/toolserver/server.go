package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/lease"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/configs"
	"parley/workers/internal/tool"
)

const drainTime = 20 * time.Second // time in which running calls may finish at shutdown; afterwards they are cancelled

// Bus delivers tool calls and cancellations of runs.
type Bus interface {
	// ServeTool passes each call to the function handle. If handle returns false, the call is
	// rejected. The result stop is a function that waits for running calls until the context of
	// stop ends.
	ServeTool(
		kind string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
	OnCancelled(f func(runID string)) (stop func(), err error)
}

// Records reads the agents' configurations.
type Records interface {
	Config(ctx context.Context, org, targetID string, version int) (domain.Config, error)
}

// Sources stores the texts that are read during calls.
type Sources interface {
	// KeepSource stores a text. If the run no longer belongs to this worker, kept is false and
	// nothing is stored.
	KeepSource(ctx context.Context, held lease.Held, source domain.Source) (id string, kept bool, err error)
}

// Files stores the files that calls create.
type Files interface {
	KeepFiles(
		ctx context.Context, held lease.Held, callID string, made []blobdb.NewFile, removed []string, limit int64,
	) (files []domain.File, kept bool, err error)

	// SessionFiles returns the files of the session without those of the call itself. The result
	// known is false if another worker has taken over the run.
	SessionFiles(ctx context.Context, held lease.Held, callID string) (files []domain.File, known bool, err error)
	OpenFile(ctx context.Context, org, id string) (domain.File, io.ReadSeekCloser, error)

	// FileContents returns the contents of files, in the order of ids. Each file may have at most
	// blobdb.SmallFile bytes.
	FileContents(ctx context.Context, org string, ids []string) ([][]byte, error)
}

// Documents reads documents of organizations, and records which documents a run has received.
type Documents interface {
	// GiveDocuments records that the run receives the documents. The result given omits documents
	// that are deleted or not ready. The result kept is false if another worker has taken over the
	// run.
	GiveDocuments(ctx context.Context, held lease.Held, documentIDs []string) (given []string, kept bool, err error)

	// DocumentByID and OpenDocument return a not_found error if the id is unknown.
	DocumentByID(ctx context.Context, org, id string) (domain.Document, error)
	OpenDocument(ctx context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error)
}

// Ledger is the effect ledger, which records the state of calls with a side effect.
type Ledger interface {
	// BeginSend changes the state of a ready entry to sending. It returns true at most once for
	// each ready entry, and only under the current fence. sender identifies the execution of the
	// call.
	BeginSend(ctx context.Context, held lease.Held, callID, sender string) (bool, error)

	// EndSend records the outcome of a call. It returns false if another attempt or a person has
	// decided about the entry in the meantime.
	EndSend(ctx context.Context, held lease.Held, callID string, outcome []byte) (bool, error)

	// CancelSend makes an entry ready again. It is needed if the result of BeginSend is unknown;
	// sender must be the value that BeginSend has received.
	CancelSend(ctx context.Context, held lease.Held, callID, sender string) (bool, error)
}

// Verifier verifies that a capability was signed together with a body, and returns its claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Config contains a tool server's settings.
type Config struct {
	Concurrency int // number of calls of each kind that are executed simultaneously, unless the backend sets another number
	// FilesPerOrganization is the maximum size of an organization's files in bytes; 0 means no
	// limit.
	FilesPerOrganization int64
}

// Deps are a tool server's dependencies.
type Deps struct {
	Bus       Bus
	Records   Records
	Sources   Sources
	Files     Files
	Documents Documents
	Ledger    Ledger
	Verifier  Verifier
	Backends  []tool.Backend  // at most one backend of each kind
	Tracer    *tracing.Tracer // if nil, calls are not traced
	Metrics   prometheus.Registerer
	Log       zerolog.Logger
}

// Server executes tool calls. Create it with New and start it with Run.
type Server struct {
	cfg     Config
	deps    Deps
	configs *configs.Cache
	metrics *metrics
	log     zerolog.Logger

	mu    sync.Mutex
	calls map[string]map[*call]struct{} // running calls by run
}

// New creates a tool server.
func New(cfg Config, deps Deps) (*Server, error) {
	// Two backends of the same kind would share a queue, so a call could reach either of them.
	kinds := map[string]bool{}
	for _, b := range deps.Backends {
		if kinds[b.Kind()] {
			return nil, fmt.Errorf("setting up tools: duplicate backend for %s", b.Kind())
		}
		kinds[b.Kind()] = true
	}

	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}

	return &Server{
		cfg: cfg, deps: deps, metrics: m, log: deps.Log, calls: map[string]map[*call]struct{}{},
		configs: configs.New(deps.Records),
	}, nil
}

// Run executes calls until ctx ends. It then waits up to drainTime for running calls, and cancels
// the calls that remain.
func (s *Server) Run(ctx context.Context) error {
	// The subscription begins before the first call, so that no cancellation is missed.
	stopCancelled, err := s.deps.Bus.OnCancelled(s.cancelRun)
	if err != nil {
		return fmt.Errorf("receiving cancellations: %w", err)
	}
	defer stopCancelled()

	// If a later kind cannot be served, the deferred function stops the earlier kinds as well.
	var stops []func(context.Context)
	defer func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		var all sync.WaitGroup
		for _, stop := range stops {
			all.Go(func() { stop(drain) })
		}
		all.Wait()
	}()

	var kinds []string
	for _, backend := range s.deps.Backends {
		kind := backend.Kind()
		// Each kind of call has its own slots, so slow calls of one kind do not delay the others.
		stop, err := s.deps.Bus.ServeTool(kind, s.serving(backend), func(ctx context.Context, m bus.ToolMessage) ([]byte, bool) {
			return s.handle(ctx, backend, m)
		})
		if err != nil {
			return fmt.Errorf("serving tools: %w", err)
		}
		stops = append(stops, stop)
		kinds = append(kinds, kind)
	}

	s.log.Info().Strs("tools", kinds).Int("concurrency", s.cfg.Concurrency).Msg("tool worker ready")
	<-ctx.Done()
	return nil
}

// selfLimited is implemented by backends that determine how many calls are executed simultaneously,
// and how many may wait.
type selfLimited interface {
	Serving() (slots, queue int)
}

// serving returns how many calls of a backend this worker executes simultaneously, and how many may
// wait.
func (s *Server) serving(backend tool.Backend) bus.ToolOptions {
	kind := backend.Kind()
	serving := bus.ToolOptions{
		Slots: s.cfg.Concurrency, Queue: max(s.cfg.Concurrency/4, 2), Owner: s.owner(kind), Observe: s.metrics.inHand(kind),
	}
	if l, ok := backend.(selfLimited); ok {
		// A backend may limit its calls itself. For example, code execution is limited by the
		// number of sandboxes.
		serving.Slots, serving.Queue = l.Serving()
	}
	return serving
}

// owner returns a function that returns the organization of a call, or false if the call has no
// valid capability.
func (s *Server) owner(kind string) func(bus.ToolMessage) (string, bool) {
	return func(m bus.ToolMessage) (string, bool) {
		c, _, err := s.verify(kind, m)
		if err != nil {
			s.refuse(kind, err)
		}
		return c.OrganizationID, err == nil
	}
}

// refuse counts and logs a call without a valid capability. If the capability has expired, the log
// message suggests checking the clocks of the hosts.
func (s *Server) refuse(kind string, err error) {
	s.metrics.refused(kind)
	log := s.log.Warn().Err(err).Str("tool", kind)
	if errors.Is(err, errExpired) {
		log.Msg("tool call rejected: it arrived too late; check that the clocks of all hosts are synchronized")
		return
	}
	log.Msg("tool call rejected")
}

// track registers a call, so that it is cancelled together with its run. The result done must be
// called when the call has finished.
func (s *Server) track(c *call) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := c.capability.RunID
	// A run may have several calls at the same time.
	if s.calls[run] == nil {
		s.calls[run] = map[*call]struct{}{}
	}
	s.calls[run][c] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.calls[run], c); len(s.calls[run]) == 0 {
			delete(s.calls, run)
		}
	}
}

// cancelRun cancels all calls of a run. It does not wait until they have ended.
func (s *Server) cancelRun(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A cancelled call still records its outcome in the ledger; see call.write.
	for c := range s.calls[runID] {
		c.cancel()
	}
}
