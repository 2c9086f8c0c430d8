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
	// LargeBytes is the minimum size in bytes of a large response. Smaller responses are not
	// limited, because they fit into the connection's buffers.
	LargeBytes = rundb.ShortBytes

	// AnswersPerOrganization is the maximum total size, in bytes, of the large responses to one
	// organization that an ingress process writes at the same time. Each of them stays in memory
	// until its client has read it.
	AnswersPerOrganization = 32 << 20
	// LargeAnswersInTotal is the maximum total size, in bytes, of all large responses that an
	// ingress process writes at the same time.
	LargeAnswersInTotal = 256 << 20

	// A response is slow if it is in progress for at least slowAfter and its client has read fewer
	// than minPace bytes per second. The connection of a slow response may be closed to make room
	// for the response to another organization.
	minPace   = 256 << 10 // bytes per second
	slowAfter = 2 * time.Second

	// AnswerPiece is the number of bytes that are written before the write deadline is set again.
	AnswerPiece = 64 << 10
)

// LargeAnswers limits the total size of the large responses that are being sent. It is safe for
// concurrent use. There is one per process.
type LargeAnswers struct {
	// Limits in bytes.
	PerOrganization, AtOnce int64

	mu    sync.Mutex
	total int64 // sum of the sizes of the responses in open
	open  []*LargeAnswer

	queue answerQueue
}

// LargeAnswer is one large response, counted from Enter to Leave.
type LargeAnswer struct {
	all   *LargeAnswers
	owner string // organization or demo visitor to which the response belongs; see answerOwner
	// Size of the response, which may be an estimate.
	bytes int64
	sent  int64 // number of bytes that the client has read
	conn  *http.ResponseController
	began time.Time
	cut   bool // whether the connection was closed to make room for another response

	rendering bool   // whether the response is counted but not rendered yet
	made      func() // ends the turn of the response in the answer queue; nil if it had no turn
}

// Enter counts a response of the given size, until the caller calls Leave. The error is
// rate_limited if the response would exceed the limit of its organization. The error is overloaded
// if the response would exceed the limit for all organizations. The limit of an organization does
// not apply if it has no other large response in progress.
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

	// Make room by closing the connections of slow responses to other organizations. A response
	// that exceeds the limit by itself may be sent alone.
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

// closeSlowest closes the connection of the slowest response to another organization. It returns
// false if no such response is slow.
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

// remove stops counting a response. It does nothing if the response is not counted. The caller must
// hold a.mu.
func (a *LargeAnswers) remove(gone *LargeAnswer) {
	if i := slices.Index(a.open, gone); i >= 0 {
		a.open, a.total = slices.Delete(a.open, i, i+1), a.total-gone.bytes
	}
}

// slow reports whether the response is slow; see minPace. The caller must hold l.all.mu.
func (l *LargeAnswer) slow(now time.Time) bool {
	return !l.rendering && now.Sub(l.began) >= slowAfter && l.pace(now) < minPace
}

// pace returns the client's average rate in bytes per second.
func (l *LargeAnswer) pace(now time.Time) float64 {
	return float64(l.sent) / max(now.Sub(l.began), time.Millisecond).Seconds()
}

// Leave stops counting the response. It may be called more than once. On a nil LargeAnswer it does
// nothing.
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

// Write writes body in pieces. The write deadline is TransferTime after the start of the response.
// Each byte sent extends the deadline by the time that a byte takes at SlowestRate. The caller has
// sent the headers. The error is overloaded, or an error of the connection.
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
	_ = l.conn.SetWriteDeadline(l.began.Add(TransferTime + earned)) // fails only for the response recorders of tests
	return nil
}

// read records that the client has received n bytes.
func (l *LargeAnswer) read(n int) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.sent += int64(n)
}

// answerOwner returns the name under which a caller's responses are counted: the organization or,
// for demo callers, who all share one organization, the visitor.
func answerOwner(who domain.Caller) string {
	if who.Kind == domain.CallerDemo {
		return "demo:" + who.DemoClient
	}
	return who.OrganizationID
}

// CountAnswer counts a response of the given size against the caller's limit. If ReserveAnswer has
// counted an estimate, CountAnswer replaces the estimate by the given size. The caller must call
// Leave on the result. If the response is not large, the result is nil, on which Leave does
// nothing.
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
	return st.Large.Enter(answerOwner(st.Ident.Caller), int64(bytes), http.NewResponseController(c.Writer))
}

// ReserveAnswer waits for a turn in the answer queue and counts a response of the estimated size.
// Therefore a response beyond the limit is rejected before PostgreSQL reads its data. If bytes is
// less than LargeBytes, ReserveAnswer does nothing. The turn ends when the response is rendered and
// CountAnswer is called, or when EndReservation is called.
func ReserveAnswer(c *gin.Context, bytes int) error {
	st := StateFor(c)
	if bytes < LargeBytes || st.Large == nil {
		return nil
	}

	// A request has at most one reservation, so end an earlier one.
	st.endReservation()
	owner := answerOwner(st.Ident.Caller)
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
// ReserveAnswer. It is for requests whose run was already found or accepted and whose body is
// therefore no longer needed.
func ReserveFunc(c *gin.Context) func(bytes int) error {
	return func(bytes int) error {
		ReleaseBody(c)
		return ReserveAnswer(c, bytes)
	}
}

// EndReservation releases the reservation of a response that will not be rendered, if there is one.
func EndReservation(c *gin.Context) { StateFor(c).endReservation() }

func (st *State) endReservation() {
	st.reserved.Leave()
	st.reserved = nil
}

// reserve records that the response is counted but not rendered yet. A response is not slow before
// it is rendered.
func (l *LargeAnswer) reserve(made func()) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.rendering, l.made = true, made
}

// ready records that the response is rendered, and replaces its estimated size by the actual one.
func (l *LargeAnswer) ready(bytes int64) {
	l.made()
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if slices.Contains(l.all.open, l) { // false if the connection was closed
		l.all.total += bytes - l.bytes
	}
	l.bytes, l.began, l.rendering = bytes, time.Now(), false
}

// SendBody responds with a JSON body. If there is no capacity for a large response, it responds
// with an error; see RefuseAnswer.
func SendBody(c *gin.Context, status int, body []byte) {
	if err := WriteBody(c, status, body); err != nil {
		RefuseAnswer(c, err)
	}
}

// WriteBody responds with a JSON body. If there is no capacity for a large response, it writes
// nothing and returns an error, which the caller must pass to RefuseAnswer.
func WriteBody(c *gin.Context, status int, body []byte) error {
	large, err := CountAnswer(c, len(body))
	if err != nil {
		return err
	}
	if large == nil {
		c.Data(status, ContentJSON, body)
		return nil
	}

	defer large.Leave()

	c.Header("Content-Type", ContentJSON)
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Status(status)
	c.Writer.WriteHeaderNow()
	if large.Write(c.Writer, body) != nil { // the client disconnected or was too slow
		c.Abort()
	}
	return nil
}

// RefuseAnswer responds with err, because the actual response cannot be sent. If the request is a
// POST that has created or found a run, the client must be able to read the run later. If there is
// no capacity for the response, the Location header therefore contains the URL of the run.
func RefuseAnswer(c *gin.Context, err error) {
	full := apierr.CodeFor(err) == apierr.RateLimited || apierr.CodeFor(err) == apierr.Overloaded
	if run := StateFor(c).RunID; full && run != "" && c.Request.Method == http.MethodPost {
		c.Header("Location", "/api/runs?id="+run)
	}
	Fail(c, err)
}

const (
	// TransferTime is the time allowed for a transfer, in addition to the time that its bytes take
	// at SlowestRate. The server's write timeout would be too short for large files on slow
	// connections. With a timeout for each piece, a client could stay connected for hours by
	// reading a piece now and then.
	TransferTime = time.Minute

	// SlowestRate is the lowest rate of a transfer that is accepted, in bytes per second.
	SlowestRate = 16 << 10
)
