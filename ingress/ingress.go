// Package ingress is Parley's HTTP edge: it authenticates and validates requests, accepts runs, and
// waits for their results. It does not depend on workers. New and Run are its only exported API.
//
// Any number of ingress processes can serve the same database and bus. They share no memory: caches
// are short-lived, and limits that must hold for all processes are counted in PostgreSQL. The
// commands `ingress` and `parley up` use this package.
//
// New connects the parts, which are in internal packages, and Run starts them:
//
//	addressLimit ─► http.Server ─► httpapi ─┬─► dispatch   accepts runs, waits for results
//	                                        ├─► stream     events of runs
//	                                        ├─► readers    cancels runs that no client reads
//	                                        ├─► changes    streams of an organization's changes
//	                                        └─► voicegate  voice connections
//
// When the context of Run ends, the ingress first reports that it is not ready, then drains
// requests, and finally stops the parts.
package ingress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // the type that net/http takes; its output goes to zerolog
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/changes"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi"
	"parley/ingress/internal/httpapi/agent"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openid"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/lifecycle"
	"parley/shared/outbound"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/telemetry/tracing"
)

const (
	// headerTimeout is the time in which a client must send the headers.
	headerTimeout = 5 * time.Second
	// streamPause is the pause between two attempts to create the job stream, which contains the
	// job messages in NATS.
	streamPause = time.Second
	// bodyTimeout is the time in which a client must send a whole request.
	bodyTimeout = 30 * time.Second
	// idleTimeout is the time after which an idle connection is closed.
	idleTimeout = 2 * time.Minute
	// maxHeader is the maximum size of all headers of a request, in bytes.
	maxHeader = 32 << 10
	// drainTimeout is the time that requests in progress have to finish when the ingress stops.
	drainTimeout = 25 * time.Second
	stopTimeout  = 30 * time.Second // time for all parts of the ingress to stop, after the grace period
	voiceDrain   = 14 * time.Second // time for spoken answers to finish; closing the voice gate takes longer
	// writeTimeout is the time in which a response must be written. It includes the longest wait
	// for a run. Streams set their own deadlines.
	writeTimeout = 90 * time.Second
)

// Config has the settings of the HTTP edge. It is not changed after New.
type Config struct {
	config.Runs
	config.Secrets
	config.Documents
	config.Outbound
	config.Ingress

	// OpenAIBaseURL is the setting OPENAI_BASE_URL, which workers also have. If it is set, agents
	// may have model settings that OpenAI's own models do not accept.
	OpenAIBaseURL string
	// VoiceIdleTimeout is the maximum time of silence in a voice connection; 0: voiceIdleTimeout.
	// It is for tests.
	VoiceIdleTimeout time.Duration
}

const (
	// streamsFactor is the number of credentials that together may use all streams of their
	// organization. With 2, a credential that reaches its own limit leaves half of the
	// organization's streams to other credentials.
	streamsFactor = 2
	// voiceIdleTimeout is longer than a pause of a person who still uses a voice connection. After
	// it, the connection only occupies a slot of its organization and of a voice worker.
	voiceIdleTimeout = 5 * time.Minute
	// keysPerUser is more keys than a person needs. Programs use the keys of an organization, whose
	// number is the setting KEYS_PER_ORGANIZATION.
	keysPerUser = 100
	// membershipsPerUser is more organizations than a person works in. It limits the rows that the
	// service reads to list the organizations of a user.
	membershipsPerUser = 100
	// membershipsFactor is the minimum number of memberships for each organization that a user may
	// own. A user who owns as many organizations as possible can thus still join others.
	membershipsFactor = 5
)

// Deps are the dependencies of the HTTP edge. The caller closes them after Run. Store, Bus and Log
// are required.
type Deps struct {
	// Database.
	Store *store.Store
	// Connection to NATS.
	Bus *bus.Bus
	Log zerolog.Logger
	// Tracer begins the traces of requests; nil: no traces.
	Tracer *tracing.Tracer
	// Metrics contains metrics that /metrics shows in addition to the metrics of requests; nil:
	// none.
	Metrics *prometheus.Registry
	// Listener, if not nil, is used instead of Host and Port.
	Listener net.Listener
	// Owner is the email address of the account that this process has created; empty: none.
	Owner string
	// Program is how the operator's shell finds the program parley, for example bin/parley; empty:
	// parley.
	Program string
}

// Ingress is an HTTP edge. It is created by New, and Run is called once.
type Ingress struct {
	cfg      Config
	deps     Deps
	proxies  auth.Proxies         // networks of trusted proxies
	dispatch *dispatch.Dispatcher // accepts runs, and waits for their results
	streams  *stream.Hub          // events of runs
	readers  *readers.Watch       // watches the clients that wait for runs
	changes  *changes.Hub         // changes that clients watch
	auth     *auth.Resolver       // authenticates callers
	sealed   *sealed.Watch        // reports secrets that cannot be decrypted
	searches *bus.ToolCaller      // calls workers, for searches and other tools
	lines    *bus.VoiceCaller     // calls workers for voice
	voice    *voicegate.Gate      // owns the voice connections
	handler  http.Handler         // handles all requests
	draining atomic.Bool          // Run has begun to stop; /readyz reports it
}

// New validates the settings and builds the edge. It opens no port and starts no goroutine that
// outlives an error. The errors describe invalid settings.
func New(cfg Config, deps Deps) (*Ingress, error) {
	if err := Check(cfg); err != nil {
		return nil, err
	}

	box, signer, err := keys(cfg.SecretsKey)
	if err != nil {
		return nil, err
	}

	watch, err := openSecrets(cfg, box, deps)
	if err != nil {
		return nil, err
	}

	// The store enforces these limits within transactions.
	deps.Store.Accounts.LimitAccounts(accountLimits(cfg))
	deps.Store.Budgets.SetCurrency(cfg.Currency())
	proxies, client, err := networks(cfg)
	if err != nil {
		return nil, err
	}

	limits, err := ratelimit.New(deps.Store.Limits, ratelimit.Settings{
		Demo: cfg.LimitDemo, User: cfg.LimitUser, UserTotal: cfg.LimitUserTotal, System: cfg.LimitSystem,
		Widget: ratelimit.Widget{Visitor: cfg.LimitWidgetVisitor, Address: cfg.LimitWidgetAddress, Agent: cfg.LimitWidgetAgent},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up limits: %w", err)
	}

	i := &Ingress{
		cfg: cfg, deps: deps, proxies: proxies, sealed: watch,
		auth: auth.New(deps.Store.Accounts, auth.NewWidgets(deps.Store.Agents, box, watch), proxies),
	}

	i.dispatch = dispatch.New(dispatch.Config{
		BacklogMax: cfg.BacklogMax, Tracer: deps.Tracer,
	}, deps.Store, deps.Bus, deps.Log)
	i.streams = stream.New(deps.Store.Executions, deps.Bus.NewWatch(), deps.Log)

	// A run counts as read if a request waits for it, or streams its events.
	i.readers = readers.New(deps.Bus.NewInbox(), deps.Bus, dispatch.ReadRuns{Dispatcher: i.dispatch}, func(runID string) bool {
		return i.dispatch.Awaited(runID) || i.streams.Reads(runID)
	}, deps.Log)

	i.changes = changes.New(deps.Bus.NewChangeWatch(), deps.Log)
	if i.searches, err = deps.Bus.NewToolCaller(); err != nil {
		return nil, err
	}
	if err := i.openVoice(signer); err != nil {
		return nil, err
	}

	i.handler, err = httpapi.New(i.httpDeps(limits, box, signer, client))
	if err != nil {
		return nil, err
	}
	return i, nil
}

// httpDeps assembles the dependencies of the HTTP handlers. The checks are those of /readyz.
func (i *Ingress) httpDeps(
	limits *ratelimit.Limits, box *secrets.Box, signer *secrets.Signer, client *outbound.Client,
) httpapi.Deps {
	cfg, deps := i.cfg, i.deps
	return httpapi.Deps{
		Store: deps.Store, Auth: i.auth, Limits: limits, Secrets: box, Sealed: i.sealed, Runs: i.dispatch, Dispatch: i.dispatch,
		Streams: i.streams, Readers: i.readers, Changes: i.changes, Jobs: deps.Bus, Searches: i.searches, Signer: signer,
		Voice: i.voice, Outbound: client, Fetches: client, FilesPerOrganization: cfg.FilesPerOrganization,
		Documents: knowledgedb.DocumentLimits{Documents: cfg.DocumentsPerOrganization, Bytes: cfg.DocumentBytesPerOrganization},
		Log:       deps.Log, Metrics: deps.Metrics, Tracer: deps.Tracer,
		Checks: map[string]func(context.Context) error{
			"postgres": deps.Store.Ping, "schema": deps.Store.CheckSchema, "nats": deps.Bus.Ping, "jobs": deps.Bus.CheckJobs,
		},
		Draining: i.draining.Load, FileLinkTTL: cfg.FileLinkTTL, ChecksPerMinute: agent.ChecksPerMinute,
		Proxies: i.proxies, MetricsToken: cfg.MetricsToken,
		PublicURL: publicURL(cfg, deps.Listener), Owner: deps.Owner, Program: deps.Program,
		DefaultModel: cfg.DefaultModel, OpenAICompatible: cfg.OpenAIBaseURL != "", Currency: cfg.Currency(),
		StreamLimits: httpx.StreamLimits{
			StreamsPerCredential: cfg.StreamsPerCredential, StreamsPerOrganization: times(streamsFactor, cfg.StreamsPerCredential),
			ConnectionsPerAddress: cfg.ConnectionsPerAddress,
		},
		VoicePerOrganization: cfg.VoicePerOrganization, SignupsPerAddress: cfg.SignupsPerAddress,
		OpenID:     openid.Settings{Issuer: cfg.OIDCIssuer, ClientID: cfg.OIDCClientID, ClientSecret: cfg.OIDCClientSecret},
		DemoTokens: cfg.DemoTokens, RunDeadline: cfg.RunDeadline, WaitDefault: cfg.WaitDefault, RetentionDefault: cfg.RetentionDefault,
	}
}

// accountLimits returns the limits of accounts. Zero means no limit.
func accountLimits(cfg Config) accountdb.Limits {
	limits := accountdb.Limits{
		KeysPerOrganization: cfg.KeysPerOrganization, KeysPerUser: keysPerUser, OrganizationsPerUser: cfg.OrganizationsPerUser,
	}
	// An owner is a member, so without a limit of owned organizations there is no limit of
	// memberships, either.
	if cfg.OrganizationsPerUser > 0 {
		limits.MembershipsPerUser = max(membershipsPerUser, times(membershipsFactor, cfg.OrganizationsPerUser))
	}
	return limits
}

// times multiplies a limit by a factor. A product that is too large becomes the largest int, which
// is no limit in practice. A limit of 0, which means none, stays 0.
func times(factor, limit int) int {
	if limit > math.MaxInt/factor {
		return math.MaxInt
	}
	return factor * limit
}

// openSecrets makes the store decrypt secrets and stored contents with box. It returns a watch,
// which reports values that none of the keys can decrypt. The watch begins when Run is called.
func openSecrets(cfg Config, box *secrets.Box, deps Deps) (*sealed.Watch, error) {
	if cfg.EncryptContents {
		deps.Store.Seals.SealContents(box)
	} else {
		deps.Store.Seals.OpenContents(box) // decrypts contents that were encrypted while ENCRYPT_CONTENTS was set
	}
	registry := deps.Metrics
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	watch, err := sealed.NewWatch(box, registry, deps.Log)
	if err != nil {
		return nil, err
	}

	deps.Store.Seals.ReportUnopened(watch.UnopenedBytes)
	return watch, nil
}

// openVoice creates the gate that accepts voice connections. The gate accepts connections only
// through the handler of package httpapi.
func (i *Ingress) openVoice(signer *secrets.Signer) (err error) {
	if i.lines, err = i.deps.Bus.NewVoiceCaller(); err != nil {
		return err
	}
	deps := voicegate.Deps{Sessions: i.lines, Signer: signer, Log: i.deps.Log}
	if i.deps.Metrics != nil {
		deps.Metrics = i.deps.Metrics
	}

	i.voice, err = voicegate.New(voicegate.Config{
		MaxDuration: i.cfg.VoiceMaxDuration, IdleTimeout: cmp.Or(i.cfg.VoiceIdleTimeout, voiceIdleTimeout),
	}, deps)
	return err
}

// publicURL returns the configured public URL. If none is configured, it returns the URL of the
// listener. The URL has no path. Links in responses begin with this URL.
func publicURL(cfg Config, listener net.Listener) string {
	switch {
	case cfg.PublicURL != "":
		return cfg.PublicURL
	case listener != nil:
		return "http://" + listener.Addr().String()
	default:
		return "http://" + net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))
	}
}

// Run serves until ctx ends. Then it reports not ready, and continues to serve for the grace
// period. Then it drains: requests that wait for a run get the run's current state as the response,
// and other requests finish. The error is the first error of a part, or nil if ctx ended and all
// parts stopped in time. Parts that do not stop within stopTimeout are abandoned.
func (i *Ingress) Run(ctx context.Context) error {
	defer i.searches.Close()
	defer i.lines.Close()
	listener, err := i.listen(ctx)
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler:           i.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(i.deps.Log.With().Str("from", "http").Logger(), "", 0),
	}

	listener = limitConnections(listener, i.proxies, i.cfg.ConnectionsPerAddress)

	// Try once before serving, because the first run would otherwise be delayed on a new bus.
	streamErr := i.makeStream(ctx)
	if streamErr != nil {
		i.deps.Log.Warn().Err(streamErr).Msg("cannot create the job stream yet, retrying")
	}

	group := lifecycle.Group{StopTimeout: i.cfg.StopGrace + stopTimeout}
	group.Add("dispatch", i.dispatch.Run)
	group.Add("streams", i.streams.Run)
	group.Add("readers", i.readers.Run)
	group.Add("changes", i.changes.Run)
	group.Add("credentials", func(ctx context.Context) error {
		i.auth.Run(ctx)
		return nil
	})
	group.Add("secrets", func(ctx context.Context) error { return i.sealed.Run(ctx, i.deps.Store.Seals) })
	group.Add("job stream", func(ctx context.Context) error { return i.ensureStream(ctx, streamErr) })
	group.Add("http", func(ctx context.Context) error { return i.serve(ctx, server, listener) })
	i.deps.Log.Info().Str("address", listener.Addr().String()).Msg("ingress ready")
	return group.Run(ctx)
}

// listen opens the configured address, unless the caller has provided a listener. The listener is
// closed by the server.
func (i *Ingress) listen(ctx context.Context) (net.Listener, error) {
	if i.deps.Listener != nil {
		return i.deps.Listener, nil
	}
	address := net.JoinHostPort(i.cfg.Host, strconv.Itoa(i.cfg.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

// makeStream creates the job stream on a new NATS server, so that the first run does not have to
// wait until a worker creates the stream. An existing stream is not changed. The attempt takes at
// most headerTimeout.
func (i *Ingress) makeStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, headerTimeout)
	defer cancel()
	_, err := i.deps.Bus.EnsureStream(ctx)
	return err
}

// ensureStream tries to create the job stream until it succeeds, and then waits until ctx ends. err
// is the result of the previous attempt; if it is nil, the stream exists. An unreachable bus does
// not keep the ingress from serving: runs are then accepted, and dispatched later.
func (i *Ingress) ensureStream(ctx context.Context, err error) error {
	for err != nil {
		if ended := lifecycle.Sleep(ctx, streamPause); ended != nil {
			return ended
		}
		err = i.makeStream(ctx)
	}
	<-ctx.Done()
	return nil
}

// serve serves requests until ctx ends, and then drains. It returns an error if the server fails,
// or if the drain takes longer than drainTimeout. In the latter case, it closes the remaining
// connections.
func (i *Ingress) serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}

	// From here on, /readyz reports 503, and responses ask clients to reconnect elsewhere.
	i.draining.Store(true)
	if err := grace(failed, i.cfg.StopGrace); err != nil {
		return err
	}
	// Respond now to requests that wait for runs or events, so that Shutdown does not wait for
	// them.
	i.dispatch.Drain()
	i.streams.Drain()
	i.changes.Drain()

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	defer i.drainVoice(drain)() // waits for voice connections, which are hijacked, so Shutdown ignores them
	if err := server.Shutdown(drain); err != nil {
		return errors.Join(fmt.Errorf("draining HTTP: %w", err), server.Close())
	}
	return nil
}

// grace waits for d while the server still serves, so that proxies and clients can notice that the
// ingress is not ready. It returns an error if the server fails in the meantime. A grace period of
// 0 is over at once.
func grace(failed <-chan error, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case err := <-failed:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-over.C:
		return nil
	}
}

// drainVoice begins to end all voice connections. The function wait blocks until they have ended or
// ctx ends. Spoken answers may finish, for up to voiceDrain.
func (i *Ingress) drainVoice(ctx context.Context) (wait func()) {
	spoken := make(chan struct{})
	go func() {
		defer close(spoken)
		ctx, cancel := context.WithTimeout(ctx, voiceDrain)
		defer cancel()
		i.voice.Drain(ctx)
	}()
	return func() {
		select {
		case <-spoken:
		case <-ctx.Done():
		}
	}
}
