package floor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reply is the body of the response to the client.
type reply struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// runWorker replies to each job with the message in the job, until ctx ends.
func runWorker(ctx context.Context, c Config) error {
	return consume(ctx, c.NATSURL, "floor-worker", func(nc *nats.Conn) func(jetstream.Msg) {
		return func(m jetstream.Msg) { work(nc, m) }
	})
}

// consume connects to NATS and calls the handler for each job until ctx ends.
func consume(ctx context.Context, natsURL, name string, handler func(*nats.Conn) func(jetstream.Msg)) error {
	nc, _, stream, err := openStream(ctx, natsURL, name)
	if err != nil {
		return err
	}
	defer nc.Close()

	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1,
	})
	if err != nil {
		return fmt.Errorf("creating consumer: %w", err)
	}

	pull, err := consumer.Consume(handler(nc))
	if err != nil {
		return fmt.Errorf("pulling jobs: %w", err)
	}
	defer pull.Stop()

	select {
	case <-ctx.Done():
		return nil
	case <-pull.Closed():
		return fmt.Errorf("pulling jobs: %w", nats.ErrConnectionClosed)
	}
}

// work publishes the reply to a job and then acknowledges the job. It waits for no confirmation.
func work(nc *nats.Conn, m jetstream.Msg) {
	id := lastToken(m.Subject())
	body, err := json.Marshal(reply{ID: id, Status: "completed", Message: string(m.Data())})
	if err == nil {
		err = nc.Publish(m.Headers().Get(replyTo)+"."+id, body)
	}
	if err == nil {
		_ = m.Ack() // if this fails, the job is delivered again and gets a second reply
	}
}
