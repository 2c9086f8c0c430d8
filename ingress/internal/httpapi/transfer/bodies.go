package transfer

import (
	"io"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	// Maximum numbers of simultaneous large messages at one ingress process.
	messagesPerCredential   = 4
	messagesPerOrganization = 8
	messagesAtOnce          = 32
)

// Messages is the policy for large bodies that contain a message. The limits are low, because
// memory contains several copies of such a body until its run is accepted.
var Messages = &Policy{
	Bounds: Bounds{messagesPerCredential, messagesPerOrganization, messagesAtOnce / AddressShare, messagesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
	Doing: "this %s is sending too many large messages simultaneously", TooMany: "too many large messages are being sent simultaneously",
	Limit: LimitArrival,
}

// Bodies limits large bodies that contain a message. It implements httpx.LargeBodies. It is safe
// for concurrent use. An ingress process has one.
type Bodies struct {
	Limiter

	// Returns the session check of a request.
	Permit func(c *gin.Context) httpx.SessionCheck
}

// Receive takes a slot for a request and returns a reader for the rest of its body. The argument
// limit is the maximum size of the whole body in bytes. The wait for a slot takes at most the Queue
// time of the policy. The errors are those of the function Receive.
func (b *Bodies) Receive(c *gin.Context, limit int64) (body io.Reader, leave func(), err error) {
	in, err := Receive(c, OwnerFor(c), b.Permit(c), Step{All: &b.Limiter, Max: limit})
	if err != nil {
		return nil, nil, err
	}
	return message{in}, in.Leave, nil
}

// message is an upload that sets no deadline after its last byte. The request may then wait for its
// run, and the client does not count as slow during this wait. Package httpx reads the upload.
type message struct{ in *Upload }

// Read reads from the body. At its end, Read records that the client has sent everything. Read then
// returns an error instead of io.EOF if another transfer has taken the slot.
func (m message) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if err == io.EOF { //nolint:errorlint // a body never wraps io.EOF
		if cut := m.in.From.arrived(); cut != nil {
			return n, cut
		}
	}
	return n, err
}
