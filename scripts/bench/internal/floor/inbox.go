package floor

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// inbox receives the replies of an ingress over core NATS and passes them to the handlers that wait
// for them.
type inbox struct {
	subject string // replies to an id are published to subject.id
	prefix  string
	count   atomic.Uint64

	mu      sync.Mutex
	waiting map[string]chan []byte
}

func newInbox(nc *nats.Conn) (*inbox, error) {
	i := &inbox{
		subject: nats.NewInbox(), prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-", waiting: map[string]chan []byte{},
	}
	if _, err := nc.Subscribe(i.subject+".*", i.receive); err != nil {
		return nil, fmt.Errorf("subscribing to replies: %w", err)
	}
	return i, nil
}

// newID returns a new id. All ids have the same length, so that they sort in order.
func (i *inbox) newID() string { return i.prefix + strconv.FormatUint(1<<40+i.count.Add(1), 36) }

// await returns a channel that receives at most size replies to an id, until forget is called.
func (i *inbox) await(id string, size int) <-chan []byte {
	replies := make(chan []byte, size)
	i.mu.Lock()
	i.waiting[id] = replies
	i.mu.Unlock()
	return replies
}

func (i *inbox) forget(id string) {
	i.mu.Lock()
	delete(i.waiting, id)
	i.mu.Unlock()
}

// job is the message of a job, whose replies come to this inbox.
func (i *inbox) job(id, message string) *nats.Msg {
	return &nats.Msg{Subject: jobs + id, Data: []byte(message), Header: nats.Header{replyTo: {i.subject}}}
}

func (i *inbox) receive(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if replies := i.waiting[lastToken(m.Subject)]; replies != nil {
		select {
		case replies <- m.Data:
		default: // the job was delivered twice
		}
	}
}
