package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/attach"
	"parley/ingress/internal/auth"
	"parley/ingress/internal/changes"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/account"
	"parley/ingress/internal/httpapi/agent"
	"parley/ingress/internal/httpapi/hook"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/knowledge"
	"parley/ingress/internal/httpapi/mcp"
	"parley/ingress/internal/httpapi/notification"
	"parley/ingress/internal/httpapi/openai"
	"parley/ingress/internal/httpapi/organization"
	"parley/ingress/internal/httpapi/run"
	"parley/ingress/internal/httpapi/site"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/httpapi/usage"
	"parley/ingress/internal/httpapi/voice"
	"parley/ingress/internal/httpapi/widget"
	"parley/ingress/internal/openid"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/hookdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/notificationdb"
	"parley/shared/telemetry/tracing"
)

// Deps contains the dependencies and settings of the HTTP API. The package ingress sets them once;
// they never change.
type Deps struct {
	// All stores, on one pool of connections.
	Store *store.Store
	Auth  *auth.Resolver
	// Rate limits.
	Limits *ratelimit.Limits
	// Encrypts and decrypts stored secrets.
	Secrets *secrets.Box
	Sealed  *sealed.Watch // watches the stored secrets
	// Cancels queued runs of a deleted agent.
	Runs agent.RunCanceller
	// Accepts and cancels runs.
	Dispatch *dispatch.Dispatcher
	// Events of runs.
	Streams *stream.Hub
	// Watches the clients that wait for a run.
	Readers *readers.Watch
	// Changes that clients of the dashboard watch.
	Changes *changes.Hub
	// Notifies workers of documents, and clients of changes.
	Jobs     knowledge.JobNotifier
	Searches knowledge.SearchCaller // lets workers search documents, check connections and embed texts
	// Signs links and claims.
	Signer   filelink.Signer
	Outbound notification.AddressChecker // checks the addresses of notification endpoints
	Fetches  *outbound.Client            // fetches attachments from URLs; nil: attachments cannot be URLs
	// Owns the voice connections.
	Voice   *voicegate.Gate
	Log     zerolog.Logger
	Tracer  *tracing.Tracer      // nil: requests are not traced
	Metrics *prometheus.Registry // registry shown by /metrics, to which New adds the metrics of requests; nil: a new one

	Checks   map[string]func(context.Context) error // checks of /readyz by name
	Draining func() bool                            // reports whether the ingress has begun to stop

	OpenID       openid.Settings // the OpenID provider, without a redirect URL; the zero value disables OpenID
	Proxies      auth.Proxies    // proxies that are trusted to report the client's address and scheme
	MetricsToken string          // token with which other machines can read /metrics; empty: only this machine can
	FileLinkTTL  time.Duration   // how long a link to a file works; 0: no links
	PublicURL    string          // URL at which browsers reach the service, such as https://parley.example.com
	Owner        string          // email address of the account that this process has created; empty: none
	Program      string          // name or path with which the operator's shell runs the program parley
	DefaultModel string          // shown for agents without a model
	// OpenAICompatible means that the provider openai is a server other than OpenAI's own.
	OpenAICompatible bool
	// Currency is the currency of costs, as an ISO 4217 code.
	Currency string

	DemoTokens int64 // daily token budget of all demo visitors together

	ChecksPerMinute int // maximum number of agent checks per minute and organization; 0: no limit
	// Maximum numbers of open streams.
	StreamLimits httpx.StreamLimits
	// Maximum number of simultaneous voice connections.
	VoicePerOrganization int
	SignupsPerAddress    int // maximum number of sign-ups per hour and client address at this ingress process; 0: no limit

	Documents            knowledgedb.DocumentLimits // limits per organization
	FilesPerOrganization int64                      // maximum bytes of files; 0: no limit

	RunDeadline      time.Duration // time from the acceptance of a run to its deadline
	WaitDefault      time.Duration // default and maximum of the time for which a request waits for its run
	RetentionDefault time.Duration // default time for which an automation's result is kept
}

// api handles the requests. There is one per process. It has the handlers of all features and the
// limiters that several features share.
type api struct {
	Deps
	*httpx.Limiter
	httpx.SessionChecks
	// Results of the readiness checks.
	checks cachedChecks
	// Origins whose pages may send requests with cookies.
	origins *http.CrossOriginProtection
	// Limits downloads of all features together.
	downloads     transfer.Limiter
	knowledge     *knowledge.Handler
	account       *account.Handler
	organizations *organization.Handler
	agents        *agent.Handler
	usage         *usage.Handler
	notifications *notification.Handler
	runs          *run.Handler
	hooks         *hook.Handler
	openai        *openai.Handler
	mcp           *mcp.Handler
	voice         *voice.Handler
	widget        *widget.Handler
	site          *site.Handler
	// Limits large responses of all features together.
	large httpx.LargeAnswers
	// Limits large request bodies.
	bodies transfer.Bodies
	// Cache of the templates.
	templates *agent.Templates
	https     bool // whether browsers use TLS, even if the last proxy connects without TLS
}

// New returns the handler of all routes. The handler is safe for concurrent use. The error reports
// a faulty setting, or a metric that is already registered.
func New(deps Deps) (http.Handler, error) {
	a, err := newAPI(deps, auth.NewPasswords(0, auth.PasswordCost))
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return a.engine(m), nil
}

// newAPI returns an api with all handlers. Tests pass Passwords with which hashing is fast. The api
// has no routes yet; see engine.
func newAPI(deps Deps, passwords *auth.Passwords) (*api, error) {
	a := &api{
		Deps: deps, origins: http.NewCrossOriginProtection(),
		downloads:     transfer.Limiter{Policy: transfer.Files},
		large:         httpx.LargeAnswers{PerOrganization: httpx.AnswersPerOrganization, AtOnce: httpx.LargeAnswersInTotal},
		Limiter:       httpx.NewLimiter(deps.Limits, deps.Auth, deps.StreamLimits, deps.DemoTokens, deps.Store.Limits.DemoSpent),
		SessionChecks: httpx.NewSessionChecks(deps.Auth, deps.RunDeadline),
	}
	a.bodies = transfer.Bodies{Limiter: transfer.Limiter{Policy: transfer.Messages}, Permit: a.SessionCheck}
	if err := a.readPublicURL(); err != nil {
		return nil, err
	}

	a.wire(deps, passwords)
	return a, nil
}

// readPublicURL parses the public URL and trusts its origin, so that pages of this origin may send
// requests that change data. Without a public URL, only requests from the same origin are trusted.
func (a *api) readPublicURL() error {
	a.PublicURL = strings.TrimRight(a.PublicURL, "/")
	if a.PublicURL != "" {
		public, err := url.Parse(a.PublicURL)
		if err != nil {
			return fmt.Errorf("reading public address: %w", err)
		}
		if err := a.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
			return fmt.Errorf("reading public address: %w", err)
		}
		a.https = public.Scheme == "https"
	}

	return nil
}

// modelRules returns the rules for checking model settings. Package agent and the acceptance of
// runs use the same rules.
func (d *Deps) modelRules() domain.ModelRules {
	return domain.ModelRules{DefaultModel: d.DefaultModel, OpenAICompatible: d.OpenAICompatible}
}

// resetCommand returns the command that prints a link to set a new password. The user must add the
// account to the command. The login page and the dashboard show it.
func (d *Deps) resetCommand() string { return cmp.Or(d.Program, "parley") + " reset-password" }

// wire creates the handlers of all features. Handlers that use other handlers are created later;
// see wireProtocols.
func (a *api) wire(deps Deps, passwords *auth.Passwords) {
	references := httpx.NewReferences(deps.Store.Runs)
	links := filelink.New(deps.Signer, a.PublicURL, deps.FileLinkTTL, time.Now)
	submitter := dispatch.NewSubmitter(deps.Store, deps.Dispatch, deps.Streams, deps.Readers, deps.RunDeadline)
	submitter.Models = deps.modelRules()
	a.templates = &agent.Templates{AgentsDB: deps.Store.Agents}
	files := attach.New(attach.Deps{
		BlobsDB: deps.Store.Blobs, RunsDB: deps.Store.Runs, AgentsDB: deps.Store.Agents, Templates: a.templates, Client: deps.Fetches,
		DefaultModel: deps.DefaultModel, FilesPerOrganization: deps.FilesPerOrganization,
	})
	submitter.WithAttachments(files, deps.FilesPerOrganization)
	a.knowledge = knowledge.New(knowledge.Deps{
		SessionChecks: a.SessionChecks, References: references, BlobsDB: deps.Store.Blobs, KnowledgeDB: deps.Store.Knowledge,
		Dispatch: deps.Dispatch, Jobs: deps.Jobs, Searches: deps.Searches, Signer: deps.Signer, Downloads: &a.downloads,
		Limits: deps.Documents, Log: deps.Log,
	})
	a.agents = agent.New(agent.Deps{
		References: references, AgentsDB: deps.Store.Agents, Secrets: deps.Secrets, Runs: deps.Runs, Auth: deps.Auth,
		Templates: a.templates, Workers: deps.Searches, Budgets: deps.Store.Budgets, Signer: deps.Signer, Log: deps.Log,
		ModelRules: deps.modelRules(), Organizations: deps.Store.Organizations, ChecksPerMinute: deps.ChecksPerMinute,
	})
	a.usage = usage.New(usage.Deps{
		References: references, BudgetsDB: deps.Store.Budgets, KnowledgeDB: deps.Store.Knowledge, OverviewsDB: deps.Store.Overviews,
		RunsDB: deps.Store.Runs, UsageDB: deps.Store.Usage, Rates: deps.Limits, Streams: &a.Limiter.StreamLimits,
		VoicePerOrganization: deps.VoicePerOrganization, Documents: deps.Documents, RunDeadline: deps.RunDeadline, Currency: deps.Currency,
	})
	a.notifications = notification.New(notification.Deps{
		References: references, NotificationsDB: deps.Store.Notifications, Secrets: deps.Secrets, Changes: deps.Jobs,
		Outbound: deps.Outbound, MaxEndpoints: notificationdb.MaxEndpoints,
	})
	a.account = account.New(account.Deps{
		AccountsDB: deps.Store.Accounts, OrganizationsDB: deps.Store.Organizations, Auth: deps.Auth, Secrets: deps.Secrets,
		Passwords: passwords, Origins: a.origins, OpenID: deps.OpenID, PublicURL: a.PublicURL, Secure: a.secure,
		Owner: deps.Owner, Reset: a.resetCommand(), OnThisMachine: deps.Proxies.OnThisMachine, SignupsPerAddress: deps.SignupsPerAddress,
	})
	a.site = site.New(site.Deps{
		Auth: deps.Auth, PublicURL: a.PublicURL, Reset: a.resetCommand(), Currency: deps.Currency,
		Session: func(ctx context.Context, who domain.Caller) (any, error) { return a.account.Session(ctx, who) },
	})
	a.organizations = organization.New(organization.Deps{
		Organizations: deps.Store.Organizations, Auth: deps.Auth, PublicURL: a.PublicURL,
	})
	a.hooks = hook.New(hook.Deps{
		References: references, Submitter: submitter, AgentsDB: deps.Store.Agents, HooksDB: deps.Store.Hooks, Auth: deps.Auth,
		Limits: deps.Limits, Dispatch: deps.Dispatch, Secrets: deps.Secrets, Opener: deps.Sealed, Changes: deps.Jobs, PublicURL: a.PublicURL,
		RunDeadline: deps.RunDeadline, RetentionDefault: deps.RetentionDefault, MaxHooks: hookdb.MaxHooks, Log: deps.Log,
	})
	a.runs = run.New(run.Deps{
		Limiter: a.Limiter, References: references, Submitter: submitter, SessionChecks: a.SessionChecks,
		AgentsDB: deps.Store.Agents, BlobsDB: deps.Store.Blobs, RunsDB: deps.Store.Runs, SessionsDB: deps.Store.Sessions,
		Dispatch: deps.Dispatch, Streams: deps.Streams, Changes: deps.Changes, Secrets: deps.Secrets, Templates: a.templates,
		Downloads: &a.downloads, Uploads: &a.knowledge.Uploads, VisitorUploads: &transfer.Limiter{Policy: transfer.VisitorFiles},
		Files: files, Links: links, Auth: deps.Auth, Readers: deps.Readers, Log: deps.Log,
		WaitDefault: deps.WaitDefault, RetentionDefault: deps.RetentionDefault, Currency: deps.Currency,
	})
	a.wireProtocols(deps, submitter, links)
}

// wireProtocols creates the handlers of OpenAI's API, MCP, the widget and voice. wire calls it
// after it has created the handlers that these use.
func (a *api) wireProtocols(deps Deps, submitter *dispatch.Submitter, links *filelink.Links) {
	a.openai = openai.New(openai.Deps{
		Limiter: a.Limiter, SessionChecks: a.SessionChecks, Runs: a.runs, AgentsDB: deps.Store.Agents, RunsDB: deps.Store.Runs,
		SessionsDB: deps.Store.Sessions, Dispatch: deps.Dispatch, Readers: deps.Readers, Templates: a.templates, Links: links,
		Workers: deps.Searches, Signer: deps.Signer, PublicURL: a.PublicURL, Log: deps.Log, RunDeadline: deps.RunDeadline,
	})
	a.mcp = mcp.New(mcp.Deps{
		Limiter: a.Limiter, Submitter: submitter, SessionChecks: a.SessionChecks, AgentsDB: deps.Store.Agents,
		RunsDB: deps.Store.Runs, Readers: deps.Readers,
	})
	a.widget = widget.New(widget.Deps{Limiter: a.Limiter, Auth: deps.Auth, Rates: deps.Limits})
	a.voice = voice.New(voice.Deps{
		Limiter: a.Limiter, Submitter: submitter, SessionChecks: a.SessionChecks, AgentsDB: deps.Store.Agents,
		SessionsDB: deps.Store.Sessions, Auth: deps.Auth, Dispatch: deps.Dispatch, Voice: deps.Voice, Templates: a.templates,
		Pages: a.widget, Origins: a.origins, Stopping: a.stopping, VoicePerOrganization: deps.VoicePerOrganization,
	})
}

// secure reports whether the cookies of a response get the attribute Secure, which restricts them
// to TLS. Without TLS, for example in development, a browser would not send back a cookie with this
// attribute.
func (a *api) secure(c *gin.Context) bool { return a.https || a.Proxies.Secure(c.Request) }
