package floor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Path is where requests are posted, and ReadyPath says 200 once they may be.
const (
	Path      = "/run"
	ReadyPath = "/ready"
)

const headerTimeout = 5 * time.Second

// request is what is read of a body; it has the shape of run-automation's.
type request struct {
	Target string `json:"target" binding:"required"`
	Input  struct {
		Message string `json:"message" binding:"required"`
	} `json:"input"`
	IdempotencyKey string `json:"idempotencyKey"`
}

type ingress struct {
	inserter *inserter
	js       jetstream.JetStream
	inbox    string
	prefix   string
	count    atomic.Uint64

	mu      sync.Mutex
	waiting map[string]chan []byte
}

// RunIngress serves on address until ctx ends.
func RunIngress(ctx context.Context, address, databaseURL, natsURL string) (err error) {
	inserter, err := newInserter(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inserter.close()) }()
	nc, js, _, err := openStream(ctx, natsURL, "floor-ingress")
	if err != nil {
		return err
	}
	defer nc.Close()
	i := &ingress{
		inserter: inserter, js: js, inbox: nats.NewInbox(), prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-",
		waiting: map[string]chan []byte{},
	}
	if _, err := nc.Subscribe(i.inbox+".*", i.answer); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background.Go(func() { inserter.run(ctx) })
	return serve(ctx, address, i.routes())
}

func (i *ingress) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST(Path, i.run)
	router.GET(ReadyPath, func(c *gin.Context) { c.Status(http.StatusOK) })
	return router
}

func serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing here is worth a drain
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

func (i *ingress) run(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
		return
	}
	ctx := c.Request.Context()
	id := i.prefix + strconv.FormatUint(1<<40+i.count.Add(1), 36) // of one length, so in order
	if err := i.inserter.insert(ctx, id, req.Input.Message); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": err.Error()})
		return
	}
	answer := i.await(id)
	defer i.forget(id)
	msg := &nats.Msg{Subject: jobs + id, Data: []byte(req.Input.Message), Header: nats.Header{replyTo: {i.inbox}}}
	if _, err := i.js.PublishMsgAsync(msg); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": err.Error()})
		return
	}
	select {
	case body := <-answer:
		c.Data(http.StatusOK, "application/json", body)
	case <-ctx.Done():
	}
}

func (i *ingress) await(id string) <-chan []byte {
	answer := make(chan []byte, 1)
	i.mu.Lock()
	i.waiting[id] = answer
	i.mu.Unlock()
	return answer
}

func (i *ingress) forget(id string) {
	i.mu.Lock()
	delete(i.waiting, id)
	i.mu.Unlock()
}

// answer hands a worker's reply to the handler that waits for it.
func (i *ingress) answer(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if answer := i.waiting[lastToken(m.Subject)]; answer != nil {
		select {
		case answer <- m.Data:
		default: // a job that was delivered twice
		}
	}
}
