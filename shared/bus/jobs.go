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
	"parley/shared/failpoint"
)

// JobMessage is a job message that was delivered to a worker. The worker acknowledges it on receipt,
// or releases it to another worker.
type JobMessage struct {
	RunID       string
	ReplyTo     string
	Traceparent string
	Late        []byte // the sealed run of a late acceptance; nil for a run that is a row
	msg         jetstream.Msg
}

// Age returns how long ago the stream stored the message, by this process's clock. It returns false
// if that is unknown.
func (d *JobMessage) Age() (time.Duration, bool) {
	meta, err := d.msg.Metadata()
	if err != nil {
		return 0, false
	}
	return time.Since(meta.Timestamp), true
}

// Ack removes the message from the stream.
func (d *JobMessage) Ack() { _ = d.msg.Ack() } // if it fails, the message is delivered again, and the claim rejects it

// Release releases the message to another worker.
func (d *JobMessage) Release() { _ = d.msg.Nak() } // if it fails, it is delivered again after ackWait

// Lane is a worker's view of the job messages of one lane.
type Lane struct {
	bus  *Bus
	lane domain.Lane
	cons jetstream.Consumer
}

// Lane returns a lane's view. It sends nothing yet.
func (b *Bus) Lane(lane domain.Lane) *Lane { return &Lane{bus: b, lane: lane} }

// Fetch calls f with job messages as they arrive. It returns after limit messages, after the
// duration wait, or on an error. It opens the stream and the consumer again if they are gone.
func (l *Lane) Fetch(ctx context.Context, limit int, wait time.Duration, f func(*JobMessage)) error {
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

	// After an error the consumer may be gone, so the next call opens it again.
	batch, err := l.cons.Fetch(limit, jetstream.FetchMaxWait(wait))
	if err != nil {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}

	for msg := range batch.Messages() {
		headers := msg.Headers()
		f(&JobMessage{
			RunID: contract.RunIDFor(msg.Subject()), ReplyTo: headers.Get(contract.HeaderReplyTo),
			Traceparent: headers.Get(contract.HeaderTraceparent), Late: lateBody(msg), msg: msg,
		})
	}

	// A timeout only means that fewer messages than limit arrived.
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		l.cons = nil
		return fmt.Errorf("fetching jobs: %w", err)
	}

	return nil
}

// lateBody returns the sealed run of a message, or nil.
func lateBody(msg jetstream.Msg) []byte {
	if len(msg.Data()) == 0 {
		return nil
	}
	return msg.Data()
}

// LateJob is a published job message that contains its run.
type LateJob struct{ future jetstream.PubAckFuture }

// Stored receives whether the message was a duplicate, once the stream has stored or dropped it.
func (j LateJob) Stored() <-chan *jetstream.PubAck { return j.future.Ok() }

// Failed receives an error if the stream has not stored the message.
func (j LateJob) Failed() <-chan error { return j.future.Err() }

// PublishLate publishes the job of a run that is not a row yet. sealed contains the run. It does not
// wait.
func (b *Bus) PublishLate(job domain.Job, sealed []byte) (LateJob, error) {
	msg := &nats.Msg{Subject: contract.JobSubject(job), Data: sealed, Header: nats.Header{
		jetstream.MsgIDHeader: {contract.MsgID(job)}, contract.HeaderReplyTo: {job.ReplyTo},
	}}
	if job.Traceparent != "" {
		msg.Header[contract.HeaderTraceparent] = []string{job.Traceparent}
	}
	future, err := b.js.PublishMsgAsync(msg, jetstream.WithStallWait(pendingWait))
	if err != nil {
		return LateJob{}, fmt.Errorf("publishing job: %w", err)
	}
	failpoint.Here(failpoint.PublishJobAfter)
	return LateJob{future}, nil
}

// Reply sends a run's rendered object, or contract.Declined, to the inbox of the waiting ingress only.
func (b *Bus) Reply(runID, replyTo string, body []byte) { b.reply(runID, replyTo, body) }

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

	info := cons.CachedInfo()
	if info.NumPending == 0 {
		return time.Time{}, false, nil
	}

	msg, err := stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(contract.LaneSubject(lane)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, false, nil // delivered meanwhile
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reading the oldest job message: %w", err)
	}

	return msg.Time, true, nil
}

// Pending returns how many job messages of a lane are undelivered.
func (b *Bus) Pending(ctx context.Context, lane domain.Lane) (int64, error) {
	cons, err := b.js.Consumer(ctx, contract.StreamJobs, string(lane))
	if err != nil {
		return 0, fmt.Errorf("opening consumer %s: %w", lane, err)
	}
	return int64(cons.CachedInfo().NumPending), nil // the state at the time of opening
}
