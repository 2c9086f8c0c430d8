package floor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reply is the answer that the client receives.
type reply struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// runWorker answers each job with its own message until ctx ends.
func runWorker(ctx context.Context, natsURL string) error {
	nc, _, stream, err := openStream(ctx, natsURL, "floor-worker")
	if err != nil {
		return err
	}
	defer nc.Close()

	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1,
	})
	if err != nil {
		return fmt.Errorf("making consumer: %w", err)
	}

	pull, err := consumer.Consume(func(m jetstream.Msg) { work(nc, m) })
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

// work publishes the reply and then acknowledges the job. It waits for neither.
func work(nc *nats.Conn, m jetstream.Msg) {
	id := lastToken(m.Subject())
	body, err := json.Marshal(reply{ID: id, Status: "completed", Message: string(m.Data())})
	if err == nil {
		err = nc.Publish(m.Headers().Get(replyTo)+"."+id, body)
	}
	if err == nil {
		_ = m.Ack() // if it fails, the job is delivered and answered again
	}
}
