package floor

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type ingress struct {
	inserter *inserter
	js       jetstream.JetStream
	inbox    string
	prefix   string
	count    atomic.Uint64

	mu      sync.Mutex
	waiting map[string]chan []byte
}

// runIngress serves until ctx ends.
func runIngress(ctx context.Context, c Config) error {
	nc, js, _, err := openStream(ctx, c.NATSURL, "floor-ingress")
	if err != nil {
		return err
	}
	defer nc.Close()

	i := &ingress{
		js: js, inbox: nats.NewInbox(), prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-", waiting: map[string]chan []byte{},
	}
	if _, err := nc.Subscribe(i.inbox+".*", i.answer); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}

	return withInserter(ctx, c.DatabaseURL, func(ctx context.Context, inserter *inserter) error {
		i.inserter = inserter
		return serve(ctx, c.Address, routes(i.run))
	})
}

func (i *ingress) run(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		refuse(c, http.StatusBadRequest, err)
		return
	}

	ctx := c.Request.Context()
	id := i.prefix + strconv.FormatUint(1<<40+i.count.Add(1), 36) // all ids have the same length, so that they sort in order
	if err := i.inserter.insert(ctx, id, req.Input.Message); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	answer := i.await(id)
	defer i.forget(id)

	msg := &nats.Msg{Subject: jobs + id, Data: []byte(req.Input.Message), Header: nats.Header{replyTo: {i.inbox}}}
	if _, err := i.js.PublishMsgAsync(msg); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
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

// answer passes a worker's reply to the handler that waits for it.
func (i *ingress) answer(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if answer := i.waiting[lastToken(m.Subject)]; answer != nil {
		select {
		case answer <- m.Data:
		default: // the job was delivered twice
		}
	}
}
