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
	// LargeBytes is the size from which on answers are counted: smaller ones fit the buffers of their connection.
	LargeBytes = rundb.ShortBytes

	// AnswersPerOrganization is how many bytes of large answers an ingress writes at a time.
	// Each stays in memory until its client has read it.
	AnswersPerOrganization = 32 << 20
	// AnswersAtOnce is the same of all organizations together.
	AnswersAtOnce = 256 << 20

	// A client that reads slower than goodPace may lose its connection to another organization's answer, once slowFor has passed.
	goodPace = 256 << 10 // bytes a second
	slowFor  = 2 * time.Second

	// AnswerPiece is how many bytes are written between looks at the time.
	AnswerPiece = 64 << 10 // bytes that are written between looks at the time
)

// LargeAnswers bounds the bytes of large answers that are being written.
type LargeAnswers struct {
	PerOrganization, AtOnce int64

	mu   sync.Mutex
	held int64
	open []*LargeAnswer

	making making
}

// LargeAnswer is one answer from enter to leave.
type LargeAnswer struct {
	all   *LargeAnswers
	of    string // whose share it counts against
	bytes int64
	sent  int64
	conn  *http.ResponseController
	began time.Time
	cut   bool // it lost its connection to another answer

	making bool   // it is counted, and not yet made
	made   func() // ends its turn of being made; nil if it needed none
}

// Enter counts an answer, which must leave at its end, or returns why there is no room for it. A single answer always has room in its
// organization's share, however large it is.
func (a *LargeAnswers) Enter(of string, bytes int64, conn *http.ResponseController) (*LargeAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := int64(0)
	for _, other := range a.open {
		if other.of == of {
			own += other.bytes
		}
	}
	if own > 0 && own+bytes > a.PerOrganization {
		return nil, RateLimited(SeatWait, "this organization is reading too many large answers simultaneously")
	}

	now := time.Now()
	for a.held > 0 && a.held+bytes > a.AtOnce {
		if !a.cutSlowest(of, now) {
			busy := apierr.New(apierr.Overloaded, "too many large answers are being read simultaneously; try again shortly")
			busy.RetryAfter = SeatWait
			return nil, busy
		}
	}
	entered := &LargeAnswer{all: a, of: of, bytes: bytes, conn: conn, began: now}
	a.open, a.held = append(a.open, entered), a.held+bytes
	return entered, nil
}

// cutSlowest ends the slowest of the other organizations' answers. It returns false if each of them keeps a good pace.
func (a *LargeAnswers) cutSlowest(of string, now time.Time) bool {
	var slowest *LargeAnswer
	for _, other := range a.open {
		if other.of != of && other.slow(now) && (slowest == nil || other.pace(now) < slowest.pace(now)) {
			slowest = other
		}
	}
	if slowest == nil {
		return false
	}
	slowest.cut = true
	_ = slowest.conn.SetWriteDeadline(now) // ends the write that waits for the client
	a.remove(slowest)
	return true
}

// Bytes returns how many bytes of large answers are being written.
func (a *LargeAnswers) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

func (a *LargeAnswers) remove(gone *LargeAnswer) {
	if i := slices.Index(a.open, gone); i >= 0 {
		a.open, a.held = slices.Delete(a.open, i, i+1), a.held-gone.bytes
	}
}

func (l *LargeAnswer) slow(now time.Time) bool {
	return !l.making && now.Sub(l.began) >= slowFor && l.pace(now) < goodPace
}

// pace returns how many bytes a second the client has read.
func (l *LargeAnswer) pace(now time.Time) float64 {
	return float64(l.sent) / max(now.Sub(l.began), time.Millisecond).Seconds()
}

// Leave ends an answer: its bytes count no longer. It may be called again, and on nil.
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

// Write writes the answer, or a part of it, piece by piece: a client has a minute, and more time for what it has read.
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

func (l *LargeAnswer) extend() error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.cut {
		return apierr.New(apierr.Overloaded, "too many large answers are being read simultaneously; try again shortly")
	}
	earned := time.Duration(l.sent) * time.Second / SlowestRate
	_ = l.conn.SetWriteDeadline(l.began.Add(TransferTime + earned)) // tests' recorders have none
	return nil
}

func (l *LargeAnswer) read(n int) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.sent += int64(n)
}

// share names whose share an answer counts against: the organization's, or a visitor's of the demo, which is everybody's organization.
func share(who domain.Caller) string {
	if who.Kind == domain.CallerDemo {
		return "demo:" + who.DemoClient
	}
	return who.OrganizationID
}

// CountAnswer counts a response of so many bytes against its caller's share: as the answer that was reserved, if one was. The answer is nil
// if it is not large.
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
	return st.Large.Enter(share(Caller(c)), int64(bytes), http.NewResponseController(c.Writer))
}

// ReserveAnswer waits until a large answer may be made, and counts it as so many bytes, so that it is refused before it is read from the
// database. Its turn lasts until CountAnswer is called for what was rendered, and at most until the request ends: see EndReservation. Fewer
// bytes than LargeBytes need no room.
func ReserveAnswer(c *gin.Context, bytes int) error {
	st := StateFor(c)
	if bytes < LargeBytes || st.Large == nil {
		return nil
	}
	EndReservation(c)
	of := share(Caller(c))
	made, err := st.Large.making.wait(c.Request.Context(), of, bytes)
	if err != nil {
		return err
	}
	large, err := st.Large.Enter(of, int64(bytes), http.NewResponseController(c.Writer))
	if err != nil {
		made()
		return err
	}
	large.reserve(made)
	st.reserved = large
	return nil
}

// Reserving returns ReserveAnswer for a request whose run was found or accepted: nothing of its body is needed any more.
func Reserving(c *gin.Context) func(bytes int) error {
	return func(bytes int) error {
		BodyDone(c)
		return ReserveAnswer(c, bytes)
	}
}

// EndReservation gives up the room that was reserved for an answer which was not made.
func EndReservation(c *gin.Context) {
	st := StateFor(c)
	st.reserved.Leave()
	st.reserved = nil
}

// reserve says that an answer is still to be made: meanwhile its client cannot be slow.
func (l *LargeAnswer) reserve(made func()) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.making, l.made = true, made
}

// ready says that an answer is made, and how many bytes it has.
func (l *LargeAnswer) ready(bytes int64) {
	l.made()
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if slices.Contains(l.all.open, l) { // it may have been cut
		l.all.held += bytes - l.bytes
	}
	l.bytes, l.began, l.making = bytes, time.Now(), false
}

// SendBody answers with JSON. A large body that there is no room for is refused; where the request began a run, Location says where the run
// can be read.
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
	if large.Write(c.Writer, body) != nil { // the client is gone, or was too slow: nothing more can be said to it
		c.Abort()
	}
}

// RefuseAnswer answers with the error of an answer that cannot be made. If there is no room for it, and the request began or found a run,
// Location says where the run can be read.
func RefuseAnswer(c *gin.Context, err error) {
	full := apierr.CodeFor(err) == apierr.RateLimited || apierr.CodeFor(err) == apierr.Overloaded
	if run := StateFor(c).RunID; full && run != "" && c.Request.Method == http.MethodPost {
		c.Header("Location", "/api/runs?id="+run)
	}
	Fail(c, err)
}

const (
	// TransferTime is how long a whole transfer may take at least. It may take longer by the time that the bytes it has moved take at the
	// slowest pace. The server's own limit would end large files on slow lines, and a limit for each piece would let a client that reads
	// a piece now and then stay for hours.
	TransferTime = time.Minute

	// SlowestRate is the slowest pace of documents and files, in bytes a second.
	SlowestRate = 16 << 10
)
