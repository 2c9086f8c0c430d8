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
	demoStreams    = 10  // that a demo client may have open at an ingress,
	visitorStreams = 10  // a visitor of a widget,
	addressStreams = 100 // and the widgets' visitors of one address
	// SeatWait is the Retry-After of a stream that found no seat: streams end with their runs.
	SeatWait = 5 * time.Second // for whoever found no seat: streams end with their runs
)

// StreamLimits are how many streams may be open at an ingress.
type StreamLimits struct {
	StreamsPerCredential   int
	StreamsPerOrganization int
	ConnectionsPerAddress  int // streams of a client address, however it reaches this ingress; 0: no limit
}

// Limiter counts requests and streams against the limits of their callers.
type Limiter struct {
	StreamLimits
	DemoTokens int64 // that all demo visitors together may spend in a day
	Now        func() time.Time

	limits *ratelimit.Limits
	auth   *auth.Resolver // names the client addresses
	demo   demoBudget
	seats  stream.Seats
}

// TakeSeat takes one more seat beside those of takeSeats. It returns false if there is none.
func (l *Limiter) TakeSeat(seat stream.Seat) bool { return l.seats.Take(seat) == nil }

// LeaveSeats gives back what takeSeats took.
func (l *Limiter) LeaveSeats(seats []stream.Seat) { l.seats.Leave(seats...) }

// NewLimiter makes a limiter. All demo visitors together may spend demoTokens in a day; spent reads what they have spent.
func NewLimiter(
	limits *ratelimit.Limits, resolver *auth.Resolver, streams StreamLimits, demoTokens int64, spent func(context.Context) (int64, error),
) *Limiter {
	return &Limiter{
		StreamLimits: streams, DemoTokens: demoTokens, Now: time.Now, limits: limits, auth: resolver, demo: demoBudget{spent: spent},
	}
}

// TakeSeats counts the caller's stream, or refuses it. The seats must be left at its end.
func (l *Limiter) TakeSeats(who domain.Caller) ([]stream.Seat, error) {
	credential := stream.Seat{Name: "credential:" + who.Credential, Max: l.StreamsPerCredential}
	if who.Kind == domain.CallerDemo {
		credential = stream.Seat{Name: "demo:" + who.DemoClient, Max: demoStreams}
	}
	organization := stream.Seat{Name: "organization:" + who.OrganizationID, Max: l.StreamsPerOrganization}
	seats := []stream.Seat{credential, organization}
	if l.ConnectionsPerAddress > 0 && who.Client != "" {
		seats = append(seats, stream.Seat{Name: "address:" + who.Client, Max: l.ConnectionsPerAddress})
	}
	if who.Visitor.ID != "" {
		seats[0].Max = visitorStreams
		seats = append(seats, stream.Seat{Name: "widget:" + who.Visitor.Client, Max: addressStreams})
	}
	switch full := l.seats.Take(seats...); {
	case full == nil:
		return seats, nil
	case full.Name == credential.Name:
		return nil, RateLimited(SeatWait, "too many open streams and waiting requests of this credential; close some")
	case full.Name == organization.Name:
		return nil, RateLimited(SeatWait, "too many open streams and waiting requests of this organization; close some")
	default:
		return nil, RateLimited(SeatWait, "too many open streams from this client address; close some")
	}
}

// Spend counts the request against its caller's limit and says on the response where that stands. A
// demo caller's request was counted at the gate: what it may cost is left to be looked at.
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

// ShowLimit says on the response where the caller's limit stands, and counts nothing: for what costs nothing,
// such as replays. It shows nothing for callers without a limit, and leaves what counting has shown of the demo's.
func (l *Limiter) ShowLimit(c *gin.Context) {
	if d, known := l.limits.Peek(Caller(c)); known {
		ShowDecision(c, d)
	}
}

// CountDemo counts a request with the demo header against its client address.
func (l *Limiter) CountDemo(c *gin.Context) error {
	d, err := l.limits.Demo(c.Request.Context(), l.auth.DemoClient(c.Request))
	ShowDecision(c, d)
	if err != nil {
		return fmt.Errorf("checking demo limit: %w", err)
	}
	return Refusal(d)
}

// CountVisitor counts a request with a widget token, whatever becomes of it: of one that is refused nothing counts but where
// it came from.
func (l *Limiter) CountVisitor(c *gin.Context) error {
	ctx, visitor := c.Request.Context(), Caller(c).Visitor
	if visitor.ID == "" {
		return l.CountWidgetAddress(c)
	}
	d, err := l.limits.Visitor(ctx, visitor)
	return l.counted(c, d, err)
}

// CountWidgetAddress counts a request of a widget against its client address.
func (l *Limiter) CountWidgetAddress(c *gin.Context) error {
	d, err := l.limits.WidgetAddress(c.Request.Context(), l.auth.DemoClient(c.Request))
	return l.counted(c, d, err)
}

// counted shows a decision, and gives its refusal.
func (l *Limiter) counted(c *gin.Context, d ratelimit.Decision, err error) error {
	if err != nil {
		return fmt.Errorf("checking limit: %w", err)
	}
	ShowDecision(c, d)
	return Refusal(d)
}

// The headers of limits, as net/http writes them: case does not matter in them.
const (
	HeaderPolicy = "Ratelimit-Policy"
	HeaderLimit  = "Ratelimit"
)

// ShowDecision writes a decision's headers.
func ShowDecision(c *gin.Context, d ratelimit.Decision) {
	header := c.Writer.Header()
	header[HeaderPolicy] = []string{`"` + d.Tier + `";q=` + strconv.Itoa(d.Limit) + ";w=" + strconv.Itoa(int(ratelimit.Window/time.Second))}
	header[HeaderLimit] = []string{`"` + d.Tier + `";r=` + strconv.Itoa(d.Remaining) + ";t=" + strconv.Itoa(wholeSeconds(d.Reset))}
}

// Refusal is a decision's refusal, when it is one.
func Refusal(d ratelimit.Decision) error {
	if d.Allowed {
		return nil
	}
	return RateLimited(d.RetryAfter, fmt.Sprintf("rate limit of %d requests per minute exceeded", d.Limit))
}

// RateLimited is the refusal of a request that may be sent again after wait.
func RateLimited(wait time.Duration, detail string) error {
	e := apierr.New(apierr.RateLimited, "%s", detail)
	e.RetryAfter = wait
	return e
}

// wholeSeconds rounds up, to 1 at least: whoever waits that long waits long enough.
func wholeSeconds(d time.Duration) int {
	return max(1, int((d+time.Second-1)/time.Second))
}
