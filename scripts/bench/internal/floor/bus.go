package floor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These constants are the names and limits of the stream of jobs.
const (
	streamName   = "FLOOR"
	consumerName = "floor"
	jobs         = "floor.jobs."
	replyTo      = "Reply-To"

	maxUnconfirmed = 8192        // maximum number of published jobs that the stream has not confirmed yet
	maxAge         = time.Minute // age at which the stream deletes a job
)

// openStream connects to NATS and opens the stream of jobs. It creates the stream if it does not
// exist.
func openStream(ctx context.Context, url, name string) (*nats.Conn, jetstream.JetStream, jetstream.Stream, error) {
	nc, err := nats.Connect(url, nats.Name(name), nats.MaxReconnects(-1))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("connecting to NATS: %w", err)
	}

	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxUnconfirmed))
	if err != nil {
		nc.Close()
		return nil, nil, nil, fmt.Errorf("opening JetStream: %w", err)
	}

	// Deleting jobs by age is the cheapest retention on disk. A work queue, which deletes each
	// acknowledged job, costs a third more.
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{jobs + ">"}, Retention: jetstream.LimitsPolicy,
		Storage: jetstream.FileStorage, MaxAge: maxAge, MaxBytes: 1 << 30,
	})
	if err != nil {
		nc.Close()
		return nil, nil, nil, fmt.Errorf("creating stream: %w", err)
	}
	return nc, js, stream, nil
}

// lastToken returns the part of a subject after its last dot, which is the id of a job.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
