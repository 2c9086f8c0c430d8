package transfer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// ErrCut is the cause of the error of a transfer that was ended to make room for another one.
var ErrCut = errors.New("aborted in favor of another transfer")

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

// network returns the /24 or, for IPv6, the /48 that the client's address is in. One client easily has all addresses of it.
func (o *Owner) network() string {
	prefix, err := netip.ParsePrefix(o.Client)
	addr := prefix.Addr()
	if err != nil {
		addr, err = netip.ParseAddr(o.Client)
	}
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	if prefix, fault := addr.Prefix(bits); err == nil && fault == nil {
		return prefix.String()
	}
	return o.Client // such as "local"
}

// OwnerFor is the caller of a request as the one who a transfer counts for.
func OwnerFor(c *gin.Context) Owner {
	who := httpx.Caller(c)
	return Owner{Organization: who.OrganizationID, Credential: who.Credential, Client: who.Client}
}

// Slot is that of one transfer.
type Slot struct {
	Owner
	network string // of the client
	all     *Limiter
	conn    *http.ResponseController
	began   time.Time
	Cut     bool  // another transfer has the slot
	needed  int64 // bytes a second that would have kept it

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

// Enter gives a transfer its slot, which it must leave at its end, or refuses it. The last quarter of the slots is for newcomers: neither
// their organization nor their network has one. When all slots that a transfer may have are taken, it takes that of a transfer that is too
// slow. A transfer that keeps the pace is never cut.
func (d *Limiter) Enter(who Owner, conn *http.ResponseController) (*Slot, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	p, limit := &Slot{Owner: who, network: who.network(), all: d, conn: conn, began: time.Now()}, d.Bounds
	if who.Stranger {
		limit = d.Strangers
	}
	has, newcomer := d.holdings(p)
	if has.PerAddress >= limit.PerAddress {
		return nil, httpx.RateLimited(httpx.SeatWait, "this client address is "+d.Doing)
	}
	if has.PerCredential >= limit.PerCredential {
		if !d.displaceStranger(p, ofCredential) {
			return nil, httpx.RateLimited(httpx.SeatWait, "this credential is "+d.Doing)
		}
		has, newcomer = d.holdings(p)
	}
	if has.PerOrganization >= limit.PerOrganization {
		if !d.displaceStranger(p, ofOrganization) {
			return nil, httpx.RateLimited(httpx.SeatWait, "this organization is "+d.Doing)
		}
		has, newcomer = d.holdings(p)
	}
	taken := max(float64(has.AtOnce)/float64(limit.AtOnce), float64(len(d.Open))/float64(d.AtOnce))
	if room := taken < 1 && newcomer || taken < 1-1./NewcomerShare; !room && !d.makeRoom(p, d.paceAt(taken), everybody, ofOrganization) {
		return nil, d.busy()
	}
	d.Open = append(d.Open, p)
	return p, nil
}

// holdings counts what bounds a new transfer: slots of those who are verified as its owner is. It reports whether that is a newcomer.
func (d *Limiter) holdings(who *Slot) (has Bounds, newcomer bool) {
	newcomer = true
	for _, p := range d.Open {
		if p.Organization == who.Organization || p.network == who.network {
			newcomer = false
		}
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
	return has, newcomer
}

// EnterSoon is Enter, but waits up to the policy's queue time for a slot.
func (d *Limiter) EnterSoon(ctx context.Context, who Owner, conn *http.ResponseController) (*Slot, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Queue)
	defer cancel()
	ticker := time.NewTicker(queueEvery)
	defer ticker.Stop()
	for {
		p, err := d.Enter(who, conn)
		if err == nil || !d.QueueOwn && apierr.CodeFor(err) != apierr.Overloaded {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
	}
}

// busy says that all slots are taken.
func (t *Policy) busy() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "%s", t.TooMany)
	busy.RetryAfter = httpx.SeatWait
	return busy
}

// lost is the error of a transfer that was cut.
func (p *Slot) lost() *apierr.Error {
	cut := apierr.Wrap(apierr.Overloaded, ErrCut,
		"%s, and this transfer was slower than %d KiB a second; try again", p.all.TooMany, max(p.needed, p.all.Pace)>>10)
	cut.RetryAfter = httpx.SeatWait
	return cut
}

// paceAt returns the pace that a transfer must keep while such a part of the slots is taken: it rises from the policy's pace, when half of
// them are, to a multiple of it when all are.
func (t *Policy) paceAt(taken float64) int64 {
	return int64(float64(t.Pace) * (1 + (crowdedPace-1)*max(0, 2*min(taken, 1)-1)))
}

// Transfers are counted together by one of these.
func everybody(*Slot) string        { return "" }
func ofNetwork(p *Slot) string      { return p.network }
func ofCredential(p *Slot) string   { return p.Credential }
func ofOrganization(p *Slot) string { return p.Organization }

// displaceStranger cuts a slow transfer of the same credential or organization for a new one, among strangers: strangers who know the
// address of a hook take slots that count for it. Networks share such slots as organizations share all.
func (d *Limiter) displaceStranger(who *Slot, of func(*Slot) string) bool {
	return who.Stranger && d.makeRoom(who, d.paceAt(1), of, ofNetwork)
}

// makeRoom cuts a transfer that is slower than the pace, for a new one of the same group: a stranger's rather than a verified sender's,
// then one of the organization or network that has the most, and of those the slowest. A party - an organization, usually - that would
// then have as many as the other one gets none, unless it has none: two of them would take the same slot from each other in turn. A
// stranger takes no slot of a verified sender.
func (d *Limiter) makeRoom(who *Slot, pace int64, group, party func(*Slot) string) bool {
	parties, organizations, networks := map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range d.Open {
		if group(p) == group(who) {
			parties[party(p)]++
		}
		organizations[p.Organization]++
		networks[p.network]++
	}
	has, now := parties[party(who)], time.Now()
	before := func(p, q *Slot) int {
		strangers := 0
		if p.Stranger != q.Stranger {
			strangers = 1
			if p.Stranger {
				strangers = -1
			}
		}
		return cmp.Or(strangers,
			-cmp.Compare(max(organizations[p.Organization], networks[p.network]), max(organizations[q.Organization], networks[q.network])),
			cmp.Compare(p.rate(now), q.rate(now)))
	}
	at := -1
	for i, p := range d.Open {
		may := group(p) == group(who) && (has == 0 || has+1 < parties[party(p)]) && (p.Stranger || !who.Stranger)
		if may && p.slow(now, pace) && (at < 0 || before(p, d.Open[at]) < 0) {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	d.Open[at].Cut, d.Open[at].needed = true, pace
	d.Limit(d.Open[at].conn, now) // ends the waiting that it is in
	d.Open = slices.Delete(d.Open, at, at+1)
	return true
}

// waited returns how long the transfer has waited for its client since its pace is measured. It is called under the lock.
func (p *Slot) waited(now time.Time) time.Duration {
	waited := p.now.waited - p.marks[0].waited
	if !p.waiting.IsZero() {
		waited += now.Sub(p.waiting)
	}
	return waited
}

// rate is the transfer's pace in bytes a second. It is called under the lock.
func (p *Slot) rate(now time.Time) float64 {
	return float64(p.now.moved-p.marks[0].moved) / max(p.waited(now), time.Millisecond).Seconds()
}

// slow reports whether the transfer's client is slower than a pace. It is called under the lock.
func (p *Slot) slow(now time.Time, pace int64) bool {
	return !p.whole && p.waited(now) >= p.all.Patience && p.rate(now) < float64(pace)
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
		return p.lost()
	}
	earned := time.Duration(moved) * time.Second / time.Duration(p.all.Pace)
	p.all.Limit(p.conn, p.began.Add(cmp.Or(p.all.Time, httpx.TransferTime)+earned))
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
		err = apierr.New(apierr.Unauthenticated, "the credential is no longer valid")
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
