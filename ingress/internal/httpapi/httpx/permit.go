package httpx

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

// NewSessionChecks makes session checks. Visitors of widgets see the end of a run that they began within runDeadline.
func NewSessionChecks(resolver *auth.Resolver, runDeadline time.Duration) SessionChecks {
	return SessionChecks{auth: resolver, runDeadline: runDeadline}
}

// Permit is what lets a stream go on after its request was let in: a credential that is looked at again as soon as
// what is known of it is too old for a request, so that a revocation ends streams as it ends requests.
type Permit struct {
	Resolve func(*http.Request, auth.Need) (auth.Identity, error)
	Request *http.Request
	Org     string
	Reads   []string  // see readable
	Next    time.Time // look; zero: never
	Seen    time.Time // the last look
	Last    time.Time // when it ends, whatever is found; zero: never
}

// Permit is that of the request's caller. Demo visitors show nothing that could be revoked.
func (s *SessionChecks) Permit(c *gin.Context) Permit {
	ident := StateFor(c).Ident
	p := Permit{
		Resolve: s.auth.Resolve, Request: c.Request, Org: ident.Caller.OrganizationID, Reads: ident.Caller.Readable(),
		Next: ident.Until, Seen: time.Now(),
	}
	if ident.Via == auth.ViaWidget {
		// A visitor sees the answer's end though their token is over by then, if the widget is still allowed. A run that waits
		// for a person goes on for longer than any other: whoever waits with it comes back with a new token.
		p.Resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return s.auth.Again(req) }
		p.Last = p.Seen.Add(max(s.runDeadline, auth.WidgetTokenLife))
	}
	return p
}

// Earlier is the time of the next look, if that is before until.
func (p *Permit) Earlier(until time.Time) time.Time {
	if p.Next.IsZero() || until.Before(p.Next) {
		return until
	}
	return p.Next
}

// Holds reports whether the stream may go on. While credentials cannot be read it goes on for a moment only.
func (p *Permit) Holds(now time.Time) bool {
	if !p.Last.IsZero() && !now.Before(p.Last) {
		return false
	}
	if p.Next.IsZero() || now.Before(p.Next) {
		return true
	}
	ident, err := p.Resolve(p.Request, auth.NeedUser)
	now = time.Now() // looking may have taken its time
	p.Next = now.Add(permitPace)
	if err != nil {
		code := apierr.CodeFor(err)
		return (code == apierr.Unavailable || code == apierr.Overloaded) && now.Before(p.Seen.Add(permitBlindly))
	}
	if ident.Until.After(p.Next) {
		p.Next = ident.Until
	}
	p.Seen = now
	return ident.Caller.OrganizationID == p.Org && p.includedIn(ident.Caller.Readable())
}

// includedIn reports whether a caller who may read that much may still read all that the permit is for.
func (p *Permit) includedIn(reads []string) bool {
	if reads == nil || p.Reads == nil {
		return reads == nil
	}
	return !slices.ContainsFunc(p.Reads, func(principal string) bool { return !slices.Contains(reads, principal) })
}
