package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/agenttools"
	"parley/ingress/internal/auth"
	"parley/ingress/internal/changes"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/openid"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/telemetry/tracing"
)

// RunCanceller cancels the runs of an agent that nobody has begun.
type RunCanceller interface {
	CancelQueued(ctx context.Context, organizationID, agentID string) error
}

// Deps is what the HTTP face needs of the rest of the ingress.
type Deps struct {
	Store    *store.Store
	Auth     *auth.Resolver
	Limits   *ratelimit.Limits
	Secrets  *secrets.Box
	Sealed   *sealed.Watch // of stored secrets
	Runs     RunCanceller
	Dispatch *dispatch.Dispatcher
	Streams  *stream.Hub
	Changes  *changes.Hub
	Bells    Doorbells
	Searches SearchCaller
	Signer   ClaimSigner
	Outside  AddressChecker // of addresses that are told of events
	Voice    *voicegate.Gate
	Log      zerolog.Logger
	Tracer   *tracing.Tracer      // nil: requests are not traced
	Metrics  *prometheus.Registry // whose metrics /metrics shows; the requests' own are added

	Checks   map[string]func(context.Context) error // what /readyz asks
	Draining func() bool                            // true from the moment the ingress begins to stop

	OpenID       openid.Settings // without a redirect address; the zero value is none
	Proxies      auth.Proxies    // believed about the client's address and scheme
	MetricsToken string          // with which /metrics is shown to other machines; empty: to none
	PublicURL    string          // where browsers reach the service, such as https://parley.example.com
	DefaultModel string          // shown for agents that name none

	DemoTokens int64 // that all demo visitors together may spend in a day

	StreamsPerCredential   int // open at this ingress
	StreamsPerOrganization int
	ConnectionsPerAddress  int // streams of a client address, however it reaches this ingress; 0: no limit
	VoicePerOrganization   int
	SignupsPerAddress      int // an hour at this ingress; 0: no limit

	Documents store.DocumentLimits // of an organization

	RunDeadline      time.Duration // from acceptance
	WaitDefault      time.Duration // for a run's end; the most that a request may ask for
	RetentionDefault time.Duration // of an automation's result
}

// api carries out requests; its methods are the handlers.
type api struct {
	Deps
	checks     heldChecks
	passwords  *auth.Passwords
	logins     loginLimits
	signups    *ratelimit.Failures // accounts that were made, by client address; nil: no limit
	demo       demoBudget
	origins    *http.CrossOriginProtection
	seats      stream.Seats
	downloads  transfers
	uploads    transfers
	texts      transfers // bodies of JSON that are uploads
	deliveries transfers // large ones, to hooks
	large      largeAnswers
	making     making
	hooks      *liveHooks
	unsigned   *ratelimit.Failures // deliveries that were not signed as they should be, by hook and address
	senders    verifiedSenders     // of deliveries
	provider   *openid.Provider    // nil when none is set
	templates  templateList
	usage      usageCache
	endpoints  int                // of notifications that an organization may have
	hooksMost  int                // that an organization may have
	tools      *agenttools.Server // agents as tools
	https      bool               // browsers come by TLS, whatever the last hop is
}

// New builds the handler of all routes.
func New(deps Deps) (http.Handler, error) {
	a, err := newAPI(deps)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return a.engine(m), nil
}

func newAPI(deps Deps) (*api, error) {
	passwords, err := auth.NewPasswords(0, auth.PasswordCost)
	if err != nil {
		return nil, fmt.Errorf("building HTTP face: %w", err)
	}
	a := &api{
		Deps: deps, passwords: passwords, origins: http.NewCrossOriginProtection(), logins: newLoginLimits(time.Now),
		downloads: transfers{traffic: outgoing}, uploads: transfers{traffic: incoming}, texts: transfers{traffic: incomingText},
		large:      largeAnswers{perOrganization: answersPerOrganization, atOnce: answersAtOnce},
		deliveries: transfers{traffic: incomingDeliveries}, endpoints: store.MaxEndpoints, hooksMost: store.MaxHooks,
		unsigned: ratelimit.NewFailures(unsignedMost, unsignedWindow, time.Now),
		tools:    agenttools.New(openapi.Version()), demo: demoBudget{most: deps.DemoTokens, spent: deps.Store.DemoSpent, now: time.Now},
	}
	a.hooks = newLiveHooks(func(ctx context.Context, id string) (store.ReceivingHook, error) {
		return a.Store.ReceivingHook(ctx, id)
	}, deps.Sealed)
	if deps.SignupsPerAddress > 0 {
		a.signups = ratelimit.NewFailures(deps.SignupsPerAddress, time.Hour, time.Now)
	}
	a.PublicURL = strings.TrimRight(deps.PublicURL, "/")
	if a.PublicURL != "" {
		public, err := url.Parse(a.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("reading public address: %w", err)
		}
		if err := a.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
			return nil, fmt.Errorf("reading public address: %w", err)
		}
		a.https = public.Scheme == "https"
	}
	a.provider = newProvider(deps.OpenID, a.PublicURL)
	return a, nil
}

// secure reports whether cookies of this request's browser may be sent over TLS only.
func (a *api) secure(c *gin.Context) bool { return a.https || a.Proxies.Secure(c.Request) }
