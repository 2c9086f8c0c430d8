package voicegate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/domain"
)

// Runs is where a connection's turns become runs.
type Runs interface {
	Begin(ctx context.Context, turn realtime.Turn) (Run, error)
	Cancel(ctx context.Context, runID string) error
	SaveHeard(ctx context.Context, runID string, heard domain.Heard) error
}

// Run is a run that is followed. Next gives events as stream.Reader does: valid until the next call, and io.EOF behind the last.
type Run interface {
	ID() string
	Next(ctx context.Context, until time.Time) ([]domain.Event, error)
	Close()
}

// Lines is where lines to voice workers are opened.
type Lines interface {
	Open(ctx context.Context, capability string, body []byte) (*bus.VoiceLine, error)
}

// Signer signs the capabilities of lines.
type Signer interface {
	Sign(claims, body []byte) string
}

// Admission is what a connection was let in with.
type Admission struct {
	Conversation realtime.Settings
	Organization string
	Runs         Runs
	Holds        func(now time.Time) bool        // whether the caller may go on; it may take its time
	Look         func(until time.Time) time.Time // when Holds is to be asked, at the latest until
}

// Config are the limits of a connection; zero is none.
type Config struct {
	MaxDuration time.Duration
	IdleTimeout time.Duration // without speech, a response, or an event other than audio
}

// Deps are what the gate works with; Metrics may be nil.
type Deps struct {
	Lines   Lines
	Signer  Signer
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// times are how long things may take. Tests have others.
type times struct {
	ping, pong time.Duration // between pings, and for the answer to one
	write      time.Duration // of one event
	end        time.Duration // of what is queued, and of the handshake, when a connection is closed
	open       time.Duration // for a worker to be found at first,
	reopen     time.Duration // and when the line was lost
	run        time.Duration // for a run to be begun, cancelled, or told of
	permit     time.Duration // between looks at the permit, at most
}

func usual() times {
	return times{
		ping: 20 * time.Second, pong: 10 * time.Second, write: 10 * time.Second, end: 5 * time.Second,
		open: 5 * time.Second, reopen: 10 * time.Second, run: 15 * time.Second, permit: time.Minute,
	}
}

// Gate serves voice connections.
type Gate struct {
	cfg     Config
	deps    Deps
	times   times
	metrics *metrics

	mu       sync.Mutex
	open     int
	draining chan struct{} // closed: no new connections, and those go that have nothing to say
	cut      chan struct{} // closed: all go
	empty    chan struct{} // closed when the gate drains and none is left
}

// New makes a gate. It fails only when its metrics cannot be registered.
func New(cfg Config, deps Deps) (*Gate, error) {
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering metrics of voice: %w", err)
	}
	return &Gate{
		cfg: cfg, deps: deps, times: usual(), metrics: m,
		draining: make(chan struct{}), cut: make(chan struct{}), empty: make(chan struct{}),
	}, nil
}

// Drain takes no more connections, ends those that are not being answered, the others when they were, all when ctx ends, and
// returns when none is left, or closing them took too long.
func (g *Gate) Drain(ctx context.Context) {
	g.mu.Lock()
	select {
	case <-g.draining:
	default:
		close(g.draining)
		if g.open == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-g.cut:
	default:
		close(g.cut)
	}
	g.mu.Unlock()
	late := time.NewTimer(2 * g.times.end) // what they still have to keep may take longer, if the database is slow
	defer late.Stop()
	select {
	case <-g.empty:
	case <-late.C:
	}
}

func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.draining:
		return false
	default:
		g.open++
		g.metrics.open.Inc()
		return true
	}
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.metrics.open.Dec()
	select {
	case <-g.draining:
		if g.open == 0 {
			close(g.empty)
		}
	default:
	}
}

// Serve makes the request a voice connection, and returns at its end. It gives an error when it has not, and nothing was
// answered yet: coded, for the caller.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, a Admission) error {
	if !g.enter() {
		err := apierr.New(apierr.Unavailable, "the service is stopping; try again")
		err.RetryAfter = time.Second
		return err
	}
	defer g.leave()
	now := time.Now()
	if g.cfg.MaxDuration > 0 {
		a.Conversation.Expires = now.Add(g.cfg.MaxDuration)
	}
	conversation, err := realtime.New(a.Conversation, now)
	if err != nil {
		return err
	}
	taken, from := &hijacked{ResponseWriter: w}, newReader(now)
	socket, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		Subprotocols:    []string{"realtime"},
		CompressionMode: websocket.CompressionDisabled, // base64 of noise: it would cost time and win nothing
		// Which origins may connect depends on the agent: the caller has decided it before.
		InsecureSkipVerify: true,
		OnPingReceived:     from.pinged,
	})
	if err != nil {
		return nil // Accept has answered the request
	}
	socket.SetReadLimit(-1) // the reader has its own: the client is told which
	from.socket = socket
	c := &connection{
		gate: g, a: a, began: now, conversation: conversation, socket: socket, conn: taken.conn, reader: from,
	}
	c.serve(context.WithoutCancel(r.Context())) // it has its own reasons to end
	return nil
}
