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
	"parley/ingress/internal/httpapi/account"
	"parley/ingress/internal/httpapi/agent"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/knowledge"
	"parley/ingress/internal/httpapi/notification"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/httpapi/usage"
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

// Deps is what the HTTP face needs of the rest of the ingress.
type Deps struct {
	Store    *store.Store
	Auth     *auth.Resolver
	Limits   *ratelimit.Limits
	Secrets  *secrets.Box
	Sealed   *sealed.Watch // of stored secrets
	Runs     agent.RunCanceller
	Dispatch *dispatch.Dispatcher
	Streams  *stream.Hub
	Changes  *changes.Hub
	Bells    knowledge.Doorbells
	Searches knowledge.SearchCaller
	Signer   knowledge.ClaimSigner
	Outside  notification.AddressChecker // of addresses that are told of events
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

	StreamLimits         httpx.StreamLimits
	VoicePerOrganization int
	SignupsPerAddress    int // an hour at this ingress; 0: no limit

	Documents store.DocumentLimits // of an organization

	RunDeadline      time.Duration // from acceptance
	WaitDefault      time.Duration // for a run's end; the most that a request may ask for
	RetentionDefault time.Duration // of an automation's result
}

// api carries out requests; its methods are the handlers.
type api struct {
	Deps
	*httpx.Limiter
	*httpx.References
	*dispatch.Submitter
	httpx.SessionChecks
	checks        heldChecks
	origins       *http.CrossOriginProtection
	downloads     transfer.Limiter
	knowledge     *knowledge.Handler
	account       *account.Handler
	agents        *agent.Handler
	usage         *usage.Handler
	notifications *notification.Handler
	deliveries    transfer.Limiter // large ones, to hooks
	large         httpx.LargeAnswers
	hooks         *liveHooks
	unsigned      *ratelimit.Failures // deliveries that were not signed as they should be, by hook and address
	senders       verifiedSenders     // of deliveries
	templates     *agent.Templates
	hooksMost     int                // that an organization may have
	tools         *agenttools.Server // agents as tools
	https         bool               // browsers come by TLS, whatever the last hop is
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
		Deps: deps, origins: http.NewCrossOriginProtection(),
		downloads:  transfer.Limiter{Policy: transfer.Files},
		large:      httpx.LargeAnswers{PerOrganization: httpx.AnswersPerOrganization, AtOnce: httpx.AnswersAtOnce},
		deliveries: transfer.Limiter{Policy: incomingDeliveries}, hooksMost: store.MaxHooks,
		unsigned:      ratelimit.NewFailures(unsignedMost, unsignedWindow, time.Now),
		tools:         agenttools.New(openapi.Version()),
		Limiter:       httpx.NewLimiter(deps.Limits, deps.Auth, deps.StreamLimits, deps.DemoTokens, deps.Store.DemoSpent),
		References:    httpx.NewReferences(deps.Store),
		Submitter:     dispatch.NewSubmitter(deps.Store, deps.Dispatch, deps.Streams, deps.RunDeadline),
		SessionChecks: httpx.NewSessionChecks(deps.Auth, deps.RunDeadline),
	}
	a.knowledge = knowledge.New(knowledge.Deps{
		SessionChecks: a.SessionChecks, References: a.References, Store: deps.Store, Dispatch: deps.Dispatch, Bells: deps.Bells,
		Searches: deps.Searches, Signer: deps.Signer, Downloads: &a.downloads, Limits: deps.Documents, Log: deps.Log,
	})
	a.templates = &agent.Templates{Store: deps.Store}
	a.agents = agent.New(agent.Deps{
		References: a.References, Store: deps.Store, Secrets: deps.Secrets, Runs: deps.Runs, Auth: deps.Auth,
		Templates: a.templates, DefaultModel: deps.DefaultModel,
	})
	a.usage = usage.New(usage.Deps{
		References: a.References, Store: deps.Store, Rates: deps.Limits, Streams: &a.Limiter.StreamLimits,
		VoicePerOrganization: deps.VoicePerOrganization, Documents: deps.Documents, RunDeadline: deps.RunDeadline,
	})
	a.notifications = notification.New(notification.Deps{
		References: a.References, Store: deps.Store, Secrets: deps.Secrets, Changes: deps.Bells, Outside: deps.Outside,
		MaxEndpoints: store.MaxEndpoints,
	})
	a.hooks = newLiveHooks(func(ctx context.Context, id string) (store.ReceivingHook, error) {
		return a.Store.ReceivingHook(ctx, id)
	}, deps.Sealed)
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
	a.account = account.New(account.Deps{
		Store: deps.Store, Auth: deps.Auth, Secrets: deps.Secrets, Passwords: passwords, Origins: a.origins, OpenID: deps.OpenID,
		PublicURL: a.PublicURL, Secure: a.secure, SignupsPerAddress: deps.SignupsPerAddress,
	})
	return a, nil
}

// secure reports whether cookies of this request's browser may be sent over TLS only.
func (a *api) secure(c *gin.Context) bool { return a.https || a.Proxies.Secure(c.Request) }
