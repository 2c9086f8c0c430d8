package floor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// inbox publishes the jobs of an ingress. It receives the replies over core NATS and passes each
// reply to the handler that waits for it. It is safe for concurrent use.
type inbox struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	subject string        // prefix of the subjects of replies: the replies to an id arrive at subject.id
	last    atomic.Uint64 // number of the last id

	mu      sync.Mutex
	waiting map[string]chan []byte
}

// openInbox connects to NATS. The caller must close the field nc.
func openInbox(ctx context.Context, url, name string) (*inbox, error) {
	nc, js, _, err := openStream(ctx, url, name)
	if err != nil {
		return nil, err
	}
	i := &inbox{nc: nc, js: js, subject: nats.NewInbox(), waiting: map[string]chan []byte{}}
	i.last.Store(uint64(time.Now().UnixNano())) // so that another process has other ids
	if _, err := nc.Subscribe(i.subject+".*", i.receive); err != nil {
		nc.Close()
		return nil, fmt.Errorf("subscribing to replies: %w", err)
	}
	return i, nil
}

// newID returns a new id. All ids have the same length, so newer ids sort after older ones.
func (i *inbox) newID() string { return strconv.FormatUint(i.last.Add(1), 36) }

// submit publishes the job with the given id. It returns a channel that receives the replies until
// forget is called. The argument size is the maximum number of unread replies in the channel.
func (i *inbox) submit(id, message string, size int) (<-chan []byte, error) {
	replies := make(chan []byte, size)
	i.mu.Lock()
	i.waiting[id] = replies
	i.mu.Unlock()
	_, err := i.js.PublishMsgAsync(&nats.Msg{Subject: jobs + id, Data: []byte(message), Header: nats.Header{replyTo: {i.subject}}})
	return replies, err
}

// forget stops the reception of replies to an id. Later replies are dropped.
func (i *inbox) forget(id string) {
	i.mu.Lock()
	delete(i.waiting, id)
	i.mu.Unlock()
}

// receive passes a reply to the channel of its id without waiting.
func (i *inbox) receive(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if replies := i.waiting[lastToken(m.Subject)]; replies != nil {
		select {
		case replies <- m.Data:
		default: // a full channel means that the job was delivered twice
		}
	}
}
