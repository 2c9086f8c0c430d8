package httpapi

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

const (

	// paceTime is how long a transfer must have waited for its client before its pace is judged. The pace is measured over
	// the last paceTime to 2*paceTime of such waiting. Time that the service itself takes does not count.
	paceTime = 5 * time.Second

	// Files that may be on their way from an ingress at once: each holds a part of its content in memory.
	filesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512

	// addressShare is the part of a limiter's slots that one client address may take: credentials and organizations are
	// free, addresses are not.
	addressShare = 2
)

// traffic is what goes one way, and how much of it may be on its way at an ingress at once.
type traffic struct {
	bounds

	// strangers bounds transfers whose sender is not verified yet. They are counted apart, so that they take nothing of what
	// verified senders of the same credential or organization may have.
	strangers bounds

	pace           int64         // bytes a second: a transfer that is slower may be cut to make room
	patience       time.Duration // how long a transfer must have waited for its client before its pace is judged
	doing, tooMany string        // what a caller is said to be doing, and there is too much of
	// limit bounds the time of what is on its way.
	limit func(conn *http.ResponseController, until time.Time)
}

// bounds are how many transfers there may be at once.
type bounds struct{ perCredential, perOrganization, perAddress, atOnce int }

// outgoing are files that are read.
var outgoing = &traffic{
	bounds: bounds{filesPerCredential, filesPerOrganization, filesAtOnce / addressShare, filesAtOnce}, pace: httpx.SlowestRate, patience: paceTime,
	doing: "reading too many files at once", tooMany: "too many files are being read at once",
	limit: func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // tests' recorders have none
}

// transfers are the contents that are on their way, the oldest first.
type transfers struct {
	*traffic
	mu   sync.Mutex
	open []*place
}

// transferrer is who a transfer counts for.
type transferrer struct {
	organization, credential string
	client                   string // the client's address, /64 for IPv6
	stranger                 bool   // not verified yet
}

// transferrerOf is the caller of a request as the one who a transfer counts for.
func transferrerOf(c *gin.Context) transferrer {
	who := httpx.Caller(c)
	return transferrer{organization: who.OrganizationID, credential: who.Credential, client: who.Client}
}

// place is that of one transfer.
type place struct {
	transferrer
	all   *transfers
	conn  *http.ResponseController
	began time.Time
	cut   bool // another transfer has the place

	whole   bool      // nothing depends on the client any more
	waiting time.Time // for the client since then; zero when the service is busy itself
	now     progress
	marks   [2]progress // earlier ones, paceTime of waiting apart; the older first
}

// progress is how far a transfer has come.
type progress struct {
	waited time.Duration // for the client
	moved  int64         // bytes
}

// enter gives a transfer its place, which it must leave at its end, or refuses it. When all are taken, it takes that of a
// transfer that is slower than the pace. A transfer that keeps the pace is never cut.
func (d *transfers) enter(who transferrer, conn *http.ResponseController) (*place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, has := d.bounds, bounds{}
	if who.stranger {
		most = d.strangers
	}
	for _, p := range d.open {
		if p.client == who.client && (p.stranger || !who.stranger) {
			has.perAddress++ // what strangers hold counts for their address, whoever asks
		}
		if p.stranger != who.stranger {
			continue
		}
		has.atOnce++
		if p.credential == who.credential {
			has.perCredential++
		}
		if p.organization == who.organization {
			has.perOrganization++
		}
	}
	switch {
	case has.perCredential >= most.perCredential:
		return nil, httpx.RateLimited(httpx.SeatWait, "this credential is "+d.doing)
	case has.perOrganization >= most.perOrganization:
		return nil, httpx.RateLimited(httpx.SeatWait, "this organization is "+d.doing)
	case has.perAddress >= most.perAddress:
		return nil, httpx.RateLimited(httpx.SeatWait, "this client address is "+d.doing)
	case (has.atOnce >= most.atOnce || len(d.open) >= d.atOnce) && !d.makeRoom(who):
		return nil, d.busy()
	}
	p := &place{transferrer: who, all: d, conn: conn, began: time.Now()}
	d.open = append(d.open, p)
	return p, nil
}

// busy says that all places are taken.
func (t *traffic) busy() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "%s", t.tooMany)
	busy.RetryAfter = httpx.SeatWait
	return busy
}

// makeRoom cuts a transfer that is slower than the pace, for a new one: of those of the organization that has the most, the
// oldest. An organization that would then have as many as the other one gets none, unless it has none: two of them would
// take the same place from each other in turn. A stranger takes no place of a verified sender.
func (d *transfers) makeRoom(who transferrer) bool {
	byOrganization := map[string]int{}
	for _, p := range d.open {
		byOrganization[p.organization]++
	}
	has, now, at, most := byOrganization[who.organization], time.Now(), -1, 0
	for i, p := range d.open {
		n := byOrganization[p.organization]
		if n > most && (has == 0 || has+1 < n) && (p.stranger || !who.stranger) && p.slow(now) {
			at, most = i, n
		}
	}
	if at < 0 {
		return false
	}
	d.open[at].cut = true
	d.limit(d.open[at].conn, now) // ends the waiting that it is in
	d.open = slices.Delete(d.open, at, at+1)
	return true
}

// slow reports whether the transfer's client is slower than the pace. It is called under the lock.
func (p *place) slow(now time.Time) bool {
	if p.whole {
		return false
	}
	waited := p.now.waited - p.marks[0].waited
	if !p.waiting.IsZero() {
		waited += now.Sub(p.waiting)
	}
	return waited >= p.all.patience && float64(p.now.moved-p.marks[0].moved) < float64(p.all.pace)*waited.Seconds()
}

// wait notes that the transfer waits for its client from now on.
func (p *place) wait() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.waiting = time.Now()
}

// moved notes that the waiting is over and so many bytes have come or gone.
func (p *place) moved(n int) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.now.waited += time.Since(p.waiting)
	p.now.moved += int64(n)
	p.waiting = time.Time{}
	if p.now.waited-p.marks[1].waited >= p.all.patience {
		p.marks[0], p.marks[1] = p.marks[1], p.now
	}
}

// leave gives a place back, if it has not been taken already. From then on nobody sets the connection's deadline.
func (d *transfers) leave(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(other *place) bool { return other == p })
}

// extend gives the client of a transfer that has moved so many bytes its time for the next, or says that it has none left.
func (p *place) extend(moved int64) error {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.cut {
		return p.all.busy()
	}
	earned := time.Duration(moved) * time.Second / time.Duration(p.all.pace)
	p.all.limit(p.conn, p.began.Add(httpx.TransferTime+earned))
	return nil
}

// rest gives a transfer so much time for what is left to do without its client.
func (p *place) rest(d time.Duration) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.whole = true
	if !p.cut {
		p.all.limit(p.conn, time.Now().Add(d))
	}
}

// download sends a file piece by piece, for as long as it has its place and its credential holds. Errors are not sent: they
// are answered as all others are.
type download struct {
	http.ResponseWriter
	from   *place
	may    httpx.Permit
	sent   int64
	status int
	err    error
}

func (d *download) WriteHeader(status int) {
	if d.status = status; status < http.StatusBadRequest {
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d *download) Write(p []byte) (n int, err error) {
	if d.status >= http.StatusBadRequest {
		return len(p), nil
	}
	if err = d.from.extend(d.sent); err == nil && !d.may.Holds(time.Now()) {
		err = apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	}
	if err == nil {
		d.from.wait()
		n, err = d.ResponseWriter.Write(p)
		d.from.moved(n)
	}
	d.sent += int64(n)
	d.err = err
	return n, err
}
