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
	permitGrace    = 30 * time.Second // maximum time without a successful check
)

// SessionChecks creates the session checks of streams.
type SessionChecks struct {
	auth        *auth.Resolver
	runDeadline time.Duration
}

// NewSessionChecks returns session checks. A widget visitor may follow a run for at most runDeadline.
func NewSessionChecks(resolver *auth.Resolver, runDeadline time.Duration) SessionChecks {
	return SessionChecks{auth: resolver, runDeadline: runDeadline}
}

// SessionCheck decides whether a stream may continue. It checks the credential again when the
// cached identity expires, so that revoking a credential also ends its open streams.
type SessionCheck struct {
	Resolve func(*http.Request, auth.Need) (auth.Identity, error)
	Request *http.Request // contains the credential
	Org     string        // the stream ends if the credential later acts in another organization
	Reads   []string      // principals whose sessions the stream may show; nil: all
	Next    time.Time     // time of the next check; zero: never
	Seen    time.Time     // time of the last successful check
	Last    time.Time     // time when the stream ends at the latest; zero: never
}

// SessionCheck returns the session check for the request's caller. Demo visitors have no
// credential, so their streams need no further check.
func (s *SessionChecks) SessionCheck(c *gin.Context) SessionCheck {
	ident := StateFor(c).Ident
	p := SessionCheck{
		Resolve: s.auth.Resolve, Request: c.Request, Org: ident.Caller.OrganizationID, Reads: ident.Caller.Readable(),
		Next: ident.Until, Seen: time.Now(),
	}

	if ident.Via == auth.ViaWidget {
		// A visitor may follow a run after the widget token has expired, as long as the widget
		// still exists and is enabled. The stream ends after the run's time limit at the latest. If
		// the run waits longer for a person, the visitor reconnects with a new token.
		p.Resolve = func(req *http.Request, _ auth.Need) (auth.Identity, error) { return s.auth.Again(req) }
		p.Last = p.Seen.Add(max(s.runDeadline, auth.WidgetTokenLife))
	}

	return p
}

// Earlier returns the earlier of until and the time of the next check.
func (p *SessionCheck) Earlier(until time.Time) time.Time {
	if p.Next.IsZero() || until.Before(p.Next) {
		return until
	}
	return p.Next
}

// Holds reports whether the stream may continue. If the credential cannot be checked, the stream
// may continue for permitGrace.
func (p *SessionCheck) Holds(now time.Time) bool {
	if !p.Last.IsZero() && !now.Before(p.Last) {
		return false
	}

	if p.Next.IsZero() || now.Before(p.Next) {
		return true
	}

	ident, err := p.Resolve(p.Request, auth.NeedUser)
	now = time.Now() // the time after the check, which may take a while
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

// includedIn reports whether a caller with the given readable principals may read everything that
// the stream may show.
func (p *SessionCheck) includedIn(reads []string) bool {
	// nil means every principal, so a caller with nil may read everything.
	if reads == nil || p.Reads == nil {
		return reads == nil
	}
	return !slices.ContainsFunc(p.Reads, func(principal string) bool { return !slices.Contains(reads, principal) })
}
