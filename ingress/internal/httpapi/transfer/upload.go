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
	// AnswerTime is how long an upload may take to be stored and answered after its last byte.
	AnswerTime  = time.Minute // behind the last byte of an upload, to store it and to answer
	extendEvery = 64 << 10    // bytes
	// AnyBytes allows an upload any number of bytes.
	AnyBytes = -1
)

// ErrNotAllowed ends a body that sends more than it is allowed to send now.
var ErrNotAllowed = errors.New("the header of a part is too large")

// LimitArrival bounds the time of a body that comes, and of its answer.
func LimitArrival(conn *http.ResponseController, until time.Time) {
	_ = conn.SetReadDeadline(until) // tests' recorders have none
	_ = conn.SetWriteDeadline(until.Add(AnswerTime))
}

// Step is where a body has its slot until it has Most bytes.
type Step struct {
	All *Limiter
	Max int64
}

// Upload is a body as it comes: for as long as it has its slot, its client sends fast enough and its credential holds. As it grows it goes
// from step to step.
type Upload struct {
	Body        io.Reader
	From        *Slot
	ctx         context.Context //nolint:containedctx // that of the request whose body this is
	steps       []Step          // that after From's are left
	edge        int64           // bytes: with more it goes on to the next of them
	may         httpx.Permit
	came, until int64 // bytes, and how many until the client is given more time
	Allowed     int64 // bytes that may come now, or anyBytes
	Err         error // why no more comes, in words for the client
}

// Receive takes a slot for the request's body, for as long as the permit holds. A body whose length is known begins at the step that it
// fits, others at the first one; none may have more bytes than the last step takes. The slot must be left.
func Receive(c *gin.Context, who Owner, may httpx.Permit, steps ...Step) (*Upload, error) {
	length, limit := c.Request.ContentLength, steps[len(steps)-1].Max
	if length > limit {
		return nil, httpx.TooLarge(limit)
	}
	for length > steps[0].Max {
		steps = steps[1:]
	}
	if length >= 0 {
		steps = steps[:1]
	}
	from, err := steps[0].All.EnterSoon(c.Request.Context(), who, http.NewResponseController(c.Writer))
	if err != nil {
		return nil, err
	}
	return &Upload{
		Body: http.MaxBytesReader(c.Writer, c.Request.Body, limit), From: from, ctx: c.Request.Context(), steps: steps[1:],
		edge: steps[0].Max, may: may, Allowed: AnyBytes,
	}, nil
}

// climb takes a slot of the next step once a body outgrows its own.
func (r *Upload) climb() error {
	if len(r.steps) == 0 || r.came <= r.edge {
		return nil
	}
	next := r.steps[0]
	from, err := next.All.EnterSoon(r.ctx, r.From.Owner, r.From.conn)
	if err != nil {
		return err
	}
	r.Leave()
	r.From, r.steps, r.edge, r.until = from, r.steps[1:], next.Max, r.came
	return nil
}

// Complete says that no more is waited for: from now on the upload is stored and answered.
func (r *Upload) Complete() {
	r.From.rest(AnswerTime)
	if r.From.all.UntilWhole {
		r.Leave()
	}
}

// Leave gives the slot back. What is left of the body is not waited for.
func (r *Upload) Leave() { r.From.all.Leave(r.From) }

// Allow bounds what may come from now on.
func (r *Upload) Allow(n int64) { r.Allowed = n }

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
	if r.Err = r.climb(); r.Err != nil {
		return 0, r.Err
	}
	if len(r.steps) > 0 {
		p = p[:min(int64(len(p)), r.edge+1-r.came)]
	}
	if r.Err = r.goOn(); r.Err != nil {
		return 0, r.Err
	}
	r.From.Wait()
	n, err = r.Body.Read(p)
	r.From.moved(n)
	r.came += int64(n)
	if r.Allowed > 0 {
		r.Allowed -= int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.Err = r.why(err)
		err = r.Err
	}
	return n, err
}

// goOn gives the client time for more, every now and then, or says why it gets none.
func (r *Upload) goOn() error {
	if r.came < r.until {
		return nil
	}
	r.until = r.came + extendEvery
	if err := r.From.Extend(r.came); err != nil {
		return err
	}
	if !r.may.Holds(time.Now()) {
		return apierr.New(apierr.Unauthenticated, "the credential is no longer valid")
	}
	return nil
}

// why tells what ended a body.
func (r *Upload) why(err error) error {
	if tooMuch, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return httpx.TooLarge(tooMuch.Limit)
	}
	if lost := r.From.Extend(r.came); lost != nil {
		return lost
	}
	return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body was not received completely")
}
