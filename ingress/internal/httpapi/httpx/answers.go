package httpx

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

const (
	// LargeBytes is the minimum size in bytes of a large response. Smaller responses fit into the
	// buffers of the connection and are not limited.
	LargeBytes = rundb.ShortBytes

	// AnswersPerOrganization is the maximum number of bytes of large responses that one ingress
	// process writes simultaneously for one organization. A response stays in memory until its
	// client has read it.
	AnswersPerOrganization = 32 << 20
	// LargeAnswersInTotal is the maximum number of such bytes for all organizations together.
	LargeAnswersInTotal = 256 << 20

	// minPace and slowAfter define slow responses: the client has read fewer than minPace bytes per
	// second for at least slowAfter. The connection of a slow response may be closed to make room
	// for another organization's response.
	minPace   = 256 << 10 // bytes per second
	slowAfter = 2 * time.Second

	// AnswerPiece is the number of bytes written between two updates of the write deadline.
	AnswerPiece = 64 << 10
)

// LargeAnswers limits the total size of the large responses that are being sent.
type LargeAnswers struct {
	PerOrganization, AtOnce int64

	mu    sync.Mutex
	total int64 // sum of the sizes of the open responses
	open  []*LargeAnswer

	queue answerQueue
}

// LargeAnswer is one large response, counted from Enter to Leave.
type LargeAnswer struct {
	all   *LargeAnswers
	owner string // organization or demo visitor for which the response is counted; see answerOwner
	bytes int64
	sent  int64 // number of bytes that the client has read
	conn  *http.ResponseController
	began time.Time
	cut   bool // the connection was closed to make room for another response

	rendering bool   // the response is counted but not rendered yet
	made      func() // ends the response's turn in the answer queue; nil if the response did not wait there
}

// Enter counts a response of the given size. It returns the error rate_limited if the
// organization's limit is reached, and overloaded if the limit for all organizations is reached. An
// organization's first large response never exceeds its own limit, whatever the size. The caller
// must call Leave.
func (a *LargeAnswers) Enter(owner string, bytes int64, conn *http.ResponseController) (*LargeAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	own := int64(0)
	for _, other := range a.open {
		if other.owner == owner {
			own += other.bytes
		}
	}

	if own > 0 && own+bytes > a.PerOrganization {
		return nil, RateLimited(SlotRetryAfter, "this organization is reading too many large responses simultaneously")
	}

	now := time.Now()

	// Make room by closing the connections of slow responses of other organizations. A response
	// larger than the limit for all organizations may be sent alone.
	for a.total > 0 && a.total+bytes > a.AtOnce {
		if !a.closeSlowest(owner, now) {
			busy := apierr.New(apierr.Overloaded, "too many large responses are being read simultaneously; try again shortly")
			busy.RetryAfter = SlotRetryAfter
			return nil, busy
		}
	}

	entered := &LargeAnswer{all: a, owner: owner, bytes: bytes, conn: conn, began: now}
	a.open, a.total = append(a.open, entered), a.total+bytes
	return entered, nil
}

// closeSlowest closes the connection of the slowest response of another organization. It returns
// false if none of these responses is slow.
func (a *LargeAnswers) closeSlowest(owner string, now time.Time) bool {
	var slowest *LargeAnswer
	for _, other := range a.open {
		if other.owner != owner && other.slow(now) && (slowest == nil || other.pace(now) < slowest.pace(now)) {
			slowest = other
		}
	}

	if slowest == nil {
		return false
	}

	slowest.cut = true
	_ = slowest.conn.SetWriteDeadline(now) // interrupts the blocked write
	a.remove(slowest)
	return true
}

// Bytes returns the total size of the large responses in progress.
func (a *LargeAnswers) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// remove stops counting a response. If the response is not counted, remove does nothing. a.mu must
// be locked.
func (a *LargeAnswers) remove(gone *LargeAnswer) {
	if i := slices.Index(a.open, gone); i >= 0 {
		a.open, a.total = slices.Delete(a.open, i, i+1), a.total-gone.bytes
	}
}

// slow reports whether the client reads more slowly than minPace. l.all.mu must be locked.
func (l *LargeAnswer) slow(now time.Time) bool {
	return !l.rendering && now.Sub(l.began) >= slowAfter && l.pace(now) < minPace
}

// pace returns the client's average rate in bytes per second.
func (l *LargeAnswer) pace(now time.Time) float64 {
	return float64(l.sent) / max(now.Sub(l.began), time.Millisecond).Seconds()
}

// Leave stops counting the response. It may be called more than once and on nil.
func (l *LargeAnswer) Leave() {
	if l == nil {
		return
	}
	if l.made != nil {
		l.made()
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.remove(l)
}

// Write writes body in pieces. The write deadline is TransferTime after the start. Each byte sent
// extends it by the time that the byte would take at SlowestRate.
func (l *LargeAnswer) Write(w io.Writer, body []byte) error {
	for piece := range slices.Chunk(body, AnswerPiece) {
		if err := l.extend(); err != nil {
			return err
		}
		n, err := w.Write(piece)
		l.read(n)
		if err != nil {
			return fmt.Errorf("writing a large answer: %w", err)
		}
	}

	return nil
}

// extend sets the write deadline for the next piece. It returns overloaded if the connection was
// closed to make room for another response.
func (l *LargeAnswer) extend() error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.cut {
		return apierr.New(apierr.Overloaded, "too many large responses are being read simultaneously; try again shortly")
	}
	earned := time.Duration(l.sent) * time.Second / SlowestRate
	_ = l.conn.SetWriteDeadline(l.began.Add(TransferTime + earned)) // fails only for recorders in tests
	return nil
}

// read records that the client has read n bytes.
func (l *LargeAnswer) read(n int) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.sent += int64(n)
}

// answerOwner returns the key under which a caller's responses are counted: the organization, or
// the visitor for demo callers, who all share one organization.
func answerOwner(who domain.Caller) string {
	if who.Kind == domain.CallerDemo {
		return "demo:" + who.DemoClient
	}
	return who.OrganizationID
}

// CountAnswer counts a response of the given size against the caller's limit. If ReserveAnswer has
// already counted an estimate, CountAnswer corrects the size and returns the same LargeAnswer. It
// returns nil, nil if the response is not large.
func CountAnswer(c *gin.Context, bytes int) (*LargeAnswer, error) {
	st := StateFor(c)
	if reserved := st.reserved; reserved != nil {
		st.reserved = nil
		reserved.ready(int64(bytes))
		return reserved, nil
	}
	if bytes < LargeBytes || st.Large == nil {
		return nil, nil //nolint:nilnil // there is nothing to count
	}
	return st.Large.Enter(answerOwner(Caller(c)), int64(bytes), http.NewResponseController(c.Writer))
}

// ReserveAnswer waits for a turn in the answer queue and counts a response of the estimated size. A
// response beyond the limit is thus rejected before PostgreSQL reads it. If bytes is less than
// LargeBytes, ReserveAnswer does nothing. The turn ends when CountAnswer is called for the rendered
// response, or with EndReservation at the end of the request.
func ReserveAnswer(c *gin.Context, bytes int) error {
	st := StateFor(c)
	if bytes < LargeBytes || st.Large == nil {
		return nil
	}

	// A request has at most one reservation, so a second estimate replaces the first.
	EndReservation(c)
	owner := answerOwner(Caller(c))
	made, err := st.Large.queue.wait(c.Request.Context(), owner, bytes)
	if err != nil {
		return err
	}

	large, err := st.Large.Enter(owner, int64(bytes), http.NewResponseController(c.Writer))
	if err != nil {
		made()
		return err
	}

	large.reserve(made)
	st.reserved = large
	return nil
}

// ReserveFunc returns a function that releases the slot of the request's body and then calls
// ReserveAnswer. It is for requests whose run was already found or accepted, so that the body is no
// longer needed.
func ReserveFunc(c *gin.Context) func(bytes int) error {
	return func(bytes int) error {
		ReleaseBody(c)
		return ReserveAnswer(c, bytes)
	}
}

// EndReservation releases the reservation of a response that was not rendered.
func EndReservation(c *gin.Context) {
	st := StateFor(c)
	st.reserved.Leave()
	st.reserved = nil
}

// reserve marks the response as counted but not rendered. Until it is rendered, it is not slow.
func (l *LargeAnswer) reserve(made func()) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.rendering, l.made = true, made
}

// ready ends the rendering and replaces the estimated size with the actual one.
func (l *LargeAnswer) ready(bytes int64) {
	l.made()
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if slices.Contains(l.all.open, l) { // false if the connection was closed
		l.all.total += bytes - l.bytes
	}
	l.bytes, l.began, l.rendering = bytes, time.Now(), false
}

// SendBody responds with a JSON body. If there is no capacity for a large body, it responds with an
// error; see RefuseAnswer.
func SendBody(c *gin.Context, status int, body []byte) {
	large, err := CountAnswer(c, len(body))
	if err != nil {
		RefuseAnswer(c, err)
		return
	}

	if large == nil {
		c.Data(status, ContentJSON, body)
		return
	}

	defer large.Leave()

	c.Header("Content-Type", ContentJSON)
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Status(status)
	c.Writer.WriteHeaderNow()
	if large.Write(c.Writer, body) != nil { // the client disconnected or was too slow
		c.Abort()
	}
}

// RefuseAnswer responds with err in place of a response that cannot be sent. If capacity is lacking
// after a POST request has created or found a run, the Location header contains the URL at which
// the run can be read.
func RefuseAnswer(c *gin.Context, err error) {
	full := apierr.CodeFor(err) == apierr.RateLimited || apierr.CodeFor(err) == apierr.Overloaded
	if run := StateFor(c).RunID; full && run != "" && c.Request.Method == http.MethodPost {
		c.Header("Location", "/api/runs?id="+run)
	}
	Fail(c, err)
}

const (
	// TransferTime is the minimum time allowed for a whole transfer. Each byte transferred extends
	// the deadline by the time that the byte takes at SlowestRate. The server's write timeout would
	// abort large files on slow connections. A timeout per piece would let a client stay connected
	// for hours by reading a piece now and then.
	TransferTime = time.Minute

	// SlowestRate is the lowest accepted rate for documents and files, in bytes per second.
	SlowestRate = 16 << 10
)
