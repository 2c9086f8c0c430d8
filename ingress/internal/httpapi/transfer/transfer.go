package transfer

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

	// PaceTime is how long a transfer must have waited for its client before its pace is judged. The pace is measured over
	// the last paceTime to 2*paceTime of such waiting. Time that the service itself takes does not count.
	PaceTime = 5 * time.Second

	// FilesPerCredential is how many files may be on their way from an ingress at once: each holds a part of its content in memory.
	FilesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512

	// AddressShare is the part of a limiter's slots that one client address may take: credentials and organizations are
	// free, addresses are not.
	AddressShare = 2
)

// Policy is what goes one way, and how much of it may be on its way at an ingress at once.
type Policy struct {
	Bounds

	// Strangers bounds transfers whose sender is not verified yet. They are counted apart, so that they take nothing of what
	// verified senders of the same credential or organization may have.
	Strangers Bounds

	Pace           int64         // bytes a second: a transfer that is slower may be cut to make room
	Patience       time.Duration // how long a transfer must have waited for its client before its pace is judged
	Doing, TooMany string        // what a caller is said to be doing, and there is too much of
	// Limit bounds the time of what is on its way.
	Limit func(conn *http.ResponseController, until time.Time)
}

// Bounds are how many transfers there may be at once.
type Bounds struct{ PerCredential, PerOrganization, PerAddress, AtOnce int }

// Files are files that are read.
var Files = &Policy{
	Bounds: Bounds{FilesPerCredential, filesPerOrganization, filesAtOnce / AddressShare, filesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime,
	Doing: "reading too many files at once", TooMany: "too many files are being read at once",
	Limit: func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // tests' recorders have none
}

// Limiter are the contents that are on their way, the oldest first.
type Limiter struct {
	*Policy
	Mu   sync.Mutex
	Open []*Slot
}

// Owner is who a transfer counts for.
type Owner struct {
	Organization, Credential string
	Client                   string // the client's address, /64 for IPv6
	Stranger                 bool   // not verified yet
}

// OwnerOf is the caller of a request as the one who a transfer counts for.
func OwnerOf(c *gin.Context) Owner {
	who := httpx.Caller(c)
	return Owner{Organization: who.OrganizationID, Credential: who.Credential, Client: who.Client}
}

// Slot is that of one transfer.
type Slot struct {
	Owner
	all   *Limiter
	conn  *http.ResponseController
	began time.Time
	Cut   bool // another transfer has the place

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

// Enter gives a transfer its place, which it must leave at its end, or refuses it. When all are taken, it takes that of a
// transfer that is slower than the pace. A transfer that keeps the pace is never cut.
func (d *Limiter) Enter(who Owner, conn *http.ResponseController) (*Slot, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	most, has := d.Bounds, Bounds{}
	if who.Stranger {
		most = d.Strangers
	}
	for _, p := range d.Open {
		if p.Client == who.Client && (p.Stranger || !who.Stranger) {
			has.PerAddress++ // what strangers hold counts for their address, whoever asks
		}
		if p.Stranger != who.Stranger {
			continue
		}
		has.AtOnce++
		if p.Credential == who.Credential {
			has.PerCredential++
		}
		if p.Organization == who.Organization {
			has.PerOrganization++
		}
	}
	switch {
	case has.PerCredential >= most.PerCredential:
		return nil, httpx.RateLimited(httpx.SeatWait, "this credential is "+d.Doing)
	case has.PerOrganization >= most.PerOrganization:
		return nil, httpx.RateLimited(httpx.SeatWait, "this organization is "+d.Doing)
	case has.PerAddress >= most.PerAddress:
		return nil, httpx.RateLimited(httpx.SeatWait, "this client address is "+d.Doing)
	case (has.AtOnce >= most.AtOnce || len(d.Open) >= d.AtOnce) && !d.makeRoom(who):
		return nil, d.busy()
	}
	p := &Slot{Owner: who, all: d, conn: conn, began: time.Now()}
	d.Open = append(d.Open, p)
	return p, nil
}

// busy says that all places are taken.
func (t *Policy) busy() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "%s", t.TooMany)
	busy.RetryAfter = httpx.SeatWait
	return busy
}

// makeRoom cuts a transfer that is slower than the pace, for a new one: of those of the organization that has the most, the
// oldest. An organization that would then have as many as the other one gets none, unless it has none: two of them would
// take the same place from each other in turn. A stranger takes no place of a verified sender.
func (d *Limiter) makeRoom(who Owner) bool {
	byOrganization := map[string]int{}
	for _, p := range d.Open {
		byOrganization[p.Organization]++
	}
	has, now, at, most := byOrganization[who.Organization], time.Now(), -1, 0
	for i, p := range d.Open {
		n := byOrganization[p.Organization]
		if n > most && (has == 0 || has+1 < n) && (p.Stranger || !who.Stranger) && p.slow(now) {
			at, most = i, n
		}
	}
	if at < 0 {
		return false
	}
	d.Open[at].Cut = true
	d.Limit(d.Open[at].conn, now) // ends the waiting that it is in
	d.Open = slices.Delete(d.Open, at, at+1)
	return true
}

// slow reports whether the transfer's client is slower than the pace. It is called under the lock.
func (p *Slot) slow(now time.Time) bool {
	if p.whole {
		return false
	}
	waited := p.now.waited - p.marks[0].waited
	if !p.waiting.IsZero() {
		waited += now.Sub(p.waiting)
	}
	return waited >= p.all.Patience && float64(p.now.moved-p.marks[0].moved) < float64(p.all.Pace)*waited.Seconds()
}

// Wait notes that the transfer waits for its client from now on.
func (p *Slot) Wait() {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.waiting = time.Now()
}

// moved notes that the waiting is over and so many bytes have come or gone.
func (p *Slot) moved(n int) {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.now.waited += time.Since(p.waiting)
	p.now.moved += int64(n)
	p.waiting = time.Time{}
	if p.now.waited-p.marks[1].waited >= p.all.Patience {
		p.marks[0], p.marks[1] = p.marks[1], p.now
	}
}

// Leave gives a place back, if it has not been taken already. From then on nobody sets the connection's deadline.
func (d *Limiter) Leave(p *Slot) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Open = slices.DeleteFunc(d.Open, func(other *Slot) bool { return other == p })
}

// Extend gives the client of a transfer that has moved so many bytes its time for the next, or says that it has none left.
func (p *Slot) Extend(moved int64) error {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	if p.Cut {
		return p.all.busy()
	}
	earned := time.Duration(moved) * time.Second / time.Duration(p.all.Pace)
	p.all.Limit(p.conn, p.began.Add(httpx.TransferTime+earned))
	return nil
}

// arrived says that nothing depends on the client any more, or that the transfer was cut.
func (p *Slot) arrived() error {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.whole = true
	if p.Cut {
		return p.all.busy()
	}
	return nil
}

// rest gives a transfer so much time for what is left to do without its client.
func (p *Slot) rest(d time.Duration) {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.whole = true
	if !p.Cut {
		p.all.Limit(p.conn, time.Now().Add(d))
	}
}

// download sends a file piece by piece, for as long as it has its place and its credential holds. Errors are not sent: they
// are answered as all others are.
type download struct {
	http.ResponseWriter
	from   *Slot
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
	if err = d.from.Extend(d.sent); err == nil && !d.may.Holds(time.Now()) {
		err = apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	}
	if err == nil {
		d.from.Wait()
		n, err = d.ResponseWriter.Write(p)
		d.from.moved(n)
	}
	d.sent += int64(n)
	d.err = err
	return n, err
}
