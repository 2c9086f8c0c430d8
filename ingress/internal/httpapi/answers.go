package httpapi

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
)

const (
	// Answers from this size on are counted: smaller ones fit the buffers of their connection.
	largeBytes = 64 << 10

	// Bytes of large answers that an ingress writes at a time. Each stays in memory until its client has read it.
	answersPerOrganization = 32 << 20
	answersAtOnce          = 256 << 20

	// A client that reads slower than goodPace may lose its connection to another organization's answer, once slowFor has passed.
	goodPace = 256 << 10 // bytes a second
	slowFor  = 2 * time.Second

	answerPiece = 64 << 10 // bytes that are written between looks at the time
)

// largeAnswers bounds the bytes of large answers that are being written.
type largeAnswers struct {
	perOrganization, atOnce int64

	mu   sync.Mutex
	held int64
	open []*largeAnswer
}

// largeAnswer is one answer from enter to leave.
type largeAnswer struct {
	all   *largeAnswers
	of    string // whose share it counts against
	bytes int64
	sent  int64
	conn  *http.ResponseController
	began time.Time
	cut   bool // it lost its connection to another answer

	making bool // it is counted, and not yet made
}

// enter counts an answer, which must leave at its end, or returns why there is no room for it. A single answer always has room in its
// organization's share, however large it is.
func (a *largeAnswers) enter(of string, bytes int64, conn *http.ResponseController) (*largeAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := int64(0)
	for _, other := range a.open {
		if other.of == of {
			own += other.bytes
		}
	}
	if own > 0 && own+bytes > a.perOrganization {
		return nil, rateLimited(seatWait, "this organization is reading too many large answers at once")
	}

	now := time.Now()
	for a.held > 0 && a.held+bytes > a.atOnce {
		if !a.cutSlowest(of, now) {
			busy := apierr.New(apierr.Overloaded, "too many large answers are being read at once")
			busy.RetryAfter = seatWait
			return nil, busy
		}
	}
	entered := &largeAnswer{all: a, of: of, bytes: bytes, conn: conn, began: now}
	a.open, a.held = append(a.open, entered), a.held+bytes
	return entered, nil
}

// cutSlowest ends the slowest of the other organizations' answers. It returns false if each of them keeps a good pace.
func (a *largeAnswers) cutSlowest(of string, now time.Time) bool {
	var slowest *largeAnswer
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

func (a *largeAnswers) remove(gone *largeAnswer) {
	if i := slices.Index(a.open, gone); i >= 0 {
		a.open, a.held = slices.Delete(a.open, i, i+1), a.held-gone.bytes
	}
}

func (l *largeAnswer) slow(now time.Time) bool {
	return !l.making && now.Sub(l.began) >= slowFor && l.pace(now) < goodPace
}

// pace returns how many bytes a second the client has read.
func (l *largeAnswer) pace(now time.Time) float64 {
	return float64(l.sent) / max(now.Sub(l.began), time.Millisecond).Seconds()
}

func (l *largeAnswer) leave() {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.remove(l)
}

// write writes the answer, or a part of it, piece by piece: a client has a minute, and more time for what it has read.
func (l *largeAnswer) write(w io.Writer, body []byte) error {
	for piece := range slices.Chunk(body, answerPiece) {
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

func (l *largeAnswer) extend() error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.cut {
		return apierr.New(apierr.Overloaded, "too many large answers are being read at once")
	}
	earned := time.Duration(l.sent) * time.Second / slowestRate
	_ = l.conn.SetWriteDeadline(l.began.Add(transferTime + earned)) // tests' recorders have none
	return nil
}

func (l *largeAnswer) read(n int) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.sent += int64(n)
}

// shareOf names whose share an answer counts against: the organization's, or a visitor's of the demo, which is everybody's organization.
func shareOf(who domain.Caller) string {
	if who.Kind == domain.CallerDemo {
		return "demo:" + who.DemoClient
	}
	return who.OrganizationID
}

// countAnswer counts a response of so many bytes against its caller's share. The answer is nil if it is not large.
func countAnswer(c *gin.Context, bytes int) (*largeAnswer, error) {
	all := stateOf(c).large
	if bytes < largeBytes || all == nil {
		return nil, nil //nolint:nilnil // there is nothing to count
	}
	return all.enter(shareOf(caller(c)), int64(bytes), http.NewResponseController(c.Writer))
}

// reserveAnswer waits until a large answer may be made, and counts it as so many bytes, so that it is refused before it is read from the
// database. The caller calls made once the answer is rendered, and done at its end. bytes is at least largeBytes.
func (a *api) reserveAnswer(c *gin.Context, bytes int) (made, done func(), err error) {
	made, err = a.making.wait(c.Request.Context(), shareOf(caller(c)))
	if err != nil {
		return nil, nil, err
	}
	large, err := a.large.enter(shareOf(caller(c)), int64(bytes), http.NewResponseController(c.Writer))
	if err != nil {
		made()
		return nil, nil, err
	}
	large.resize(int64(bytes), true)
	stateOf(c).reserved = large
	return made, large.leave, nil
}

// resize says how many bytes an answer has, and whether it is still being made: meanwhile its client cannot be slow.
func (l *largeAnswer) resize(bytes int64, making bool) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if slices.Contains(l.all.open, l) { // it may have been cut
		l.all.held += bytes - l.bytes
	}
	l.bytes, l.began, l.making = bytes, time.Now(), making
}

// sendBody answers with JSON. A large body that there is no room for is refused; where the request began a run, Location says where the run
// can be read.
func sendBody(c *gin.Context, status int, body []byte) {
	large, err := stateOf(c).reserved, error(nil)
	if large != nil {
		large.resize(int64(len(body)), false)
	} else {
		large, err = countAnswer(c, len(body))
	}
	if err != nil {
		if run := stateOf(c).runID; run != "" && c.Request.Method == http.MethodPost {
			c.Header("Location", "/api/runs?id="+run)
		}
		fail(c, err)
		return
	}
	if large == nil {
		c.Data(status, contentJSON, body)
		return
	}
	defer large.leave()
	c.Header("Content-Type", contentJSON)
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Status(status)
	c.Writer.WriteHeaderNow()
	if large.write(c.Writer, body) != nil { // the client is gone, or was too slow: nothing more can be said to it
		c.Abort()
	}
}
