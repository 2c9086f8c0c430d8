package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// ErrCut is the cause of the error for a transfer that was aborted to make room for another
// transfer.
var ErrCut = errors.New("aborted to make room for another transfer")

// Limiter enforces a Policy. The methods of a Limiter are safe for concurrent use. The field Open
// contains the transfers that are in progress, the oldest first. The field Mu protects Open.
type Limiter struct {
	*Policy
	Mu   sync.Mutex
	Open []*Slot
}

// Owner identifies the sender or reader against whose limits a transfer counts. Transfers with the
// same organization, credential or client share limits.
type Owner struct {
	Organization, Credential string
	Client                   string // the client's address, or the /64 prefix for IPv6
	Unverified               bool   // the sender has not been verified
}

// network returns the /24 prefix of the client's IPv4 address or the /48 prefix of its IPv6
// address. A single client can easily obtain all addresses of such a network.
func (o *Owner) network() string {
	// Most clients have IPv4 addresses, which are not prefixes.
	addr, err := netip.ParseAddr(o.Client)
	if strings.Contains(o.Client, "/") {
		var prefix netip.Prefix
		prefix, err = netip.ParsePrefix(o.Client)
		addr = prefix.Addr()
	}

	bits := 48
	if addr.Is4() {
		bits = 24
	}
	if prefix, fault := addr.Prefix(bits); err == nil && fault == nil {
		return prefix.String()
	}
	return o.Client // the client is not an IP address but a name such as "local"
}

// OwnerFor returns the owner of a request's transfers: its caller. The owner counts as verified.
func OwnerFor(c *gin.Context) Owner {
	who := httpx.Caller(c)
	return Owner{Organization: who.OrganizationID, Credential: who.Credential, Client: who.Client}
}

// Slot is the slot of one transfer. The mutex of its limiter protects the fields that change.
type Slot struct {
	Owner
	network string // network of the client; see Owner.network
	all     *Limiter
	conn    *http.ResponseController
	began   time.Time // time at which the deadline was set
	Cut     bool      // whether another transfer has taken the slot
	needed  int64     // bytes per second at which the transfer would have kept its slot

	complete bool      // the client has sent everything, so it can no longer be slow
	waiting  time.Time // start of the current wait for the client; zero while the service itself is busy
	now      progress
	marks    [2]progress // earlier states of the transfer, at intervals of Patience, oldest first
}

// progress is the state of a transfer at a point in time.
type progress struct {
	waited time.Duration // total time spent waiting for the client
	moved  int64         // number of bytes transferred
}

// Enter takes a slot for a transfer or returns an error. The caller must release the slot with
// Leave.
//
// The last quarter of the slots is reserved for newcomers: transfers whose organization and network
// have no slot yet. If no slot is free, the new transfer takes the slot of a transfer that is
// slower than the required pace. A transfer that keeps the pace is never aborted. The errors are
// rate_limited if the owner has reached a limit, and overloaded if no slot is free. Enter does not
// wait.
func (d *Limiter) Enter(who Owner, conn *http.ResponseController) (*Slot, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()

	p, limit := &Slot{Owner: who, network: who.network(), all: d, conn: conn, began: time.Now()}, d.Bounds
	if who.Unverified {
		limit = d.Unverified
	}

	has, newcomer := d.holdings(p)

	if has.PerAddress >= limit.PerAddress {
		return nil, httpx.RateLimited(httpx.SlotRetryAfter, fmt.Sprintf(d.Doing, "client address"))
	}
	if has.PerCredential >= limit.PerCredential {
		if !d.displaceStranger(p, byCredential) {
			return nil, httpx.RateLimited(httpx.SlotRetryAfter, fmt.Sprintf(d.Doing, "credential"))
		}
		has, newcomer = d.holdings(p)
	}

	if has.PerOrganization >= limit.PerOrganization {
		if !d.displaceStranger(p, byOrganization) {
			return nil, httpx.RateLimited(httpx.SlotRetryAfter, fmt.Sprintf(d.Doing, "organization"))
		}
		has, newcomer = d.holdings(p)
	}

	// The required pace depends on the larger of two shares: the taken share of the slots for this
	// kind of sender, and the taken share of all slots.
	taken := max(float64(has.AtOnce)/float64(limit.AtOnce), float64(len(d.Open))/float64(d.AtOnce))
	if room := taken < 1 && newcomer || taken < 1-1./NewcomerShare; !room && !d.makeRoom(p, d.paceAt(taken), groupAll, byOrganization) {
		return nil, d.busy()
	}

	d.Open = append(d.Open, p)
	return p, nil
}

// holdings counts the slots that are taken by transfers with which a new transfer shares a limit.
// For a verified owner it counts the slots of verified owners, and for an unverified owner those of
// unverified owners. The result newcomer is true if neither the owner's organization nor its
// network has a slot.
func (d *Limiter) holdings(who *Slot) (has Bounds, newcomer bool) {
	newcomer = true
	for _, p := range d.Open {
		if p.Organization == who.Organization || p.network == who.network {
			newcomer = false
		}
		if p.Client == who.Client && (p.Unverified || !who.Unverified) {
			has.PerAddress++ // unverified senders take slots of the address, too
		}
		if p.Unverified != who.Unverified {
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

// EnterOrWait works like Enter, but waits up to the policy's Queue time for a slot. It tries again
// every queueInterval. The wait ends with ctx; the error is then that of the last attempt.
func (d *Limiter) EnterOrWait(ctx context.Context, who Owner, conn *http.ResponseController) (*Slot, error) {
	// Usually a slot is free, so try first without creating timers.
	p, err := d.Enter(who, conn)
	if !d.queues(err) {
		return p, err
	}

	ctx, cancel := context.WithTimeout(ctx, d.Queue)
	defer cancel()
	ticker := time.NewTicker(queueInterval)
	defer ticker.Stop()
	for d.queues(err) {
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
			p, err = d.Enter(who, conn)
		}
	}
	return p, err
}

// queues reports whether a transfer waits for a slot after this error of Enter.
func (d *Limiter) queues(err error) bool {
	return err != nil && (d.QueueOwn || apierr.CodeFor(err) == apierr.Overloaded)
}

// busy returns the error for a limiter without a free slot.
func (t *Policy) busy() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "%s", t.TooMany)
	busy.RetryAfter = httpx.SlotRetryAfter
	return busy
}

// cutError returns the error for a transfer that was aborted to make room for another. It contains
// the pace that the transfer would have needed.
func (p *Slot) cutError() *apierr.Error {
	cut := apierr.Wrap(apierr.Overloaded, ErrCut,
		"%s, and this transfer was slower than %d KiB a second; try again", p.all.TooMany, max(p.needed, p.all.Pace)>>10)
	cut.RetryAfter = httpx.SlotRetryAfter
	return cut
}

// paceAt returns the pace that a transfer must keep while the given share of the slots is taken. Up
// to half of the slots, it is the policy's pace. Beyond that, it rises linearly to crowdedFactor
// times this pace.
func (t *Policy) paceAt(taken float64) int64 {
	return int64(float64(t.Pace) * (1 + (crowdedFactor-1)*max(0, 2*min(taken, 1)-1)))
}

// The functions below return the keys of groups. Transfers with the same key are counted together.
func groupAll(*Slot) string         { return "" }
func byNetwork(p *Slot) string      { return p.network }
func byCredential(p *Slot) string   { return p.Credential }
func byOrganization(p *Slot) string { return p.Organization }

// displaceStranger makes room for a new transfer if its credential or organization has reached a
// limit. It aborts a slow transfer of the same credential or organization, but only if both senders
// are unverified. Anyone who knows a hook's URL can take slots that count for the hook's
// organization. These slots are therefore divided among the networks of the unverified senders.
func (d *Limiter) displaceStranger(who *Slot, group func(*Slot) string) bool {
	return who.Unverified && d.makeRoom(who, d.paceAt(1), group, byNetwork)
}

// makeRoom aborts one transfer of the same group that is slower than the argument pace. It returns
// false if there is no such transfer. If there are several, it chooses in this order:
//
// 1. an unverified sender before a verified one, 2. the organization or network with the most
// transfers, 3. the slowest transfer.
//
// The function party returns the party to which a transfer belongs, usually its organization. Two
// parties must not repeatedly take the same slot from each other. A party that has a transfer may
// therefore abort another party's transfer only if the other party still has at least as many
// transfers afterwards. An unverified sender never takes the slot of a verified sender.
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
		if p.Unverified != q.Unverified {
			strangers = 1
			if p.Unverified {
				strangers = -1
			}
		}
		return cmp.Or(strangers,
			-cmp.Compare(max(organizations[p.Organization], networks[p.network]), max(organizations[q.Organization], networks[q.network])),
			cmp.Compare(p.rate(now), q.rate(now)))
	}

	at := -1
	for i, p := range d.Open {
		eligible := group(p) == group(who) && (has == 0 || has+1 < parties[party(p)]) && (p.Unverified || !who.Unverified)
		if eligible && p.slow(now, pace) && (at < 0 || before(p, d.Open[at]) < 0) {
			at = i
		}
	}

	if at < 0 {
		return false
	}

	// The transfer that loses its slot notices the loss at its next read or write. The slot is free
	// immediately.
	d.Open[at].Cut, d.Open[at].needed = true, pace
	d.Limit(d.Open[at].conn, now) // interrupts the blocked read or write
	d.Open = slices.Delete(d.Open, at, at+1)
	return true
}

// waited returns how long the transfer has waited for its client during the measured interval.
// p.all.Mu must be locked.
func (p *Slot) waited(now time.Time) time.Duration {
	waited := p.now.waited - p.marks[0].waited
	if !p.waiting.IsZero() {
		waited += now.Sub(p.waiting)
	}
	return waited
}

// rate returns the transfer's pace in bytes per second, averaged over the measured interval.
// p.all.Mu must be locked.
func (p *Slot) rate(now time.Time) float64 {
	return float64(p.now.moved-p.marks[0].moved) / max(p.waited(now), time.Millisecond).Seconds()
}

// slow reports whether the transfer's client is slower than the argument pace. The result is false
// for a complete transfer, and until the transfer has waited for its client for the policy's
// Patience. p.all.Mu must be locked.
func (p *Slot) slow(now time.Time, pace int64) bool {
	return !p.complete && p.waited(now) >= p.all.Patience && p.rate(now) < float64(pace)
}

// Wait records that the transfer now begins to wait for its client. The caller must call moved
// after the wait.
func (p *Slot) Wait() {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.waiting = time.Now()
}

// moved records that the wait for the client has ended and that n bytes were transferred. n may be
// 0 after an error.
func (p *Slot) moved(n int) {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.now.waited += time.Since(p.waiting)
	p.now.moved += int64(n)
	p.waiting = time.Time{}

	// If both marks are set, the measured interval is between one and two times Patience.
	if p.now.waited-p.marks[1].waited >= p.all.Patience {
		p.marks[0], p.marks[1] = p.marks[1], p.now
	}
}

// Leave releases a slot, unless another transfer has already taken it. After Leave, the limiter no
// longer sets the deadline of the connection. Leave may be called several times.
func (d *Limiter) Leave(p *Slot) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Open = slices.DeleteFunc(d.Open, func(other *Slot) bool { return other == p })
}

// Extend sets the deadline for a transfer that has moved the given number of bytes. It returns an
// error if another transfer has taken the slot. The deadline gives a transfer at the required pace
// enough time for its bytes.
func (p *Slot) Extend(moved int64) error {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	if p.Cut {
		return p.cutError()
	}
	earned := time.Duration(moved) * time.Second / time.Duration(p.all.Pace)
	p.all.Limit(p.conn, p.began.Add(cmp.Or(p.all.Time, httpx.TransferTime)+earned))
	return nil
}

// arrived records that the client has sent the whole body. It returns an error if another transfer
// has taken the slot.
func (p *Slot) arrived() error {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.complete = true
	if p.Cut {
		return p.all.busy()
	}
	return nil
}

// setDeadline sets the deadline for the rest of the request, during which the service does not wait
// for the client. The required pace no longer applies.
func (p *Slot) setDeadline(d time.Duration) {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.complete = true
	if !p.Cut {
		p.all.Limit(p.conn, time.Now().Add(d))
	}
}

// download writes a file while it has its slot and its credential is valid. It discards the body of
// an error response, because SendFile writes the error itself. A download is used by one goroutine.
type download struct {
	http.ResponseWriter
	from   *Slot
	permit httpx.SessionCheck
	sent   int64 // number of bytes written
	status int
	err    error // error of the last Write
}

// NewWriter returns a writer for a response of unknown length. Write returns an error if another
// transfer has taken this transfer's slot, or if the credential is no longer valid. The caller must
// release the slot.
func NewWriter(c *gin.Context, from *Slot, permit httpx.SessionCheck) io.Writer {
	return &download{ResponseWriter: c.Writer, from: from, permit: permit}
}

// WriteHeader sends the status if it means success. For any other status it does nothing, because
// SendFile then writes the response.
func (d *download) WriteHeader(status int) {
	if d.status = status; status < http.StatusBadRequest {
		d.ResponseWriter.WriteHeader(status)
	}
}

// Write writes a piece of the file. It returns an error if another transfer has taken this
// transfer's slot, or if the credential is no longer valid. After an error, the rest of the file is
// not sent.
func (d *download) Write(p []byte) (n int, err error) {
	if d.status >= http.StatusBadRequest {
		return len(p), nil
	}
	if err = d.from.Extend(d.sent); err == nil && !d.permit.Holds(time.Now()) {
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
