package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

// PublishReaders sends a message to all ingresses, including this one. The message describes the
// clients that read events of runs. PublishReaders does not wait. It returns an error while the
// connection is lost; the message is then not sent later.
func (b *Bus) PublishReaders(body []byte) error {
	if err := b.nc.Publish(contract.SubjectReaders, body); err != nil {
		return fmt.Errorf("publishing reader counts: %w", err)
	}
	return nil
}

// OnReaders calls f with each message that PublishReaders sends, from one goroutine.
func (b *Bus) OnReaders(f func(body []byte)) (stop func(), err error) {
	return b.subscribe(contract.SubjectReaders, func(m *nats.Msg) { f(m.Data) })
}
