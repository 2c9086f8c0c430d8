package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/failpoint"
)

const (
	// duplicatesWindow is the time in which the stream drops a second message with the same id. It
	// must be shorter than the retention of any idempotency key, because a later run of the same
	// key has the same message ids.
	duplicatesWindow = 2 * time.Minute
	maxStreamBytes   = 256 << 20        // bytes; room for about 700,000 messages; jobs that do not fit are published later
	minStreamBytes   = 8 << 20          // the smallest size of the stream that is tried on a server with little disk space
	ackWait          = 30 * time.Second // an unacknowledged job message is delivered again after this time
	flushTimeout     = 2 * time.Second  // maximum time to wait until the server confirms that it has received all messages
	remakeTimeout    = 5 * time.Second  // for deleting and creating the stream
	maxPendingJobs   = 8192             // maximum number of job messages of this process that the server has not acknowledged
	pendingWait      = time.Millisecond // maximum time that a publication waits for room among the unacknowledged messages
	jobLogs          = 10               // maximum number of log lines about job messages per second
)

// Bus is a process's connection to NATS. It is safe for concurrent use.
type Bus struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	log zerolog.Logger
	// jobLog logs job messages that were not published or not stored. It is sampled, because a
	// server that stores nothing would cause a log line per message.
	jobLog   zerolog.Logger
	replicas int // number of servers that store the stream, if this process creates it

	changes     *changes
	stopChanges func()
}

// Options returns the settings that Parley needs for a nats.go connection.
func Options(name string, log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		// A process may start while the bus is unreachable. It then connects later.
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), // the default gives up after 60 attempts
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), // no buffer during a reconnection, because buffered messages would be published too late
		// A connection to a dead server is closed after three pings without a reply.
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil if this process closed the connection
				log.Warn().Err(err).Msg("bus disconnected")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info().Msg("bus reconnected") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn().Err(err).Msg("bus error") }),
	}
}

// inboxPrefix is the prefix of a connection's inboxes. If the first address contains a user name
// that is valid in a subject, the prefix contains this name. The server can then deny other users a
// subscription to these inboxes.
func inboxPrefix(addresses string) string {
	first, _, _ := strings.Cut(addresses, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil || u.User == nil || u.User.Username() == "" || strings.ContainsAny(u.User.Username(), ".*> \t\r\n") {
		return strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	return nats.InboxPrefix + u.User.Username()
}

// Dial connects to the servers at addresses. If no server is reachable yet, the connection keeps
// trying in the background.
func Dial(addresses, name string, log zerolog.Logger) (*Bus, error) {
	nc, err := nats.Connect(addresses, append(Options(name, log), nats.CustomInboxPrefix(inboxPrefix(addresses)))...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if !nc.IsConnected() {
		log.Warn().Err(nc.LastError()).Strs("servers", hosts(addresses)).Msg("NATS is not reachable yet, retrying; check NATS_URL")
	}
	return New(nc, log)
}

// hosts returns the hosts and ports of server addresses, without the user names and passwords.
func hosts(addresses string) (out []string) {
	for address := range strings.SplitSeq(addresses, ",") {
		if u, err := url.Parse(strings.TrimSpace(address)); err == nil {
			out = append(out, u.Host)
		}
	}
	return out
}

// New returns a Bus on the connection nc, which must have been made with Options. Close of the Bus
// closes nc.
func New(nc *nats.Conn, log zerolog.Logger) (*Bus, error) {
	b := &Bus{nc: nc, log: log, replicas: 1}
	b.jobLog = log.Sample(&zerolog.BurstSampler{Burst: jobLogs, Period: time.Second})

	// Job messages are published asynchronously. The run is already stored, so no caller needs to
	// wait until the server has acknowledged the message.
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(maxPendingJobs),
		jetstream.WithPublishAsyncTimeout(10*time.Second),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			b.jobLog.Warn().Err(err).Str("run_id", contract.RunIDFor(m.Subject)).Msg("job message not stored; the sweeper will publish it again")
		}))
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}

	b.js = js
	b.stopChanges = b.startChanges()
	return b, nil
}

// Replicate sets the number of servers in a cluster that store the stream, if this process creates
// it. It must be called before any other method.
func (b *Bus) Replicate(servers int) { b.replicas = max(1, servers) }

// Close publishes the changes that are still due, flushes published messages and closes the
// connection. Subscriptions end. No other method may be called afterwards.
func (b *Bus) Close() {
	b.stopChanges()
	_ = b.nc.FlushTimeout(flushTimeout) // a lost reply does no harm
	b.nc.Close()
}

// Ping checks that the server answers within flushTimeout.
func (b *Bus) Ping(ctx context.Context) error {
	if err := b.flush(ctx); err != nil {
		return fmt.Errorf("reaching bus: %w", err)
	}
	return nil
}

// flush waits until the server has received all sent messages. nats.go requires a timeout.
func (b *Bus) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return b.nc.FlushWithContext(ctx)
}

// Stream is the state of the job stream, as EnsureStream has found it. The sweeper compares it with
// the state at the last check.
type Stream struct {
	// Made is the time when the stream was created. If Made changes, the stream was replaced and
	// the earlier messages are gone.
	Made time.Time
	// Forgot means that consumers have recorded a higher sequence number than the last one in the
	// stream. A power failure may have destroyed the last messages but not the consumers' files.
	// Until the stream reaches the recorded number again, the consumers treat new messages as
	// already delivered.
	Forgot bool
}

// EnsureStream creates the stream and its consumers if they are missing, and returns the stream's
// state. There is a consumer for each lane. EnsureStream does not change an existing stream. If the
// server has no JetStream, the error explains how to enable it.
func (b *Bus) EnsureStream(ctx context.Context) (found Stream, err error) {
	stream, err := b.openStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.createStream(ctx)
	}

	if err != nil {
		return found, err
	}

	info := stream.CachedInfo()
	found.Made = info.Created

	// The stream must have contained at least the highest sequence number that a consumer has
	// recorded.
	delivered := uint64(0)
	for _, lane := range append([]domain.Lane{domain.LaneIngest}, domain.Lanes...) {
		consumer, err := ensureConsumer(ctx, stream, string(lane), contract.LaneSubject(lane))
		if err != nil {
			return found, err
		}
		delivered = max(delivered, consumer.CachedInfo().Delivered.Stream)
	}

	if delivered <= info.State.LastSeq {
		return found, nil
	}

	if info, err = stream.Info(ctx); err != nil { // the stream may have grown since the first request
		return found, fmt.Errorf("opening stream: %w", err)
	}

	found.Forgot = delivered > info.State.LastSeq
	return found, nil
}

// openStream opens the stream. It returns jetstream.ErrStreamNotFound if the stream does not exist.
// If the server has no JetStream, the error explains how to enable it.
func (b *Bus) openStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := b.js.Stream(ctx, contract.StreamJobs)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil, fmt.Errorf("opening stream: NATS has no JetStream; start it with nats-server -js: %w", err)
	case err != nil:
		return nil, fmt.Errorf("opening stream: %w", err)
	}
	return stream, nil
}

// RemakeStream deletes the stream and its consumers and creates them again. It discards the
// stream's messages, and the remaining files of a damaged stream.
func (b *Bus) RemakeStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, remakeTimeout)
	defer cancel()
	if err := b.js.DeleteStream(ctx, contract.StreamJobs); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("removing stream: %w", err)
	}
	_, err := b.EnsureStream(ctx)
	return err
}

// createStream creates the stream. If another process has just created it, createStream opens it
// unchanged, because a process may have permission only to create streams. The server reserves all
// of MaxBytes immediately. If it lacks the space, createStream tries half of that, and so on.
func (b *Bus) createStream(ctx context.Context) (jetstream.Stream, error) {
	config := jetstream.StreamConfig{
		Name: contract.StreamJobs, Subjects: []string{contract.SubjectsJobs}, Retention: jetstream.WorkQueuePolicy, Replicas: b.replicas,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxBytes: maxStreamBytes, Duplicates: duplicatesWindow,
	}

	stream, err := b.js.CreateStream(ctx, config)

	// Each further attempt to create the stream requests half of the previous size.
	for insufficient(err) && config.MaxBytes > minStreamBytes {
		config.MaxBytes /= 2
		stream, err = b.js.CreateStream(ctx, config)
	}

	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.openStream(ctx)
	}

	if err != nil {
		return nil, fmt.Errorf("creating stream: %w", err)
	}

	if config.MaxBytes < maxStreamBytes {
		b.log.Warn().Int64("bytes", config.MaxBytes).Int64("wanted", maxStreamBytes).
			Msg("the NATS server has little space, so the job stream is smaller than configured; raise max_file or free disk space")
	}

	return stream, nil
}

// insufficient reports whether an error means that the server has less space than the stream would
// reserve.
func insufficient(err error) bool {
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains([]jetstream.ErrorCode{codeAccountExceeded, codeInsufficientResources, codeStorageExceeded}, refusal.ErrorCode)
}

// Error codes of a server that cannot reserve the space for a stream or cannot store a message.
const (
	codeAccountExceeded       jetstream.ErrorCode = 10002
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
)

// UpdateStream shortens the duplicate window of a stream that an earlier release created, if this
// window is longer than the window of this release. Without the update, the longer window costs
// only memory on the server. UpdateStream needs a permission that only the sweeper's user has.
func (b *Bus) UpdateStream(ctx context.Context) error {
	stream, err := b.openStream(ctx)
	if err != nil {
		return err
	}

	// Only the duplicate window is changed. The size and the replicas stay as the operator has set
	// them.
	config := stream.CachedInfo().Config
	if config.Duplicates <= duplicatesWindow {
		return nil
	}

	config.Duplicates = duplicatesWindow
	if _, err := b.js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("updating stream: %w", err)
	}

	return nil
}

// ensureConsumer opens a durable consumer, or creates it if it is missing.
func ensureConsumer(ctx context.Context, stream jetstream.Stream, name, subject string) (jetstream.Consumer, error) {
	consumer, err := stream.Consumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		config := jetstream.ConsumerConfig{
			Durable: name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: ackWait, MaxDeliver: -1, MaxAckPending: -1, // attempts are counted in PostgreSQL
		}
		consumer, err = stream.CreateOrUpdateConsumer(ctx, config)
		if damaged(err) {
			// The server cannot read the files of the consumer with this name, and no client can
			// remove them. A consumer in memory needs no files. It loses its state when the server
			// restarts. Job messages are then delivered again, and the second claim of a run is
			// rejected.
			config.MemoryStorage = true
			consumer, err = stream.CreateOrUpdateConsumer(ctx, config)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("opening consumer %s: %w", name, err)
	}

	return consumer, nil
}

// Error codes of a server that cannot create a consumer or its store, for example because a
// crash left a truncated file.
const (
	codeConsumerCreate jetstream.ErrorCode = 10012
	codeConsumerStore  jetstream.ErrorCode = 10104
)

// damaged reports whether an error means that the server cannot read or create the files of a
// consumer.
func damaged(err error) bool {
	apiErr, ok := errors.AsType[*jetstream.APIError](err)
	return ok && apiErr.Code >= 500 && (apiErr.ErrorCode == codeConsumerCreate || apiErr.ErrorCode == codeConsumerStore)
}

// PublishJobs publishes the job messages of dispatched runs without waiting. A message that the
// server does not store is only logged. Messages above the limit for unacknowledged messages are
// dropped. If no worker claims a job, the sweeper publishes it again.
func (b *Bus) PublishJobs(jobs ...domain.Job) {
	for i, job := range jobs {
		if b.js.PublishAsyncPending() >= maxPendingJobs {
			b.jobLog.Warn().Int("runs", len(jobs)-i).Msg("job messages dropped: too many are not acknowledged; the sweeper will publish them")
			return
		}
		msg := &nats.Msg{Subject: contract.JobSubject(job), Header: nats.Header{
			jetstream.MsgIDHeader: {contract.MsgID(job)},
		}}

		if job.ReplyTo != "" {
			msg.Header[contract.HeaderReplyTo] = []string{job.ReplyTo}
		}
		if job.Traceparent != "" {
			msg.Header[contract.HeaderTraceparent] = []string{job.Traceparent}
		}
		if _, err := b.js.PublishMsgAsync(msg, jetstream.WithStallWait(pendingWait)); err != nil {
			b.jobLog.Warn().Err(err).Int("runs", len(jobs)-i).Msg("job messages not published; the sweeper will publish them")
			return // the other messages would fail too
		}
		failpoint.Here(failpoint.PublishJobAfter)
	}
}

// Done publishes that a run is terminal: the rendered run object goes to the inbox of the waiting
// ingress, if any, and a notice to the run's subscribers.
func (b *Bus) Done(runID, replyTo string, result []byte) {
	// The waiting request is answered before subscribers are notified.
	b.reply(runID, replyTo, result)
	b.publish(contract.SubjectDone+runID, nil)
}

// Ended is like Done, but its notice also contains the last event of the run's log, with the
// event's position and the run's status. A subscriber then need not read the log. The notice omits
// an event that is too large for a message.
func (b *Bus) Ended(runID, replyTo string, result []byte, at domain.EventID, status domain.RunStatus) {
	b.reply(runID, replyTo, result)

	// Without its lines, a chunk contains only the event's position. The receivers then read the
	// log.
	last := domain.EventChunk{Fence: at.Fence, First: at.N}
	if len(result) < maxEvents {
		event := domain.EndedEvent(at, status, result)
		last.Lines = domain.AppendEventLine(nil, event.Type, event.Data)
	}
	b.publish(contract.SubjectDone+runID, eventMessage(last))
}

// reply sends a run's rendered object to the inbox of the waiting ingress, if any.
func (b *Bus) reply(runID, replyTo string, result []byte) {
	// A run that was started by a schedule or a webhook has no waiting request.
	if replyTo == "" {
		return
	}
	if int64(len(result)) > b.nc.MaxPayload() {
		result = nil // the result is too large for a message, so the ingress reads it from the database
	}
	b.publish(replyTo+"."+runID, result)
}

// Cancelled notifies the worker that executes a run, so that the worker stops the run. If the
// message is lost, the worker notices the end of the run when it renews the lease.
func (b *Bus) Cancelled(runID string) { b.publish(contract.SubjectCancel+runID, nil) }

// publish publishes a message of core NATS. It only logs an error, because the receivers also poll
// the database.
func (b *Bus) publish(subject string, body []byte) {
	if err := b.nc.Publish(subject, body); err != nil {
		b.log.Debug().Err(err).Str("run_id", contract.RunIDFor(subject)).Msg("notification not sent; receivers will poll")
	}
}

// NewInbox returns a unique subject prefix for replies.
func (b *Bus) NewInbox() string { return b.nc.NewInbox() }

// OnReplies calls f with the run id and the rendered object of each reply to the inbox, from one
// goroutine. An empty object means that the result is too large for a message. The receiver
// then reads the result from the database.
func (b *Bus) OnReplies(inbox string, f func(runID string, result []byte)) (stop func(), err error) {
	return b.subscribe(inbox+".*", func(m *nats.Msg) { f(contract.RunIDFor(m.Subject), m.Data) })
}

// OnDone calls f when a notice arrives that the run is terminal. By the time OnDone returns, the
// server has registered the subscription.
func (b *Bus) OnDone(ctx context.Context, runID string, f func()) (stop func(), err error) {
	// A notice that was sent before the server had registered the subscription is lost. The caller
	// must therefore read the run after OnDone returns.
	stop, err = b.subscribe(contract.SubjectDone+runID, func(*nats.Msg) { f() })
	if err != nil {
		return nil, err
	}

	// The server processes messages of a connection in order. After the flush it has the
	// subscription.
	if err := b.flush(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return stop, nil
}

// OnCancelled calls f with the id of each run that any process cancels, from one goroutine.
func (b *Bus) OnCancelled(f func(runID string)) (stop func(), err error) {
	return b.subscribe(contract.SubjectCancel+"*", func(m *nats.Msg) { f(contract.RunIDFor(m.Subject)) })
}

// subscribe calls f with each message on a subject. The returned function ends the subscription.
func (b *Bus) subscribe(subject string, f nats.MsgHandler) (func(), error) {
	sub, err := b.nc.Subscribe(subject, f)
	if err != nil {
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1)             // no limit, because each run causes at most one message
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed
}
