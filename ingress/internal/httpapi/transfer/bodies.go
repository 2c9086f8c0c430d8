package transfer

import (
	"io"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	messagesPerCredential   = 4
	messagesPerOrganization = 8
	messagesAtOnce          = 32
)

// Messages are large bodies with a message. Each is in memory several times from its first byte until its run is accepted.
var Messages = &Policy{
	Bounds: Bounds{messagesPerCredential, messagesPerOrganization, messagesAtOnce / AddressShare, messagesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
	Doing: "sending too many large messages simultaneously", TooMany: "too many large messages are being sent simultaneously",
	Limit: LimitArrival,
}

// Bodies gives slots to large bodies with a message. It implements httpx.LargeBodies.
type Bodies struct {
	Limiter

	Permit func(c *gin.Context) httpx.Permit
}

// Receive takes a slot for the rest of a request's body.
func (b *Bodies) Receive(c *gin.Context, limit int64) (body io.Reader, leave func(), err error) {
	in, err := Receive(c, OwnerFor(c), b.Permit(c), Step{All: &b.Limiter, Max: limit})
	if err != nil {
		return nil, nil, err
	}
	return message{in}, in.Leave, nil
}

// message is an upload that depends on its client until its last byte has come, and sets no deadline after it: the request may wait for
// its run.
type message struct{ in *Upload }

func (m message) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if err == io.EOF { //nolint:errorlint // the end of a body is never wrapped
		if cut := m.in.From.arrived(); cut != nil {
			return n, cut
		}
	}
	return n, err
}
