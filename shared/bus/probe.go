package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/contract"
)

const (
	probeTimeout = 2 * time.Second
	probeName    = "probe" // name of the consumer that receives probes
)

// ErrNotStored is the error of CheckJobs if the server responds and the stream exists, but a
// message was not stored in time. For example, the disk may be full. After a failed write, a server
// rejects all further messages for the stream, even when the disk has space again. RemakeStream
// repairs the stream.
var ErrNotStored = errors.New("the NATS server does not store messages")

// CheckJobs returns nil if the job stream exists, stores messages and delivers them. It publishes a
// message and receives one, because a NATS server with a full disk still responds to pings. It
// takes at most two seconds.
func (b *Bus) CheckJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	stream, err := b.openStream(ctx)
	if err != nil {
		return fmt.Errorf("checking the job stream: %w", err)
	}

	// The probe has a subject and a consumer of its own, so that no worker receives it.
	consumer, err := ensureConsumer(ctx, stream, probeName, contract.SubjectProbe+">")
	if err != nil {
		return fmt.Errorf("checking the job stream: %w", err)
	}

	// The server confirms a message only after it has stored the message.
	_, err = b.js.PublishMsg(ctx, nats.NewMsg(contract.SubjectProbe+rand.Text()))
	if full(err) {
		return nil // the stream is full of job messages; further runs wait as rows in the database
	}
	if err != nil {
		return fmt.Errorf("checking the job stream: %w: %w", ErrNotStored, err)
	}

	// Processes share the consumer. Each publishes one message and receives one, possibly one from
	// another process.
	batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(probeTimeout/2))
	if err != nil {
		return fmt.Errorf("checking the job stream: receiving a message: %w", err)
	}

	if msg, ok := <-batch.Messages(); ok {
		if err := msg.DoubleAck(ctx); err != nil { // waits until the message has left the stream
			return fmt.Errorf("checking the job stream: acknowledging a message: %w", err)
		}
		return nil
	}

	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("checking the job stream: receiving a message: %w", err)
	}

	// Another process may have received two messages: the message of this process and its own
	// message.
	if info, err := consumer.Info(ctx); err == nil && info.NumPending == 0 {
		return nil // another process received both
	}

	return errors.New("checking the job stream: a stored message was not delivered")
}

// full reports whether the stream rejected a message because it has reached its maximum size.
func full(err error) bool {
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refusal.ErrorCode == codeStoreFailed && strings.Contains(refusal.Description, "maximum bytes exceeded")
}
