package floor

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// inbox receives the replies for an ingress over core NATS and passes each reply to the handler
// that waits for it.
type inbox struct {
	subject string // prefix of the subjects of replies: the replies to an id arrive at subject.id
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

// newID returns a new id. All ids have the same length, so newer ids sort after older ones.
func (i *inbox) newID() string { return i.prefix + strconv.FormatUint(1<<40+i.count.Add(1), 36) }

// await returns a channel that receives the replies to an id until forget is called. The channel
// holds at most size unread replies.
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

// job returns the message of the job with the given id. It names this inbox as the destination of
// replies.
func (i *inbox) job(id, message string) *nats.Msg {
	return &nats.Msg{Subject: jobs + id, Data: []byte(message), Header: nats.Header{replyTo: {i.subject}}}
}

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
