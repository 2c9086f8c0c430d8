package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/contract"
	"parley/shared/domain"
)

// JobMessage is a job message that was delivered to a worker. The worker acknowledges it on
// receipt, or releases it to another worker.
type JobMessage struct {
	RunID       string
	ReplyTo     string
	Traceparent string
	msg         jetstream.Msg
}

// Ack removes the message from the stream.
func (d *JobMessage) Ack() { _ = d.msg.Ack() } // if this fails, the message is delivered again, and the second claim of its run is rejected

// Release releases the message to another worker.
func (d *JobMessage) Release() { _ = d.msg.Nak() } // if this fails, the message is delivered again after ackWait

// Lane is a worker's view of the job messages of one lane. It is not safe for concurrent use.
// Several workers may fetch from the same lane; each message goes to one of them.
type Lane struct {
	bus  *Bus
	lane domain.Lane
	cons jetstream.Consumer
}

// Lane returns a view of a lane. It sends nothing yet: the first call of Fetch opens the stream.
func (b *Bus) Lane(lane domain.Lane) *Lane { return &Lane{bus: b, lane: lane} }

// Fetch calls f with job messages as they arrive. It returns after limit messages, after the
// duration wait, or on an error. It opens the stream and the consumer again if they are gone.
func (l *Lane) Fetch(ctx context.Context, limit int, wait time.Duration, f func(*JobMessage)) error {
	// Before the first call and after an error, the Lane has no consumer.
	if l.cons == nil {
		if _, err := l.bus.EnsureStream(ctx); err != nil {
			return err
		}
		cons, err := l.bus.js.Consumer(ctx, contract.StreamJobs, string(l.lane))
		if err != nil {
			return fmt.Errorf("opening consumer %s: %w", l.lane, err)
		}
		l.cons = cons
	}

	// After an error, the consumer may be gone, so the next call of Fetch opens it again.
	batch, err := l.cons.Fetch(limit, jetstream.FetchMaxWait(wait))
	if err != nil {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}

	// The loop ends after limit messages, or after the duration wait.
	for msg := range batch.Messages() {
		headers := msg.Headers()
		f(&JobMessage{
			RunID: contract.RunIDFor(msg.Subject()), ReplyTo: headers.Get(contract.HeaderReplyTo),
			Traceparent: headers.Get(contract.HeaderTraceparent), msg: msg,
		})
	}

	// A timeout only means that fewer messages than limit arrived.
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}

	return nil
}

// OldestUndelivered returns when the oldest undelivered job message of a lane was published. It
// returns false if there is none.
func (b *Bus) OldestUndelivered(ctx context.Context, lane domain.Lane) (time.Time, bool, error) {
	stream, err := b.openStream(ctx)
	if err != nil {
		return time.Time{}, false, err
	}

	cons, err := stream.Consumer(ctx, string(lane))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("opening consumer %s: %w", lane, err)
	}

	// NumPending counts the messages that no worker has received yet.
	info := cons.CachedInfo()
	if info.NumPending == 0 {
		return time.Time{}, false, nil
	}

	// The first message of the lane after the last delivered one is the oldest undelivered message.
	msg, err := stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(contract.LaneSubject(lane)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, false, nil // delivered meanwhile
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reading the oldest job message: %w", err)
	}

	return msg.Time, true, nil
}

// Pending returns how many job messages of a lane are undelivered, over all workers.
func (b *Bus) Pending(ctx context.Context, lane domain.Lane) (int64, error) {
	cons, err := b.js.Consumer(ctx, contract.StreamJobs, string(lane))
	if err != nil {
		return 0, fmt.Errorf("opening consumer %s: %w", lane, err)
	}
	return int64(cons.CachedInfo().NumPending), nil // the state at the time of opening
}
