// Package floor is the baseline of Parley's benchmarks: the least work that a service can do
// between a request and its response. It shares no code with Parley, because a slow shared function
// would slow both sides equally and the comparison would not show it.
//
// The floor of a run gives one guarantee: a request that it has accepted is on disk.
//
//	client ──▶ gin handler ──▶ one grouped INSERT (PostgreSQL) ──▶ JetStream, asynchronously
//	               ▲                                                     │
//	               └──── inbox of the ingress (core NATS) ◀── worker ◀───┘ pull consumer
//
// It has no authentication, no idempotency, no limits and no leases, and does not store results.
//
// The floor of a streamed chat is built in the same way, without the INSERT. Its worker calls the
// model and publishes each piece of the answer to the inbox. The handler writes each piece as a
// server-sent event.
//
// Serve runs one process, and Start starts several processes. The kinds of processes are:
//   - Ingress and Worker, the floor of a run
//   - ChatIngress and ChatWorker, the floor of a streamed chat
//   - Parked, whose requests only wait
//   - Hooks, which verifies and inserts webhook deliveries
//   - Replay, which returns the answer stored under a request's key
package floor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle/childproc"
)

// The kinds of processes; see the package comment.
const (
	Ingress     = "ingress"
	Worker      = "worker"
	ChatIngress = "chat-ingress"
	ChatWorker  = "chat-worker"
	Parked      = "parked"
	Hooks       = "hooks"
	Replay      = "replay"
)

// Paths of the processes that serve HTTP. GET ReadyPath returns 200 when Path accepts requests.
const (
	Path        = "/run"
	ReadyPath   = "/ready"
	ReleasePath = "/release" // for Parked: a POST releases all waiting requests
	WaitingPath = "/waiting" // for Parked: a GET returns the number of waiting requests
)

const (
	startTimeout  = 30 * time.Second
	headerTimeout = 5 * time.Second
)

// Config contains the settings of a process, which it reads from environment variables.
type Config struct {
	Address     string `env:"ADDRESS"`
	DatabaseURL string `env:"DATABASE_URL"`
	NATSURL     string `env:"NATS_URL" name:"nats-url"`
	Secret      string `env:"SECRET"` // signing secret of deliveries, for Hooks
	Model       string `env:"MODEL"`  // host:port of the model, for ChatWorker
}

// kinds contains the function that runs a process, by kind.
var kinds = map[string]func(context.Context, Config) error{
	Ingress: runIngress, Worker: runWorker, ChatIngress: runChatIngress, ChatWorker: runChatWorker,
	Parked: runParked, Hooks: runHooks, Replay: runReplay,
}

// Serve runs a process of the given kind until ctx ends.
func Serve(ctx context.Context, kind string, c Config) error {
	run, known := kinds[kind]
	if !known {
		return fmt.Errorf("unknown baseline process %q", kind)
	}
	return run(ctx, c)
}

// Floor is a group of running floor processes. Address is the address of the first process, as
// host:port.
type Floor struct {
	process.Group

	Address string
}

// Start starts one process of each kind. It runs the given command with the arguments "floor" and
// the kind, and the command must then call Serve. Start returns when the first process accepts
// requests.
func Start(ctx context.Context, command, logsDir string, c Config, kinds ...string) (*Floor, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}

	f := &Floor{Address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	env := map[string]string{
		"ADDRESS": f.Address, "DATABASE_URL": c.DatabaseURL, "NATS_URL": c.NATSURL, "SECRET": c.Secret, "MODEL": c.Model,
	}
	for _, kind := range kinds {
		program := childproc.Program{Name: "floor-" + kind, Path: command, Args: []string{"floor", kind}}
		if _, err := f.Group.Start(ctx, program, logsDir, env); err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}

	if err := f.Processes()[0].AwaitOK(ctx, "http://"+f.Address+ReadyPath); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// Load returns the load that sends run-automation requests to Ingress or Replay.
func (f *Floor) Load() load.Spec {
	return load.Spec{Address: f.Address, Path: Path, Body: load.Body("ag_floor"), Expect: `"status":"completed"`}
}

// Chat returns the load that opens streamed chats at ChatIngress.
func (f *Floor) Chat(answer string) load.StreamSpec {
	return load.StreamSpec{Address: f.Address, Path: Path, Body: load.Body("ag_floor"), Field: "text", Answer: answer, End: ChatEnd}
}

// request contains the fields that the floor reads from a request. They have the same names as in a
// run-automation request.
type request struct {
	Target string `json:"target" binding:"required"`
	Input  struct {
		Message string `json:"message" binding:"required"`
	} `json:"input"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// bound returns a handler that reads the body of a request and calls handle.
func bound(handle func(*gin.Context, *request)) gin.HandlerFunc {
	return func(c *gin.Context) {
		var req request
		if err := c.ShouldBindJSON(&req); err != nil {
			refuse(c, http.StatusBadRequest, err)
			return
		}
		handle(c, &req)
	}
}

// routes returns a router with a handler on Path.
func routes(handler gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST(Path, handler)
	router.GET(ReadyPath, func(c *gin.Context) { c.Status(http.StatusOK) })
	return router
}

// serve serves HTTP at an address until ctx ends. It then closes all connections.
func serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // does not wait for open requests
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

// refuse sends an error response.
func refuse(c *gin.Context, status int, err error) { c.JSON(status, gin.H{"error": err.Error()}) }
