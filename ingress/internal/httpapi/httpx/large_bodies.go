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

// LargeBodies limits the number of simultaneous bodies of more than MaxBody bytes. While the run of
// such a body is being accepted, memory contains several copies of the body.
type LargeBodies interface {
	// Receive takes a slot and returns a reader for the rest of the request's body. leave releases
	// the slot.
	Receive(c *gin.Context, maximum int64) (body io.Reader, leave func(), err error)
}

// MessageBody returns the maximum size, in bytes, of a JSON body that contains a message. For
// visitors of widgets and of the demo, the maximum is only MaxBody, because they need no account
// and do not pay for their runs.
func MessageBody(who domain.Caller) int64 {
	if who.Kind == domain.CallerDemo || who.Visitor.ID != "" {
		return MaxBody
	}
	return MaxMessageBody
}

// CollectMessage is Collect for bodies that contain a message.
func CollectMessage[T any](c *gin.Context) (T, *Problems, error) {
	return collectUpTo[T](c, MessageBody(Caller(c)))
}

// ReleaseBody releases the slot of a large body. It is called when the body is no longer needed.
func ReleaseBody(c *gin.Context) {
	st := StateFor(c)
	if st.leaveBody != nil {
		st.leaveBody()
		st.leaveBody = nil
	}
}

// readInto reads a request's body into buf. It returns an error if the body has more bytes than
// maximum. If the body has more than MaxBody bytes, readInto takes a slot; see LargeBodies. A body
// in chunks may be of any length up to the maximum. The slot is released by ReleaseBody or at the
// end of the request.
func readInto(c *gin.Context, buf *bytes.Buffer, maximum int64) error {
	req := c.Request
	req.Body = http.MaxBytesReader(c.Writer, req.Body, maximum)

	// Most bodies are small and need no slot. A chunked body needs a slot once it exceeds MaxBody.
	if req.ContentLength <= MaxBody { // -1 (chunked) means that the length is unknown
		n, err := io.CopyN(buf, req.Body, MaxBody)
		if errors.Is(err, io.EOF) || err == nil && n == req.ContentLength {
			return nil
		}
		if err != nil {
			return bodyError(err, maximum)
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
	return bodyError(err, maximum)
}

// bodyError returns the API error for a body that could not be read, or nil if err is nil.
func bodyError(err error, maximum int64) error {
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
