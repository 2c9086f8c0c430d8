package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
)

const (
	permitPace    = time.Second      // between looks at a credential, at least
	permitBlindly = 30 * time.Second // while no credential can be read
)

// SessionChecks makes the permits of streams.
type SessionChecks struct {
	auth        *auth.Resolver
	runDeadline time.Duration
}

// newSessionChecks makes session checks. Visitors of widgets see the end of a run that they began within runDeadline.
func newSessionChecks(resolver *auth.Resolver, runDeadline time.Duration) SessionChecks {
	return SessionChecks{auth: resolver, runDeadline: runDeadline}
}

// permit is what lets a stream go on after its request was let in: a credential that is looked at again as soon as
// what is known of it is too old for a request, so that a revocation ends streams as it ends requests.
type permit struct {
	resolve func(*http.Request, auth.Need) (auth.Identity, error)
	request *http.Request
	org     string
	reads   []string  // see readable
	next    time.Time // look; zero: never
	seen    time.Time // the last look
	last    time.Time // when it ends, whatever is found; zero: never
}

// permit is that of the request's caller. Demo visitors show nothing that could be revoked.
func (s *SessionChecks) permit(c *gin.Context) permit {
	ident := stateOf(c).ident
	p := permit{
		resolve: s.auth.Resolve, request: c.Request, org: ident.Caller.OrganizationID, reads: ident.Caller.Readable(),
		next: ident.Until, seen: time.Now(),
	}
	if ident.Via == auth.ViaWidget {
		// A visitor sees the answer's end though their token is over by then, if the widget is still allowed. A run that waits
		// for a person goes on for longer than any other: whoever waits with it comes back with a new token.
		p.resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return s.auth.Again(req) }
		p.last = p.seen.Add(max(s.runDeadline, auth.WidgetTokenLife))
	}
	return p
}

// earlier is the time of the next look, if that is before until.
func (p *permit) earlier(until time.Time) time.Time {
	if p.next.IsZero() || until.Before(p.next) {
		return until
	}
	return p.next
}

// holds reports whether the stream may go on. While credentials cannot be read it goes on for a moment only.
func (p *permit) holds(now time.Time) bool {
	if !p.last.IsZero() && !now.Before(p.last) {
		return false
	}
	if p.next.IsZero() || now.Before(p.next) {
		return true
	}
	ident, err := p.resolve(p.request, auth.NeedUser)
	now = time.Now() // looking may have taken its time
	p.next = now.Add(permitPace)
	if err != nil {
		code := apierr.CodeOf(err)
		return (code == apierr.Unavailable || code == apierr.Overloaded) && now.Before(p.seen.Add(permitBlindly))
	}
	if ident.Until.After(p.next) {
		p.next = ident.Until
	}
	p.seen = now
	return ident.Caller.OrganizationID == p.org && p.includedIn(ident.Caller.Readable())
}

// includedIn reports whether a caller who may read that much may still read all that the permit is for.
func (p *permit) includedIn(reads []string) bool {
	if reads == nil || p.reads == nil {
		return reads == nil
	}
	return !slices.ContainsFunc(p.reads, func(principal string) bool { return !slices.Contains(reads, principal) })
}
