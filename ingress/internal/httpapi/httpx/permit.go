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
	permitInterval = time.Second      // minimum time between two checks of one credential
	permitGrace    = 30 * time.Second // maximum time for which a stream continues without a successful check
)

// SessionChecks creates the session checks of streams.
type SessionChecks struct {
	auth        *auth.Resolver
	runDeadline time.Duration
}

// NewSessionChecks returns session checks. runDeadline is the longest time for which a widget's
// visitor may follow a run.
func NewSessionChecks(resolver *auth.Resolver, runDeadline time.Duration) SessionChecks {
	return SessionChecks{auth: resolver, runDeadline: runDeadline}
}

// SessionCheck decides whether a stream may continue. When the cached identity of the caller
// expires, it checks the credential again, so that streams end after their credential was revoked.
// It belongs to one stream and is not safe for concurrent use.
type SessionCheck struct {
	Resolve func(*http.Request, auth.Need) (auth.Identity, error)
	Request *http.Request // contains the credential
	Org     string        // organization of the stream; the stream ends if the credential later acts in another organization
	Reads   []string      // principals whose runs the stream may show; nil: all
	Next    time.Time     // time of the next check; zero: never
	Seen    time.Time     // time of the last successful check
	Last    time.Time     // latest time at which the stream ends; zero: none
}

// SessionCheck returns the session check for the request's caller. The streams of demo visitors are
// never checked again, because demo visitors have no credential.
func (s *SessionChecks) SessionCheck(c *gin.Context) SessionCheck {
	ident := StateFor(c).Ident
	p := SessionCheck{
		Resolve: s.auth.Resolve, Request: c.Request, Org: ident.Caller.OrganizationID, Reads: ident.Caller.Readable(),
		Next: ident.Until, Seen: time.Now(),
	}

	if ident.Via == auth.ViaWidget {
		// A visitor may continue to follow a run after the widget token has expired, provided that
		// the widget exists and is enabled. The stream ends after the run's time limit. If the run
		// waits for a person for longer than the time limit, the visitor reconnects with a new
		// token.
		p.Resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return s.auth.Again(req) }
		p.Last = p.Seen.Add(max(s.runDeadline, auth.WidgetTokenLife))
	}

	return p
}

// Earlier returns the argument until or the time of the next check, whichever is earlier.
func (p *SessionCheck) Earlier(until time.Time) time.Time {
	if p.Next.IsZero() || until.Before(p.Next) {
		return until
	}
	return p.Next
}

// Holds reports whether the stream may continue. If the credential cannot be checked because the
// service has a problem, the stream may continue for permitGrace. Holds reads the database at most
// once in permitInterval.
func (p *SessionCheck) Holds(now time.Time) bool {
	if !p.Last.IsZero() && !now.Before(p.Last) {
		return false
	}

	if p.Next.IsZero() || now.Before(p.Next) {
		return true
	}

	ident, err := p.Resolve(p.Request, auth.NeedUser)
	now = time.Now() // the check may have taken a while
	p.Next = now.Add(permitInterval)
	if err != nil {
		code := apierr.CodeFor(err)
		return (code == apierr.Unavailable || code == apierr.Overloaded) && now.Before(p.Seen.Add(permitGrace))
	}

	if ident.Until.After(p.Next) {
		p.Next = ident.Until
	}

	p.Seen = now
	return ident.Caller.OrganizationID == p.Org && p.includedIn(ident.Caller.Readable())
}

// includedIn reports whether a caller who may read the given principals may read everything that
// the stream shows.
func (p *SessionCheck) includedIn(reads []string) bool {
	// nil means all principals. Only a caller who may read all principals may follow such a stream.
	if reads == nil || p.Reads == nil {
		return reads == nil
	}
	return !slices.ContainsFunc(p.Reads, func(principal string) bool { return !slices.Contains(reads, principal) })
}
