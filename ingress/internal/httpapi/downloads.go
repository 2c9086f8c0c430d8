package httpapi

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
)

const (
	// How long a whole transfer may take: so long, and longer by what it has moved. The server's own limit would cut large
	// files on slow lines; a time for each piece would let who reads a piece now and then stay for hours.
	transferTime = time.Minute
	slowestRate  = 16 << 10 // bytes a second

	// Files that may be on their way from an ingress at once: each holds a part of its content in memory.
	filesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512
)

// traffic is what goes one way, and how much of it may be on its way at an ingress at once.
type traffic struct {
	perCredential, perOrganization, atOnce int

	doing, tooMany string // what a caller is said to be doing, and there is too much of
	// limit bounds the time of what is on its way.
	limit func(conn *http.ResponseController, until time.Time)
}

// outgoing are files that are read.
var outgoing = &traffic{
	filesPerCredential, filesPerOrganization, filesAtOnce, "reading too many files at once", "too many files are being read at once",
	func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // tests' recorders have none
}

// transfers are the contents that are on their way, the oldest first.
type transfers struct {
	*traffic
	mu   sync.Mutex
	open []*place
}

// place is that of one transfer.
type place struct {
	all                      *transfers
	organization, credential string
	conn                     *http.ResponseController
	began                    time.Time
	cut                      bool // somebody else has the place
}

// enter gives a transfer its place, which it must leave at its end, or refuses it. When all are taken, who has fewer than
// others takes one of theirs: however slowly some read, nobody else is shut out.
func (d *transfers) enter(who domain.Caller, conn *http.ResponseController) (*place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	byOrganization, ofCredential := map[string]int{}, 0
	for _, p := range d.open {
		byOrganization[p.organization]++
		if p.credential == who.Credential {
			ofCredential++
		}
	}
	switch {
	case ofCredential >= d.perCredential:
		return nil, rateLimited(seatWait, "this credential is "+d.doing)
	case byOrganization[who.OrganizationID] >= d.perOrganization:
		return nil, rateLimited(seatWait, "this organization is "+d.doing)
	case len(d.open) >= d.atOnce && !d.makeRoom(byOrganization, byOrganization[who.OrganizationID]):
		return nil, d.busy()
	}
	p := &place{all: d, organization: who.OrganizationID, credential: who.Credential, conn: conn, began: time.Now()}
	d.open = append(d.open, p)
	return p, nil
}

// busy says that all places are taken.
func (t *traffic) busy() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "%s", t.tooMany)
	busy.RetryAfter = seatWait
	return busy
}

// makeRoom cuts the oldest transfer of the organization that has the most, for one that has so many. Those that would
// have as many afterwards would take the same place from each other in turn: they wait, unless they have none.
func (d *transfers) makeRoom(byOrganization map[string]int, has int) bool {
	most := 0
	for _, n := range byOrganization {
		most = max(most, n)
	}
	if has > 0 && has+1 >= most {
		return false
	}
	at := slices.IndexFunc(d.open, func(p *place) bool { return byOrganization[p.organization] == most })
	d.open[at].cut = true
	d.limit(d.open[at].conn, time.Now()) // ends the waiting that it is in
	d.open = slices.Delete(d.open, at, at+1)
	return true
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
	earned := time.Duration(moved) * time.Second / slowestRate
	p.all.limit(p.conn, p.began.Add(transferTime+earned))
	return nil
}

// rest gives a transfer so much time for what is left to do.
func (p *place) rest(d time.Duration) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if !p.cut {
		p.all.limit(p.conn, time.Now().Add(d))
	}
}

// download sends a file piece by piece, for as long as it has its place and its credential holds. Errors are not sent: they
// are answered as all others are.
type download struct {
	http.ResponseWriter
	from   *place
	may    permit
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
	if err = d.from.extend(d.sent); err == nil && !d.may.holds(time.Now()) {
		err = apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	}
	if err == nil {
		n, err = d.ResponseWriter.Write(p)
	}
	d.sent += int64(n)
	d.err = err
	return n, err
}
