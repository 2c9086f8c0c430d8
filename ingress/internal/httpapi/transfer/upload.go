package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

const (
	// AnswerTime is the time limit for storing an upload and responding to it. It begins after the
	// last byte of the upload.
	AnswerTime  = time.Minute
	extendEvery = 64 << 10 // bytes between two extensions of the deadline
	// AnyBytes is the value of Upload.Allowed that permits any number of bytes.
	AnyBytes = -1
)

// ErrNotAllowed is the error if an upload sends more bytes than Allow permits.
var ErrNotAllowed = errors.New("the header of a part is too large")

// LimitArrival sets the deadlines of a connection. The time for receiving the body ends at until,
// and the time for the response ends AnswerTime later.
func LimitArrival(conn *http.ResponseController, until time.Time) {
	_ = conn.SetReadDeadline(until) // fails only for the recorders of tests
	_ = conn.SetWriteDeadline(until.Add(AnswerTime))
}

// Step is a limiter whose slot a body has as long as the body has at most Max bytes.
type Step struct {
	All *Limiter
	Max int64
}

// Upload reads a body as long as it has its slot, its client is fast enough and its credential is
// valid. A growing body moves from one Step to the next. An Upload is used by one goroutine.
type Upload struct {
	Body            io.Reader
	From            *Slot
	ctx             context.Context //nolint:containedctx // of the body's request
	steps           []Step          // the steps after the current one
	edge            int64           // the number of bytes above which the upload moves to the next step
	permit          httpx.SessionCheck
	received, until int64 // number of received bytes, and the number at which the deadline is extended next
	Allowed         int64 // number of bytes that may be read now, or AnyBytes
	Err             error // why reading ended, as an API error
}

// Receive takes a slot for the request's body. Reads return an error after the session check of the
// caller has failed. A body of known length begins at the step into which it fits; any other body
// begins at the first step. A body must not exceed the Max of the last step. The caller must call
// Leave.
func Receive(c *gin.Context, who Owner, permit httpx.SessionCheck, steps ...Step) (*Upload, error) {
	length, limit := c.Request.ContentLength, steps[len(steps)-1].Max
	if length > limit {
		return nil, httpx.TooLarge(limit)
	}

	for length > steps[0].Max {
		steps = steps[1:]
	}

	// A body of known length keeps the slot of the step at which it begins.
	if length >= 0 {
		steps = steps[:1]
	}

	from, err := steps[0].All.EnterOrWait(c.Request.Context(), who, http.NewResponseController(c.Writer))
	if err != nil {
		return nil, err
	}
	return &Upload{
		Body: http.MaxBytesReader(c.Writer, c.Request.Body, limit), From: from, ctx: c.Request.Context(), steps: steps[1:],
		edge: steps[0].Max, permit: permit, Allowed: AnyBytes,
	}, nil
}

// advance takes a slot at the next step when the body has become too large for the current step. It
// waits for the slot of the next step, and then releases the current one. It keeps the current slot
// after an error.
func (r *Upload) advance() error {
	if len(r.steps) == 0 || r.received <= r.edge {
		return nil
	}

	next := r.steps[0]
	from, err := next.All.EnterOrWait(r.ctx, r.From.Owner, r.From.conn)
	if err != nil {
		return err
	}

	r.Leave()
	r.From, r.steps, r.edge, r.until = from, r.steps[1:], next.Max, r.received
	return nil
}

// Complete records that the whole body was received. AnswerTime then remains for storing the body
// and responding. Complete must be called before the service stores the body, so that the client
// does not count as slow.
func (r *Upload) Complete() {
	r.From.setDeadline(AnswerTime)
	if r.From.all.UntilWhole {
		r.Leave()
	}
}

// Leave releases the slot. The rest of the body is not read.
func (r *Upload) Leave() { r.From.all.Leave(r.From) }

// Allow limits the number of bytes that may be read from now on. It protects parsers that read a
// header of unknown length. AnyBytes removes the limit.
func (r *Upload) Allow(n int64) { r.Allowed = n }

// Read reads from the body. Its errors are API errors, except for io.EOF and ErrNotAllowed. After
// an error, each call returns the same error.
func (r *Upload) Read(p []byte) (n int, err error) {
	switch {
	case r.Err != nil:
		return 0, r.Err
	case len(p) == 0:
		return 0, nil
	case r.Allowed == 0:
		r.Err = ErrNotAllowed
		return 0, r.Err
	case r.Allowed > 0:
		p = p[:min(int64(len(p)), r.Allowed)]
	}

	if r.Err = r.advance(); r.Err != nil {
		return 0, r.Err
	}

	// Read up to one byte more than the limit. This byte shows whether the body needs the next
	// step.
	if len(r.steps) > 0 {
		p = p[:min(int64(len(p)), r.edge+1-r.received)]
	}
	if r.Err = r.extendDeadline(); r.Err != nil {
		return 0, r.Err
	}

	r.From.Wait()
	n, err = r.Body.Read(p)
	r.From.moved(n)
	r.received += int64(n)
	if r.Allowed > 0 {
		r.Allowed -= int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.Err = r.readError(err)
		err = r.Err
	}
	return n, err
}

// extendDeadline extends the client's deadline every extendEvery bytes. It returns an error if the
// transfer was aborted to make room for another, or if its credential is no longer valid.
func (r *Upload) extendDeadline() error {
	if r.received < r.until {
		return nil
	}

	r.until = r.received + extendEvery
	if err := r.From.Extend(r.received); err != nil {
		return err
	}
	if !r.permit.Holds(time.Now()) {
		return apierr.New(apierr.Unauthenticated, "the credential is no longer valid")
	}
	return nil
}

// readError returns the API error for a failed read. If the transfer was aborted to make room for
// another, readError states this reason, which is more useful than the error of the connection.
func (r *Upload) readError(err error) error {
	if tooMuch, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return httpx.TooLarge(tooMuch.Limit)
	}
	if cutError := r.From.Extend(r.received); cutError != nil {
		return cutError
	}
	return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body was not received completely")
}
