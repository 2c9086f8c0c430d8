package httpx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// LargeBodies gives slots to bodies of more than MaxBody bytes, which are in memory several times while their run is accepted.
type LargeBodies interface {
	// Receive takes a slot for the rest of a request's body. leave gives it back.
	Receive(c *gin.Context, maximum int64) (body io.Reader, leave func(), err error)
}

// MessageBody returns how many bytes of JSON a caller may send where a message is sent. Visitors of widgets and of the demo need no
// account, and others pay for their runs: they may send no more than in any other body.
func MessageBody(who domain.Caller) int64 {
	if who.Kind == domain.CallerDemo || who.Visitor.ID != "" {
		return MaxBody
	}
	return MaxMessageBody
}

// CollectMessage is Collect for bodies with a message.
func CollectMessage[T any](c *gin.Context) (T, *Problems, error) {
	return collectUpTo[T](c, MessageBody(Caller(c)))
}

// BodyDone gives back the slot of a large body, once nothing of the body is needed any more.
func BodyDone(c *gin.Context) {
	st := StateFor(c)
	if st.leaveBody != nil {
		st.leaveBody()
		st.leaveBody = nil
	}
}

// readInto reads a request's body of at most so many bytes into buf. A body of more than MaxBody bytes takes a slot first.
func readInto(c *gin.Context, buf *bytes.Buffer, maximum int64) error {
	req := c.Request
	req.Body = http.MaxBytesReader(c.Writer, req.Body, maximum)
	if req.ContentLength <= MaxBody { // a chunked body, of -1, tells its length at its end
		n, err := io.CopyN(buf, req.Body, MaxBody)
		if errors.Is(err, io.EOF) || err == nil && n == req.ContentLength {
			return nil
		}
		if err != nil {
			return brokenOff(err, maximum)
		}
	}
	from, all := io.Reader(req.Body), StateFor(c).LargeBodies
	if maximum > MaxBody && all != nil {
		rest, leave, err := all.Receive(c, maximum)
		if err != nil {
			return err
		}
		from, StateFor(c).leaveBody = rest, leave
	}
	buf.Grow(int(max(0, req.ContentLength-int64(buf.Len()))) + bytes.MinRead)
	_, err := buf.ReadFrom(from)
	return brokenOff(err, maximum)
}

// brokenOff returns the refusal of a body that could not be read, or nil if err is nil.
func brokenOff(err error, maximum int64) error {
	_, tooMuch := errors.AsType[*http.MaxBytesError](err)
	_, coded := errors.AsType[*apierr.Error](err)
	switch {
	case err == nil, coded:
		return err
	case tooMuch:
		return TooLarge(maximum)
	default:
		return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body was not received completely")
	}
}
