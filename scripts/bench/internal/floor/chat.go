package floor

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/nats-io/nats.go/jetstream"
)

// ChatEnd is the last line of a chat's event stream.
const ChatEnd = "event: done"

// maxPieces bounds the pieces of one answer that have arrived but are not written yet.
const maxPieces = 1024

// chatIngress streams the answers of a chatWorker to HTTP clients.
type chatIngress struct {
	js    jetstream.JetStream
	inbox *inbox
}

// runChatIngress serves streamed chats until ctx ends.
func runChatIngress(ctx context.Context, c Config) error {
	nc, js, _, err := openStream(ctx, c.NATSURL, "floor-chat-ingress")
	if err != nil {
		return err
	}
	defer nc.Close()

	inbox, err := newInbox(nc)
	if err != nil {
		return err
	}
	return serve(ctx, c.Address, routes((&chatIngress{js, inbox}).stream))
}

// stream publishes a job and writes each piece of the answer as a server-sent event. Pieces that
// have arrived together are flushed together. An empty reply ends the answer.
func (i *chatIngress) stream(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		refuse(c, http.StatusBadRequest, err)
		return
	}

	id := i.inbox.newID()
	pieces := i.inbox.await(id, maxPieces)
	defer i.inbox.forget(id)
	if _, err := i.js.PublishMsgAsync(i.inbox.job(id, req.Input.Message)); err != nil {
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
