package floor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
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

const maxModelConnections = 10_000 // idle connections to the model that are kept open

// chatWorker calls the model for each job and publishes the pieces of the model's answer.
type chatWorker struct {
	nc    *nats.Conn
	model *http.Client
	url   string
}

// runChatWorker handles each job in a separate goroutine until ctx ends.
func runChatWorker(ctx context.Context, c Config) error {
	return consume(ctx, c.NATSURL, "floor-chat-worker", func(nc *nats.Conn) func(jetstream.Msg) {
		w := &chatWorker{
			nc: nc, url: "http://" + c.Model + "/v1/chat/completions",
			model: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxModelConnections}},
		}
		return func(m jetstream.Msg) {
			go func() {
				if err := w.answer(ctx, m); err != nil {
					fmt.Fprintln(os.Stderr, "answering:", err) // the client also reports an incomplete stream
				}
			}()
		}
	})
}

// answer calls the model and publishes the pieces of its answer, followed by an empty message. Then
// it acknowledges the job.
func (w *chatWorker) answer(ctx context.Context, m jetstream.Msg) error {
	body, err := json.Marshal(map[string]any{
		"model": "paced", "stream": true, "messages": []map[string]string{{"role": "user", "content": string(m.Data())}},
	})
	if err != nil {
		return fmt.Errorf("writing request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating request: %w", err)
	}
	res, err := w.model.Do(req)
	if err != nil {
		return fmt.Errorf("calling the model: %w", err)
	}
	defer res.Body.Close()

	subject := m.Headers().Get(replyTo) + "." + lastToken(m.Subject())
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if err := w.publish(subject, lines.Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(w.nc.Publish(subject, nil), m.Ack())
}

// publish publishes the piece that a line of the model's stream contains, if any.
func (w *chatWorker) publish(subject string, line []byte) error {
	data, found := bytes.CutPrefix(line, []byte("data: "))
	if !found || !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("reading answer: %w", err)
	}
	if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
		return nil
	}
	piece, err := json.Marshal(map[string]string{"text": chunk.Choices[0].Delta.Content})
	if err != nil {
		return fmt.Errorf("writing piece: %w", err)
	}
	return w.nc.Publish(subject, piece)
}
