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

// Runs is the interface through which a connection starts the runs of its turns. Package
// httpapi/voice implements it for one client. Each call may take as long as its context allows.
// Errors that the client may see are *apierr.Error.
type Runs interface {
	// Begin starts a run and returns it; the caller must close it.
	Begin(ctx context.Context, turn realtime.Turn) (Run, error)
	// Cancel cancels a run. It returns nil if the run has already finished.
	Cancel(ctx context.Context, runID string) error
	// SavePlayback stores how much of an answer was played.
	SavePlayback(ctx context.Context, runID string, heard domain.Playback) error
}

// Run is a run that is being followed. Its method Next works like that of stream.Reader: the events
// are valid until the next call, and after the last event it returns io.EOF. Close must be called
// once, after the last call of Next.
type Run interface {
	ID() string
	Next(ctx context.Context, until time.Time) ([]domain.Event, error)
	Close()
}

// Sessions is the interface through which a connection opens sessions with voice workers. Package
// bus implements it. The caller closes the session.
type Sessions interface {
	Open(ctx context.Context, capability string, body []byte) (*bus.VoiceSession, error)
}

// Signer signs the capabilities that authorize voice sessions.
type Signer interface {
	Sign(claims, body []byte) string
}

// Admission contains what the caller of Serve has decided about a connection. It is used for one
// connection. If Holds or Look is nil, the permission is not checked again.
type Admission struct {
	// Settings for the conversation; the gate sets Expires.
	Conversation realtime.Settings
	// ID of the organization.
	Organization string
	// Starts the runs of this client.
	Runs  Runs
	Holds func(now time.Time) bool        // reports whether the caller may still use the connection; may be slow
	Look  func(until time.Time) time.Time // returns when Holds must be called next, which is not after the given time
}

// Config contains the limits of a connection. Zero means no limit. The gate uses the same values
// for all connections.
type Config struct {
	// Maximum duration of a connection.
	MaxDuration time.Duration
	IdleTimeout time.Duration // maximum time without speech, without a response and without an event other than audio
}

// Deps are the dependencies of a gate. Metrics may be nil. The gate closes none of them.
type Deps struct {
	Sessions Sessions
	Signer   Signer
	Log      zerolog.Logger
	Metrics  prometheus.Registerer
}

// times contains the timeouts and intervals of a gate. Tests use shorter ones.
type times struct {
	ping, pong time.Duration // interval between pings, and timeout for the response
	write      time.Duration // timeout for writing one event to the client
	end        time.Duration // timeout for sending the queued events, and for the close handshake
	open       time.Duration // timeout for finding the first worker
	reopen     time.Duration // timeout for finding another worker
	run        time.Duration // timeout for starting, cancelling or following a run
	permit     time.Duration // maximum interval between calls of Admission.Holds
}

// usual returns the timeouts and intervals of the service.
func usual() times {
	return times{
		ping: 20 * time.Second, pong: 10 * time.Second, write: 10 * time.Second, end: 5 * time.Second,
		open: 5 * time.Second, reopen: 10 * time.Second, run: 15 * time.Second, permit: time.Minute,
	}
}

// Gate serves voice connections. It is safe for concurrent use. A process uses a single gate. The
// gate counts its connections, because Drain waits until all have ended.
type Gate struct {
	cfg     Config
	deps    Deps
	times   times
	metrics *metrics

	mu       sync.Mutex
	open     int           // number of open connections
	draining chan struct{} // closed when the gate drains; the gate then rejects new connections and ends those without speech or answer
	cut      chan struct{} // closed when all connections must end
	empty    chan struct{} // closed when the gate drains and no connection is left
}

// New returns a gate. It returns an error only if its metrics cannot be registered. It starts no
// goroutine.
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

// Drain rejects new connections and ends the open ones. Connections without speech or an answer in
// progress end immediately, and others after the answer. When ctx ends, all remaining connections
// end. Drain returns when all connections have ended, or when closing them takes too long. It may
// be called several times. The gate cannot be used afterwards.
func (g *Gate) Drain(ctx context.Context) {
	// The first call begins to drain. Every call waits.
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
	late := time.NewTimer(2 * g.times.end) // twice the usual time, because storing the playback position may be slow
	defer late.Stop()
	select {
	case <-g.empty:
	case <-late.C:
	}
}

// enter counts a new connection. It returns false if the gate drains. Every successful call needs a
// call of leave.
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

// leave reverses enter. When the last connection leaves a draining gate, Drain returns.
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

// Serve upgrades the request to a voice connection and serves the connection. It returns when the
// connection has ended. If it returns an error, the error is coded and nothing was written to the
// response. The caller has authenticated the client and checked the origin. The connection outlives
// the context of the request, and ends with Drain, with the client, or by a limit of the
// configuration. If Accept rejects the request, it has already sent the error, so the result is
// nil.
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

	// The settings are checked before the upgrade, because an error can then still be an HTTP
	// response.
	conversation, err := realtime.New(a.Conversation, now)
	if err != nil {
		return err
	}

	// The library closes a connection when the context of a call ends. Instead of contexts with
	// deadlines, the gate therefore sets deadlines on the hijacked connection.
	taken, from := &hijacked{ResponseWriter: w}, newReader(now)
	socket, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		Subprotocols:    []string{"realtime"},
		CompressionMode: websocket.CompressionDisabled, // base64 of audio does not compress well, so compression would waste CPU
		// The library must accept all origins: the allowed ones depend on the agent, and the caller
		// has checked them.
		InsecureSkipVerify: true,
		OnPingReceived:     from.pinged,
	})
	if err != nil {
		return nil // Accept has already sent the response
	}

	socket.SetReadLimit(-1) // the reader applies its own limit and reports it to the client
	from.socket = socket
	c := &connection{
		gate: g, a: a, began: now, conversation: conversation, socket: socket, conn: taken.conn, reader: from,
	}
	c.serve(context.WithoutCancel(r.Context())) // the context of the request ends before the connection
	return nil
}
