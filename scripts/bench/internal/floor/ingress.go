package floor

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/nats-io/nats.go/jetstream"
)

type ingress struct {
	inserter *inserter
	js       jetstream.JetStream
	inbox    *inbox
}

// runIngress serves run-automation requests until ctx ends.
func runIngress(ctx context.Context, c Config) error {
	nc, js, _, err := openStream(ctx, c.NATSURL, "floor-ingress")
	if err != nil {
		return err
	}
	defer nc.Close()

	inbox, err := newInbox(nc)
	if err != nil {
		return err
	}
	return withInserter(ctx, c.DatabaseURL, func(ctx context.Context, inserter *inserter) error {
		return serve(ctx, c.Address, routes((&ingress{inserter, js, inbox}).run))
	})
}

func (i *ingress) run(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		refuse(c, http.StatusBadRequest, err)
		return
	}

	ctx, id := c.Request.Context(), i.inbox.newID()
	if err := i.inserter.insert(ctx, id, req.Input.Message); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	answer := i.inbox.await(id, 1)
	defer i.inbox.forget(id)
	if _, err := i.js.PublishMsgAsync(i.inbox.job(id, req.Input.Message)); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	select {
	case body := <-answer:
		c.Data(http.StatusOK, "application/json", body)
	case <-ctx.Done():
	}
}
