package transfer

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
	// UploadsPerCredential is how many uploads may come to an ingress at once: each holds a part of its content in memory.
	UploadsPerCredential = 4
	// UploadsPerOrganization is how many uploads an organization may have at an ingress.
	UploadsPerOrganization = 8
	// UploadsAtOnce is how many uploads there may be at an ingress.
	UploadsAtOnce = 64
	// Those in JSON are in memory as a whole.
	textsPerCredential   = 1
	textsPerOrganization = 2
	textsAtOnce          = 4

	// AnswerTime is how long an upload may take to be stored and answered after its last byte.
	AnswerTime  = time.Minute // behind the last byte of an upload, to store it and to answer
	extendEvery = 64 << 10    // bytes
	// AnyBytes allows an upload any number of bytes.
	AnyBytes = -1
)

// ErrNotAllowed ends a body that sends more than it is allowed to send now.
var ErrNotAllowed = errors.New("the header of a part has too many bytes")

// Documents are documents that are sent, incomingText those of them that come as JSON.
var (
	Documents = &Policy{
		Bounds: Bounds{UploadsPerCredential, UploadsPerOrganization, UploadsAtOnce / AddressShare, UploadsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime,
		Doing: "sending too many documents at once", TooMany: "too many documents are being sent at once", Limit: LimitArrival,
	}
	DocumentTexts = &Policy{
		Bounds: Bounds{textsPerCredential, textsPerOrganization, textsAtOnce / AddressShare, textsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime,
		Doing:   "sending too many documents as JSON at once; a form takes more",
		TooMany: "too many documents are being sent as JSON at once; a form takes more", Limit: LimitArrival,
	}
)

// LimitArrival bounds the time of a body that comes, and of its answer.
func LimitArrival(conn *http.ResponseController, until time.Time) {
	_ = conn.SetReadDeadline(until) // tests' recorders have none
	_ = conn.SetWriteDeadline(until.Add(AnswerTime))
}

// Upload is a body as it comes: for as long as it has its place, its client sends fast enough and its credential holds.
type Upload struct {
	Body        io.Reader
	From        *Slot
	may         httpx.Permit
	came, until int64 // bytes, and how many until the client is given more time
	Allowed     int64 // bytes that may come now, or anyBytes
	Err         error // why no more comes, in words for the client
}

// Receive takes a slot of all for the request's body of up to most bytes, for as long as the permit holds. The slot must be left.
func Receive(c *gin.Context, all *Limiter, most int64, may httpx.Permit) (*Upload, error) {
	if c.Request.ContentLength > most {
		return nil, httpx.TooLarge(most)
	}
	from, err := all.Enter(OwnerOf(c), http.NewResponseController(c.Writer))
	if err != nil {
		return nil, err
	}
	return &Upload{Body: http.MaxBytesReader(c.Writer, c.Request.Body, most), From: from, may: may, Allowed: AnyBytes}, nil
}

// Complete says that no more is waited for: from now on the upload is stored and answered.
func (r *Upload) Complete() { r.From.rest(AnswerTime) }

// Leave gives the place back. What is left of the body is not waited for.
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
		return apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
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
	return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body did not arrive whole")
}
