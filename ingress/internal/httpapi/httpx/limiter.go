package httpx

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const (
	demoStreams    = 10  // maximum number of open streams per demo client on one ingress process
	visitorStreams = 10  // maximum number of open streams per widget visitor on one ingress process
	addressStreams = 100 // maximum number of open streams of all widget visitors from one client address
	// SlotRetryAfter is the Retry-After value in the response to a request that found no free slot.
	// Slots become free when runs finish.
	SlotRetryAfter = 5 * time.Second
)

// StreamLimits contains the maximum numbers of open streams at one ingress process.
type StreamLimits struct {
	StreamsPerCredential   int
	StreamsPerOrganization int
	ConnectionsPerAddress  int // maximum number of streams from one client address, with any credential; 0: no limit
}

// Limiter enforces the rate limits and stream limits of callers. It is safe for concurrent use.
// There is one per process. The rate limits apply to all processes together, and the stream limits
// to each process separately.
type Limiter struct {
	StreamLimits
	DemoTokens int64 // daily token budget of all demo visitors together
	Now        func() time.Time

	limits *ratelimit.Limits
	auth   *auth.Resolver // determines client addresses
	demo   demoBudget
	seats  stream.Counter // counts the open streams
}

// TakeStream takes one stream slot in addition to the slots that TakeStreams has taken. It returns
// false if no slot is free.
func (l *Limiter) TakeStream(seat stream.Limit) bool { return l.seats.Take(seat) == nil }

// LeaveStreams releases slots that TakeStreams or TakeStream has taken.
func (l *Limiter) LeaveStreams(seats []stream.Limit) { l.seats.Leave(seats...) }

// NewLimiter returns a limiter. demoTokens is the daily token budget of all demo visitors together.
// spent returns the number of tokens that demo visitors have spent today.
func NewLimiter(
	limits *ratelimit.Limits, resolver *auth.Resolver, streams StreamLimits, demoTokens int64, spent func(context.Context) (int64, error),
) *Limiter {
	return &Limiter{
		StreamLimits: streams, DemoTokens: demoTokens, Now: time.Now, limits: limits, auth: resolver, demo: demoBudget{spent: spent},
	}
}

// TakeStreams takes the slots for a stream of the caller. If one of them is not free, it returns
// the error rate_limited. The caller must release the slots with LeaveStreams. It takes all slots
// or none.
func (l *Limiter) TakeStreams(who domain.Caller) ([]stream.Limit, error) {
	credential := stream.Limit{Name: "credential:" + who.Credential, Max: l.StreamsPerCredential}
	if who.Kind == domain.CallerDemo {
		credential = stream.Limit{Name: "demo:" + who.DemoClient, Max: demoStreams}
	}

	organization := stream.Limit{Name: "organization:" + who.OrganizationID, Max: l.StreamsPerOrganization}
	seats := []stream.Limit{credential, organization}

	if l.ConnectionsPerAddress > 0 && who.Client != "" {
		seats = append(seats, stream.Limit{Name: "address:" + who.Client, Max: l.ConnectionsPerAddress})
	}

	// A client can invent any number of visitors, so the number of streams from its address is
	// limited, too.
	if who.Visitor.ID != "" {
		seats[0].Max = visitorStreams
		seats = append(seats, stream.Limit{Name: "widget:" + who.Visitor.Client, Max: addressStreams})
	}

	switch full := l.seats.Take(seats...); {
	case full == nil:
		return seats, nil
	case full.Name == credential.Name:
		return nil, RateLimited(SlotRetryAfter, "too many open streams and waiting requests of this credential; close some")
	case full.Name == organization.Name:
		return nil, RateLimited(SlotRetryAfter, "too many open streams and waiting requests of this organization; close some")
	default:
		return nil, RateLimited(SlotRetryAfter, "too many open streams from this client address; close some")
	}
}

// Spend counts the request against its caller's rate limit and sets the rate limit headers. For
// requests of demo callers, which admission has already counted, it only checks the demo's token
// budget. The error is rate_limited or budget_exceeded, or an error of the database.
func (l *Limiter) Spend(c *gin.Context) error {
	who := Caller(c)
	if who.Kind == domain.CallerDemo {
		return l.demo.check(c.Request.Context(), l.DemoTokens, l.Now())
	}

	d, err := l.limits.Check(c.Request.Context(), who)
	if err != nil {
		l.ShowLimit(c)
		return fmt.Errorf("checking limit: %w", err)
	}

	ShowDecision(c, d)
	return Refusal(d)
}

// ShowLimit sets the rate limit headers without counting the request. It is for requests that are
// not counted, such as replays. It does nothing for callers without a limit, and for demo callers,
// because admission has set their headers.
func (l *Limiter) ShowLimit(c *gin.Context) {
	if d, known := l.limits.Peek(Caller(c)); known {
		ShowDecision(c, d)
	}
}

// CountDemo counts a request with the demo header against the limit of its client address.
func (l *Limiter) CountDemo(c *gin.Context) error {
	d, err := l.limits.Demo(c.Request.Context(), l.auth.DemoClient(c.Request))
	ShowDecision(c, d)
	if err != nil {
		return fmt.Errorf("checking demo limit: %w", err)
	}
	return Refusal(d)
}

// CountVisitor counts a request with a widget token, whatever its outcome, against the limits of
// the visitor. If the token was rejected, there is no visitor, and the request counts only against
// the limit of the client address.
func (l *Limiter) CountVisitor(c *gin.Context) error {
	ctx, visitor := c.Request.Context(), Caller(c).Visitor
	if visitor.ID == "" {
		return l.CountWidgetAddress(c)
	}
	d, err := l.limits.Visitor(ctx, visitor)
	return l.applyDecision(c, d, err)
}

// CountWidgetAddress counts a widget's request against the limit of its client address.
func (l *Limiter) CountWidgetAddress(c *gin.Context) error {
	d, err := l.limits.WidgetAddress(c.Request.Context(), l.auth.DemoClient(c.Request))
	return l.applyDecision(c, d, err)
}

// applyDecision sets the rate limit headers. It returns the error for a request that the decision
// rejects. If err is not nil, it only returns err.
func (l *Limiter) applyDecision(c *gin.Context, d ratelimit.Decision, err error) error {
	if err != nil {
		return fmt.Errorf("checking limit: %w", err)
	}
	ShowDecision(c, d)
	return Refusal(d)
}

// Names of the rate limit headers in net/http's canonical form. Header names are not
// case-sensitive.
const (
	HeaderPolicy = "Ratelimit-Policy"
	HeaderLimit  = "Ratelimit"
)

// ShowDecision sets the rate limit headers of a decision.
func ShowDecision(c *gin.Context, d ratelimit.Decision) {
	header := c.Writer.Header()
	header[HeaderPolicy] = []string{`"` + d.Tier + `";q=` + strconv.Itoa(d.Limit) + ";w=" + strconv.Itoa(int(ratelimit.Window/time.Second))}
	header[HeaderLimit] = []string{`"` + d.Tier + `";r=` + strconv.Itoa(d.Remaining) + ";t=" + strconv.Itoa(wholeSeconds(d.Reset))}
}

// Refusal returns the rate_limited error of a decision, or nil if the request is allowed.
func Refusal(d ratelimit.Decision) error {
	if d.Allowed {
		return nil
	}
	return RateLimited(d.RetryAfter, fmt.Sprintf("rate limit of %d requests per minute exceeded", d.Limit))
}

// RateLimited returns a rate_limited error. The client may retry after wait.
func RateLimited(wait time.Duration, detail string) error {
	e := apierr.New(apierr.RateLimited, "%s", detail)
	e.RetryAfter = wait
	return e
}

// wholeSeconds returns a number of seconds, rounded up so that a client never retries too early,
// and at least 1.
func wholeSeconds(d time.Duration) int {
	return max(1, int((d+time.Second-1)/time.Second))
}
