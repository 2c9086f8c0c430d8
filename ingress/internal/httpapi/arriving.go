package httpapi

import (
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
	// Uploads that may come to an ingress at once: each holds a part of its content in memory.
	uploadsPerCredential   = 4
	uploadsPerOrganization = 8
	uploadsAtOnce          = 64
	// Those in JSON are in memory as a whole.
	textsPerCredential   = 1
	textsPerOrganization = 2
	textsAtOnce          = 4

	answerTime  = time.Minute // behind the last byte of an upload, to store it and to answer
	extendEvery = 64 << 10    // bytes
	anyBytes    = -1
)

// errFormHeader ends a body that sends more than it is allowed to send now.
var errFormHeader = errors.New("the header of a part has too many bytes")

// incoming are documents that are sent, incomingText those of them that come as JSON.
var (
	incoming = &traffic{
		bounds: bounds{uploadsPerCredential, uploadsPerOrganization, uploadsAtOnce / addressShare, uploadsAtOnce}, pace: httpx.SlowestRate, patience: paceTime,
		doing: "sending too many documents at once", tooMany: "too many documents are being sent at once", limit: limitArrival,
	}
	incomingText = &traffic{
		bounds: bounds{textsPerCredential, textsPerOrganization, textsAtOnce / addressShare, textsAtOnce}, pace: httpx.SlowestRate, patience: paceTime,
		doing:   "sending too many documents as JSON at once; a form takes more",
		tooMany: "too many documents are being sent as JSON at once; a form takes more", limit: limitArrival,
	}
)

func limitArrival(conn *http.ResponseController, until time.Time) {
	_ = conn.SetReadDeadline(until) // tests' recorders have none
	_ = conn.SetWriteDeadline(until.Add(answerTime))
}

// arriving is a body as it comes: for as long as it has its place, its client sends fast enough and its credential holds.
type arriving struct {
	body        io.Reader
	from        *place
	may         httpx.Permit
	came, until int64 // bytes, and how many until the client is given more time
	allowed     int64 // bytes that may come now, or anyBytes
	err         error // why no more comes, in words for the client
}

// arrive takes a slot of all for the request's body of up to most bytes, for as long as the permit holds. The slot must be left.
func arrive(c *gin.Context, all *transfers, most int64, may httpx.Permit) (*arriving, error) {
	if c.Request.ContentLength > most {
		return nil, httpx.TooLarge(most)
	}
	from, err := all.enter(transferrerOf(c), http.NewResponseController(c.Writer))
	if err != nil {
		return nil, err
	}
	return &arriving{body: http.MaxBytesReader(c.Writer, c.Request.Body, most), from: from, may: may, allowed: anyBytes}, nil
}

// whole says that no more is waited for: from now on the upload is stored and answered.
func (r *arriving) whole() { r.from.rest(answerTime) }

// leave gives the place back. What is left of the body is not waited for.
func (r *arriving) leave() { r.from.all.leave(r.from) }

// allow bounds what may come from now on.
func (r *arriving) allow(n int64) { r.allowed = n }

func (r *arriving) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case len(p) == 0:
		return 0, nil
	case r.allowed == 0:
		r.err = errFormHeader
		return 0, r.err
	case r.allowed > 0:
		p = p[:min(int64(len(p)), r.allowed)]
	}
	if r.err = r.goOn(); r.err != nil {
		return 0, r.err
	}
	r.from.wait()
	n, err = r.body.Read(p)
	r.from.moved(n)
	r.came += int64(n)
	if r.allowed > 0 {
		r.allowed -= int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.err = r.why(err)
		err = r.err
	}
	return n, err
}

// goOn gives the client time for more, every now and then, or says why it gets none.
func (r *arriving) goOn() error {
	if r.came < r.until {
		return nil
	}
	r.until = r.came + extendEvery
	if err := r.from.extend(r.came); err != nil {
		return err
	}
	if !r.may.Holds(time.Now()) {
		return apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	}
	return nil
}

// why tells what ended a body.
func (r *arriving) why(err error) error {
	if tooMuch, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return httpx.TooLarge(tooMuch.Limit)
	}
	if lost := r.from.extend(r.came); lost != nil {
		return lost
	}
	return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body did not arrive whole")
}
