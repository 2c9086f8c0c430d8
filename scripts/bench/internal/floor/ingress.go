package floor

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
)

// ChatEnd is the last line of a chat's event stream.
const ChatEnd = "event: done"

// maxPieces bounds the pieces of one answer that have arrived but are not written yet.
const maxPieces = 1024

// ingress publishes the job of each request, and responds with the replies of a worker.
type ingress struct {
	inserter *inserter // nil for chats
	inbox    *inbox
}

// runIngress serves run-automation requests until ctx ends.
func runIngress(ctx context.Context, c Config) error {
	inbox, err := openInbox(ctx, c.NATSURL, "floor-ingress")
	if err != nil {
		return err
	}
	defer inbox.nc.Close()
	return withInserter(ctx, c.DatabaseURL, func(ctx context.Context, inserter *inserter) error {
		return serve(ctx, c.Address, routes(bound((&ingress{inserter, inbox}).run)))
	})
}

// runChatIngress serves streamed chats until ctx ends.
func runChatIngress(ctx context.Context, c Config) error {
	inbox, err := openInbox(ctx, c.NATSURL, "floor-chat-ingress")
	if err != nil {
		return err
	}
	defer inbox.nc.Close()
	return serve(ctx, c.Address, routes(bound((&ingress{nil, inbox}).stream)))
}

// run inserts a row, publishes a job and responds with the reply.
func (i *ingress) run(c *gin.Context, req *request) {
	ctx, id := c.Request.Context(), i.inbox.newID()
	if err := i.inserter.insert(ctx, id, req.Input.Message); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	answer, err := i.inbox.submit(id, req.Input.Message, 1)
	defer i.inbox.forget(id)
	if err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}
	select {
	case body := <-answer:
		c.Data(http.StatusOK, "application/json", body)
	case <-ctx.Done():
	}
}

// stream publishes a job and writes each piece of the answer as a server-sent event. Pieces that
// have arrived together are flushed together. An empty reply ends the answer.
func (i *ingress) stream(c *gin.Context, req *request) {
	id := i.inbox.newID()
	pieces, err := i.inbox.submit(id, req.Input.Message, maxPieces)
	defer i.inbox.forget(id)
	if err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	c.Header("Content-Type", "text/event-stream")
	var event []byte
	for {
		select {
		case piece := <-pieces:
			if len(piece) == 0 {
				_, _ = c.Writer.WriteString(ChatEnd + "\n\n") // on an error, the client reports an incomplete stream
				return
			}
			event = append(append(append(event[:0], "event: message.delta\ndata: "...), piece...), "\n\n"...)
			if _, err := c.Writer.Write(event); err != nil {
				return
			}
			if len(pieces) == 0 {
				c.Writer.Flush()
			}
		case <-c.Request.Context().Done():
			return
		}
	}
}
