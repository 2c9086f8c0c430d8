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

// Runs starts runs for the turns of a connection.
type Runs interface {
	Begin(ctx context.Context, turn realtime.Turn) (Run, error)
	Cancel(ctx context.Context, runID string) error
	SavePlayback(ctx context.Context, runID string, heard domain.Playback) error
}

// Run is a run that is being followed. Next returns events like stream.Reader: they are valid until
// the next call, and io.EOF follows the last.
type Run interface {
	ID() string
	Next(ctx context.Context, until time.Time) ([]domain.Event, error)
	Close()
}

// Lines opens sessions with voice workers.
type Lines interface {
	Open(ctx context.Context, capability string, body []byte) (*bus.VoiceLine, error)
}

// Signer signs the capabilities of voice sessions.
type Signer interface {
	Sign(claims, body []byte) string
}

// Admission contains the decisions about a connection that the caller of Serve has made.
type Admission struct {
	Conversation realtime.Settings
	Organization string
	Runs         Runs
	Holds        func(now time.Time) bool        // whether the caller may continue; may be slow
	Look         func(until time.Time) time.Time // the time of the next call of Holds, not after until
}

// Config contains the limits of a connection. Zero means no limit.
type Config struct {
	MaxDuration time.Duration
	IdleTimeout time.Duration // maximum time without speech, a response, or an event other than audio
}

// Deps are the gate's dependencies. Metrics may be nil.
type Deps struct {
	Lines   Lines
	Signer  Signer
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// times are timeouts and intervals. Tests use other values.
type times struct {
	ping, pong time.Duration // interval between pings, and timeout for the response
	write      time.Duration // timeout for writing one event
	end        time.Duration // timeout for the rest of the queue, and for the close handshake
	open       time.Duration // timeout for finding the first worker
	reopen     time.Duration // timeout for finding another worker
	run        time.Duration // timeout for starting, cancelling or following a run
	permit     time.Duration // maximum interval between checks of the permit
}

// usual returns the timeouts of production.
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
	open     int           // number of connections
	draining chan struct{} // when closed, new connections are rejected and silent ones end
	cut      chan struct{} // closed: all connections end
	empty    chan struct{} // closed when the gate drains and no connection is left
}

// New returns a gate. It fails only if its metrics cannot be registered.
func New(cfg Config, deps Deps) (*Gate, error) {
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering voice metrics: %w", err)
	}
	return &Gate{
		cfg: cfg, deps: deps, times: usual(), metrics: m,
		draining: make(chan struct{}), cut: make(chan struct{}), empty: make(chan struct{}),
	}, nil
}

// Drain rejects new connections and ends the open ones: silent connections immediately, others
// after the answer in progress, and all remaining connections when ctx ends. It returns when no
// connection is left, or when closing them takes too long.
func (g *Gate) Drain(ctx context.Context) {
	// The first call begins to drain. Later calls wait as well.
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
	late := time.NewTimer(2 * g.times.end) // storing the playback position takes longer if the database is slow
	defer late.Stop()
	select {
	case <-g.empty:
	case <-late.C:
	}
}

// enter counts a connection. It returns false if the gate drains.
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

// leave reverses enter. The last connection to leave a draining gate ends Drain.
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

// Serve turns the request into a voice connection and returns when the connection ends. If it
// returns an error (which has an error code), nothing was written to the response.
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

	// The settings are checked before the upgrade, because an error can still be an HTTP response.
	conversation, err := realtime.New(a.Conversation, now)
	if err != nil {
		return err
	}

	// The library closes a connection when a context ends. So the connection's deadlines are set on
	// the hijacked connection itself.
	taken, from := &hijacked{ResponseWriter: w}, newReader(now)
	socket, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		Subprotocols:    []string{"realtime"},
		CompressionMode: websocket.CompressionDisabled, // base64 of noise does not compress
		// The allowed origins depend on the agent; the caller has checked them.
		InsecureSkipVerify: true,
		OnPingReceived:     from.pinged,
	})
	if err != nil {
		return nil // Accept has sent the response
	}

	socket.SetReadLimit(-1) // the reader has its own limit, and reports it to the client
	from.socket = socket
	c := &connection{
		gate: g, a: a, began: now, conversation: conversation, socket: socket, conn: taken.conn, reader: from,
	}
	c.serve(context.WithoutCancel(r.Context())) // the connection ends for its own reasons, not with this context
	return nil
}
