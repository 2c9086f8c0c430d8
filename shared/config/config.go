// Package config defines Parley's settings. Each binary embeds the groups it needs in its
// configuration struct. Kong reads them from flags and from the environment under corresponding
// names (--database-url, DATABASE_URL). docs/settings.md lists all of them.
//
// Each group has a method Check, which the binary calls before it starts anything. Its errors name
// the environment variable and say which values are possible. The zero value of a group need not be
// valid: defaults are in the tags, so Kong sets them. Tests that use a group without Kong set the
// group's fields themselves.
//
// Settings that must be equal in several processes are in groups of their own, so that these
// processes embed the same group. The package opens no connections and reads no files.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/shared/domain"
	"parley/shared/secrets"
)

// Servers are the addresses of the servers that Parley uses.
type Servers struct {
	DatabaseURL  string `name:"database-url" env:"DATABASE_URL" help:"PostgreSQL to use, as a postgres:// URL."`
	NATSURL      string `name:"nats-url" env:"NATS_URL" help:"NATS servers to use, as nats:// URLs separated by commas."`
	NATSReplicas int    `name:"nats-replicas" env:"NATS_REPLICAS" default:"1" help:"Replicas of the job stream in a NATS cluster, set at its creation: 1, 3 or 5."`
}

// Require returns an error if an address is missing or invalid. It is for processes that start no
// servers themselves.
func (s Servers) Require() error {
	if s.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set: set it to the URL of a PostgreSQL server")
	}
	if s.NATSURL == "" {
		return errors.New("NATS_URL is not set: set it to the URL of a NATS server with JetStream")
	}
	return s.Check()
}

// Check returns an error for the first invalid setting. An address may be missing. The errors do
// not contain DATABASE_URL, because it may contain a password.
func (s Servers) Check() error {
	isURL := strings.HasPrefix(s.DatabaseURL, "postgres://") || strings.HasPrefix(s.DatabaseURL, "postgresql://")
	name, _, pairs := strings.Cut(s.DatabaseURL, "=")
	switch {
	// Connection strings such as "host=db dbname=parley" are accepted, too.
	case s.DatabaseURL != "" && !isURL && (!pairs || strings.Contains(name, "://")):
		return errors.New("DATABASE_URL must begin with postgres://")
	case s.NATSReplicas < 0 || s.NATSReplicas > 5:
		return fmt.Errorf("NATS_REPLICAS must be between 1 and 5, not %d", s.NATSReplicas)
	}
	return nil
}

// Ports returns the TCP ports of the servers, for processes that must block access to these ports.
// A server that is reached through a socket file has no port.
func (s Servers) Ports() (ports []int) {
	// add adds the port of an address, or the standard port if the address has none.
	add := func(address string, standard int) {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Hostname() == "" { // a socket file, or empty
			return
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			port = standard
		}
		ports = append(ports, port)
	}

	add(s.DatabaseURL, postgresPort)
	for address := range strings.SplitSeq(s.NATSURL, ",") {
		// NATS also accepts addresses without a scheme.
		if address = strings.TrimSpace(address); address != "" && !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		add(address, natsPort)
	}

	return ports
}

// Default ports.
const (
	postgresPort = 5432
	natsPort     = 4222
)

// Logging is the configuration of the log.
type Logging struct {
	LogLevel  string `name:"log-level" env:"LOG_LEVEL" default:"info" enum:"trace,debug,info,warn,error" help:"Minimum log level: ${enum}."`
	LogFormat string `name:"log-format" env:"LOG_FORMAT" default:"" enum:",console,json" help:"console or json; default: console on a terminal, else json."`
}

// Telemetry is the configuration of tracing.
type Telemetry struct {
	OTLPEndpoint string `name:"otel-exporter-otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"OpenTelemetry collector for traces (OTLP), as an http:// or https:// URL; empty: no traces."`
	// CaptureContent has the name and the meaning that OpenTelemetry defines.
	CaptureContent bool `name:"otel-instrumentation-genai-capture-message-content" env:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" help:"Record model inputs and outputs in traces."`
	// CallersDecide means that a request's traceparent header decides whether the request is
	// traced. Set it only if all requests come through the operator's own proxies.
	CallersDecide bool `name:"trace-as-callers-say" env:"TRACE_AS_CALLERS_SAY" help:"Let a request's traceparent decide whether it is traced."`
}

// Check returns an error if the address is invalid.
func (t Telemetry) Check() error { return checkAddress("OTEL_EXPORTER_OTLP_ENDPOINT", t.OTLPEndpoint) }

// Runs contains the settings of runs that must be the same in the ingress and the workers.
type Runs struct {
	DefaultModel   string `name:"default-model" env:"DEFAULT_MODEL" help:"Default model of agents, as provider/model; set it for workers and the ingress."`
	PricesCurrency string `name:"prices-currency" env:"PRICES_CURRENCY" default:"USD" help:"Currency of MODEL_PRICES, as an ISO 4217 code; set it for workers and the ingress."`
}

// Check returns an error if the currency is invalid.
func (r Runs) Check() error {
	if code := r.Currency(); !domain.ValidCurrency(code) {
		return fmt.Errorf("PRICES_CURRENCY must be the ISO 4217 code of a currency, such as USD or EUR, not %q", code)
	}
	return nil
}

// Currency returns the currency of costs: PRICES_CURRENCY or, if it is empty, the default.
func (r Runs) Currency() string { return cmp.Or(r.PricesCurrency, domain.DefaultCurrency) }

// Secrets contains the secrets that ingress and workers share.
type Secrets struct {
	SecretsKey string `name:"secrets-key" env:"SECRETS_KEY" help:"Key that encrypts stored secrets and signs tool calls: 32 bytes in base64 or hex, the same for every process. Older keys may follow, separated by commas."`
}

// Check returns an error if the key is missing or invalid.
func (s Secrets) Check() error {
	if s.SecretsKey == "" {
		return errors.New("SECRETS_KEY is not set; create a key with openssl rand -base64 32")
	}

	if _, err := secrets.NewBox(s.SecretsKey); err != nil {
		return fmt.Errorf("SECRETS_KEY is invalid; create a key with openssl rand -base64 32: %w", err)
	}
	return nil
}

// KeyIDs returns the ids of the keys, or nil if SECRETS_KEY is not set or invalid.
func (s Secrets) KeyIDs() []string {
	box, err := secrets.NewBox(s.SecretsKey)
	if err != nil {
		return nil
	}
	return box.KeyIDs()
}

// Ingress contains the settings of the HTTP API.
type Ingress struct {
	Host                  string        `name:"host" env:"HOST" default:"127.0.0.1" help:"Address to listen on."`
	Port                  int           `name:"port" env:"PORT" default:"8080" help:"Port to listen on."`
	PublicURL             string        `name:"public-url" env:"PUBLIC_URL" help:"Public address of this service; default: http://HOST:PORT."`
	MetricsToken          string        `name:"metrics-token" env:"METRICS_TOKEN" help:"Bearer token for reading an ingress's /metrics from other machines; empty: not allowed."`
	TrustedProxies        []string      `name:"trusted-proxies" env:"TRUSTED_PROXIES" help:"Networks (CIDR) whose X-Forwarded-For is trusted."`
	LimitDemo             int           `name:"limit-demo" env:"LIMIT_DEMO" default:"10" help:"Maximum requests per minute from one demo client."`
	DemoTokens            int64         `name:"demo-tokens" env:"DEMO_TOKENS" default:"2000000" help:"Maximum model tokens per day for all demo visitors together."`
	LimitUser             int           `name:"limit-user" env:"LIMIT_USER" default:"300" help:"Maximum requests per minute with one credential."`
	LimitUserTotal        int           `name:"limit-user-total" env:"LIMIT_USER_TOTAL" default:"0" help:"Maximum requests per minute with all credentials of a user together, and with all keys of an organization; 0: twice LIMIT_USER."`
	LimitSystem           int           `name:"limit-system" env:"LIMIT_SYSTEM" default:"60000" help:"Maximum automation requests per minute of one organization."`
	LimitWidgetVisitor    int           `name:"limit-widget-visitor" env:"LIMIT_WIDGET_VISITOR" default:"20" help:"Maximum requests per minute from one visitor of an agent's widget; 0: none allowed."`
	LimitWidgetAddress    int           `name:"limit-widget-address" env:"LIMIT_WIDGET_ADDRESS" default:"60" help:"Maximum requests per minute from all widget visitors at one client address; 0: none allowed."`
	LimitWidgetAgent      int           `name:"limit-widget-agent" env:"LIMIT_WIDGET_AGENT" default:"1200" help:"Maximum messages per minute from all visitors of one agent's widget; the same limit applies to widget tokens; 0: none allowed."`
	StreamsPerCredential  int           `name:"streams-per-credential" env:"STREAMS_PER_CREDENTIAL" default:"5000" help:"Maximum open streams of one credential at an ingress; an organization may have twice as many."`
	ConnectionsPerAddress int           `name:"connections-per-address" env:"CONNECTIONS_PER_ADDRESS" default:"5000" help:"Maximum open connections of one client address at an ingress, and maximum streams, also through a trusted proxy; 0: no limit."`
	VoicePerOrganization  int           `name:"voice-per-organization" env:"VOICE_PER_ORGANIZATION" default:"100" help:"Maximum open voice connections of one organization at an ingress."`
	VoiceMaxDuration      time.Duration `name:"voice-max-duration" env:"VOICE_MAX_DURATION" default:"30m" help:"Maximum duration of a voice connection."`
	RunDeadline           time.Duration `name:"run-deadline" env:"RUN_DEADLINE" default:"15m" help:"Time from acceptance until a run times out."`
	WaitDefault           time.Duration `name:"wait-default" env:"WAIT_DEFAULT" default:"55s" help:"Maximum and default time that a request waits for its run."`
	RetentionDefault      time.Duration `name:"retention-default" env:"RETENTION_DEFAULT" default:"24h" help:"How long an automation's result is kept; at least 24h."`
	FileLinkTTL           time.Duration `name:"file-link-ttl" env:"FILE_LINK_TTL" default:"24h" help:"How long a link to a file in an answer on /v1 works without a credential; 0: no links."`
	StopGrace             time.Duration `name:"stop-grace" env:"STOP_GRACE" default:"0s" help:"How long a stopping ingress keeps serving while it is not ready; set it longer than the load balancer's check interval."`
	BacklogMax            int           `name:"backlog-max" env:"BACKLOG_MAX" default:"100000" help:"Maximum queued runs; above it new runs are rejected with 503. One organization may have a quarter of them."`
	SignupsPerAddress     int           `name:"signups-per-address" env:"SIGNUPS_PER_ADDRESS" default:"60" help:"Accounts that one client address may create per hour at an ingress; 0: no limit."`
	KeysPerOrganization   int           `name:"keys-per-organization" env:"KEYS_PER_ORGANIZATION" default:"100" help:"Maximum API keys of scope organization, per organization; 0: no limit."`
	OrganizationsPerUser  int           `name:"organizations-per-user" env:"ORGANIZATIONS_PER_USER" default:"20" help:"Maximum organizations that a user owns; 0: no limit."`
	OIDCIssuer            string        `name:"oidc-issuer" env:"OIDC_ISSUER" help:"Issuer of the OpenID provider for logins, as an https:// URL."`
	OIDCClientID          string        `name:"oidc-client-id" env:"OIDC_CLIENT_ID" help:"Client ID of this service at the provider."`
	OIDCClientSecret      string        `name:"oidc-client-secret" env:"OIDC_CLIENT_SECRET" help:"Client secret of this service at the provider; empty for a public client."`
}

// minMetricsToken is the minimum length of METRICS_TOKEN. A shorter token could be guessed.
const minMetricsToken = 16 // characters

// Check returns an error for the first invalid setting. It examines only the values and opens no
// connections.
func (i Ingress) Check() error {
	switch {
	case i.Port < 0 || i.Port > 65535:
		return fmt.Errorf("PORT must be between 0 and 65535, not %d", i.Port)
	// A visitor of the demo must not be allowed more than a person with an account.
	case i.LimitDemo < 1 || i.LimitDemo >= i.LimitUser || i.LimitUser >= i.LimitSystem:
		return fmt.Errorf("limits must rise from demo to user to system: LIMIT_DEMO=%d, LIMIT_USER=%d, LIMIT_SYSTEM=%d",
			i.LimitDemo, i.LimitUser, i.LimitSystem)
	case i.LimitUserTotal != 0 && i.LimitUserTotal < i.LimitUser:
		return fmt.Errorf("LIMIT_USER_TOTAL must be 0 or at least LIMIT_USER, not %d: LIMIT_USER=%d", i.LimitUserTotal, i.LimitUser)
	case i.DemoTokens < 1:
		return fmt.Errorf("DEMO_TOKENS must be at least 1, not %d", i.DemoTokens)
	case i.StreamsPerCredential < 1:
		return fmt.Errorf("STREAMS_PER_CREDENTIAL must be at least 1, not %d", i.StreamsPerCredential)
	case i.BacklogMax < 1:
		return fmt.Errorf("BACKLOG_MAX must be at least 1, not %d", i.BacklogMax)
	case i.MetricsToken != "" && len(i.MetricsToken) < minMetricsToken:
		return fmt.Errorf("METRICS_TOKEN must have at least %d characters", minMetricsToken)
	}

	return cmp.Or(i.checkTimes(), i.checkAccounts(), i.checkWidgets(), i.checkVoice(), i.checkOpenID(), i.checkAddresses())
}

// checkTimes checks the timeouts of runs and of stopping.
func (i Ingress) checkTimes() error {
	switch {
	case i.RunDeadline < time.Second:
		return fmt.Errorf("RUN_DEADLINE must be at least 1s, not %s", i.RunDeadline)
	// Many proxies abort a request if they receive no data from the server for 60 seconds.
	case i.WaitDefault < 0 || i.WaitDefault > 55*time.Second:
		return fmt.Errorf("WAIT_DEFAULT must be between 0 and 55s, not %s", i.WaitDefault)
	case i.RetentionDefault < 24*time.Hour:
		return fmt.Errorf("RETENTION_DEFAULT must be at least 24h, not %s: idempotency keys are valid for a day", i.RetentionDefault)
	case i.FileLinkTTL < 0 || i.FileLinkTTL > 31*24*time.Hour:
		return fmt.Errorf("FILE_LINK_TTL must be between 0 and 744h, not %s", i.FileLinkTTL)
	// Supervisors often kill a process that takes longer than a minute to stop.
	case i.StopGrace < 0 || i.StopGrace > time.Minute:
		return fmt.Errorf("STOP_GRACE must be between 0 and 1m, not %s", i.StopGrace)
	}
	return nil
}

// checkAccounts checks the limits per person and per address.
func (i Ingress) checkAccounts() error {
	for _, limit := range []struct {
		name    string
		maximum int
	}{
		{"CONNECTIONS_PER_ADDRESS", i.ConnectionsPerAddress},
		{"SIGNUPS_PER_ADDRESS", i.SignupsPerAddress},
		{"KEYS_PER_ORGANIZATION", i.KeysPerOrganization},
		{"ORGANIZATIONS_PER_USER", i.OrganizationsPerUser},
	} {
		if limit.maximum < 0 {
			return fmt.Errorf("%s must not be negative: %d", limit.name, limit.maximum)
		}
	}

	return nil
}

// checkVoice checks the limits of voice connections.
func (i Ingress) checkVoice() error {
	switch {
	case i.VoicePerOrganization < 1:
		return fmt.Errorf("VOICE_PER_ORGANIZATION must be at least 1, not %d", i.VoicePerOrganization)
	case i.VoiceMaxDuration < time.Second || i.VoiceMaxDuration > 24*time.Hour:
		return fmt.Errorf("VOICE_MAX_DURATION must be between 1s and 24h, not %s", i.VoiceMaxDuration)
	}
	return nil
}

// checkWidgets checks the limits of widgets.
func (i Ingress) checkWidgets() error {
	if min(i.LimitWidgetVisitor, i.LimitWidgetAddress, i.LimitWidgetAgent) < 0 {
		return fmt.Errorf("widget limits must not be negative: LIMIT_WIDGET_VISITOR=%d, LIMIT_WIDGET_ADDRESS=%d, LIMIT_WIDGET_AGENT=%d",
			i.LimitWidgetVisitor, i.LimitWidgetAddress, i.LimitWidgetAgent)
	}
	return nil
}

// checkOpenID returns an error if the OpenID provider is partly configured, or if it is on another
// machine and its URL is not https.
func (i Ingress) checkOpenID() error {
	if i.OIDCIssuer == "" {
		if i.OIDCClientID != "" || i.OIDCClientSecret != "" {
			return errors.New("OIDC_CLIENT_ID and OIDC_CLIENT_SECRET need OIDC_ISSUER")
		}
		return nil
	}

	// An OpenID provider on this machine may use http, for tests.
	issuer, err := url.Parse(i.OIDCIssuer)
	if err != nil || issuer.Host == "" || issuer.Scheme != "https" && (issuer.Scheme != "http" || !isLoopback(issuer.Hostname())) {
		return fmt.Errorf("OIDC_ISSUER must be an https:// URL, not %q", i.OIDCIssuer)
	}
	if i.OIDCClientID == "" {
		return errors.New("OIDC_ISSUER needs OIDC_CLIENT_ID")
	}

	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// checkAddresses returns an error for the first invalid network or address.
func (i Ingress) checkAddresses() error {
	for _, p := range i.TrustedProxies {
		if _, err := netip.ParsePrefix(p); err != nil {
			return fmt.Errorf("TRUSTED_PROXIES must be a list of networks (CIDR), not %q", p)
		}
	}
	// Links in invitations and answers begin with the public URL.
	if i.PublicURL != "" && !strings.HasPrefix(i.PublicURL, "http://") && !strings.HasPrefix(i.PublicURL, "https://") {
		return fmt.Errorf("PUBLIC_URL must begin with http:// or https://, not %q", i.PublicURL)
	}
	return nil
}
