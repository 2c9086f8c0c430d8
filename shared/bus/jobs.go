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

// Doorbell is a job's message as a worker holds it, until it acknowledges it or gives it back.
type Doorbell struct {
	RunID       string
	ReplyTo     string
	Traceparent string
	msg         jetstream.Msg
}

// Ack takes the doorbell off the stream.
func (d *Doorbell) Ack() { _ = d.msg.Ack() } // unacknowledged it rings again, and the claim refuses it

// Nak gives the doorbell back for another worker, after delay.
func (d *Doorbell) Nak(delay time.Duration) { _ = d.msg.NakWithDelay(delay) } // else it rings again after the wait

// InProgress keeps the doorbell from being given to another worker for a further wait.
func (d *Doorbell) InProgress() { _ = d.msg.InProgress() } // else it rings again, and the claim refuses it

// Lane is a worker's view of one lane's doorbells.
type Lane struct {
	bus  *Bus
	lane domain.Lane
	cons jetstream.Consumer
}

// Lane opens a lane.
func (b *Bus) Lane(lane domain.Lane) *Lane { return &Lane{bus: b, lane: lane} }

// Fetch hands doorbells to f as they arrive and returns when the most that were asked for came, wait has
// passed or an error ended the pull. It opens stream and consumer anew when they are gone.
func (l *Lane) Fetch(ctx context.Context, limit int, wait time.Duration, f func(*Doorbell)) error {
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
	batch, err := l.cons.Fetch(limit, jetstream.FetchMaxWait(wait))
	if err != nil {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}
	for msg := range batch.Messages() {
		headers := msg.Headers()
		f(&Doorbell{
			RunID: contract.RunIDFor(msg.Subject()), ReplyTo: headers.Get(contract.HeaderReplyTo),
			Traceparent: headers.Get(contract.HeaderTraceparent), msg: msg,
		})
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}
	return nil
}

// OldestUndelivered gives when the oldest doorbell of a lane was rung that no worker has been handed yet;
// false when there is none.
func (b *Bus) OldestUndelivered(ctx context.Context, lane domain.Lane) (time.Time, bool, error) {
	stream, err := b.js.Stream(ctx, contract.StreamJobs)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("opening stream: %w", err)
	}
	cons, err := stream.Consumer(ctx, string(lane))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("opening consumer %s: %w", lane, err)
	}
	info := cons.CachedInfo()
	if info.NumPending == 0 {
		return time.Time{}, false, nil
	}
	msg, err := stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(contract.LaneSubject(lane)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, false, nil // delivered meanwhile
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reading oldest doorbell: %w", err)
	}
	return msg.Time, true, nil
}

// Pending is how many doorbells of a lane no worker has been handed yet, and how many workers have in their hands.
func (b *Bus) Pending(ctx context.Context, lane domain.Lane) (undelivered, unacknowledged int64, err error) {
	cons, err := b.js.Consumer(ctx, contract.StreamJobs, string(lane))
	if err != nil {
		return 0, 0, fmt.Errorf("opening consumer %s: %w", lane, err)
	}
	info := cons.CachedInfo() // as it was opened just now
	return int64(info.NumPending), int64(info.NumAckPending), nil
}
