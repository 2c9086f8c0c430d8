package config_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
)

func TestOpenIDSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ issuer, client, secret, wrong string }{
		"none":                    {"", "", "", ""},
		"whole":                   {"https://id.example.com/realms/x", "parley", "s", ""},
		"public client":           {"https://id.example.com", "parley", "", ""},
		"loopback":                {"http://127.0.0.1:5556/dex", "parley", "s", ""},
		"localhost":               {"http://localhost:5556", "parley", "s", ""},
		"loopback of IPv6":        {"http://[::1]:5556", "parley", "s", ""},
		"in the clear":            {"http://id.example.com", "parley", "s", "OIDC_ISSUER"},
		"in the clear, look-like": {"http://localhost.example.com", "parley", "s", "OIDC_ISSUER"},
		"no address":              {"id.example.com", "parley", "s", "OIDC_ISSUER"},
		"no host":                 {"https:///x", "parley", "s", "OIDC_ISSUER"},
		"no client":               {"https://id.example.com", "", "s", "OIDC_CLIENT_ID"},
		"no issuer":               {"", "parley", "", "OIDC_ISSUER"},
		"a secret alone":          {"", "", "s", "OIDC_ISSUER"},
	} {
		err := config.Ingress{
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour, BacklogMax: 1,
			VoicePerOrganization: 1, VoiceMaxDuration: time.Minute,
			OIDCIssuer: c.issuer, OIDCClientID: c.client, OIDCClientSecret: c.secret,
		}.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWidgetLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		visitor, address, agent int
		ok                      bool
	}{{0, 0, 0, true}, {20, 60, 1200, true}, {-1, 60, 1200, false}, {20, -1, 1200, false}, {20, 60, -1, false}} {
		err := config.Ingress{
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour, BacklogMax: 1,
			VoicePerOrganization: 1, VoiceMaxDuration: time.Minute,
			LimitWidgetVisitor: c.visitor, LimitWidgetAddress: c.address, LimitWidgetAgent: c.agent,
		}.Check()
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "LIMIT_WIDGET_VISITOR") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAccountLimits(t *testing.T) {
	t.Parallel()
	for wrong, change := range map[string]func(*config.Ingress){
		"":                        func(i *config.Ingress) { i.LimitUserTotal, i.KeysPerOrganization, i.ConnectionsPerAddress = 2, 1, 1 },
		"LIMIT_USER_TOTAL":        func(i *config.Ingress) { i.LimitUserTotal = 1 },
		"CONNECTIONS_PER_ADDRESS": func(i *config.Ingress) { i.ConnectionsPerAddress = -1 },
		"SIGNUPS_PER_ADDRESS":     func(i *config.Ingress) { i.SignupsPerAddress = -1 },
		"KEYS_PER_ORGANIZATION":   func(i *config.Ingress) { i.KeysPerOrganization = -1 },
		"ORGANIZATIONS_PER_USER":  func(i *config.Ingress) { i.OrganizationsPerUser = -1 },
	} {
		set := config.Ingress{
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour,
			BacklogMax: 1, VoicePerOrganization: 1, VoiceMaxDuration: time.Minute,
		}
		change(&set)
		if err := set.Check(); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestVoiceLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		connections int
		duration    time.Duration
		wrong       string
	}{
		{1, time.Second, ""},
		{100, 24 * time.Hour, ""},
		{0, time.Minute, "VOICE_PER_ORGANIZATION"},
		{1, 999 * time.Millisecond, "VOICE_MAX_DURATION"},
		{1, 24*time.Hour + 1, "VOICE_MAX_DURATION"},
	} {
		err := config.Ingress{
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour,
			BacklogMax: 1, VoicePerOrganization: c.connections, VoiceMaxDuration: c.duration,
		}.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestStopGrace(t *testing.T) {
	t.Parallel()
	for grace, ok := range map[time.Duration]bool{0: true, time.Minute: true, -time.Second: false, time.Minute + 1: false} {
		err := config.Ingress{
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour,
			BacklogMax: 1, VoicePerOrganization: 1, VoiceMaxDuration: time.Minute, StopGrace: grace,
		}.Check()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "STOP_GRACE") {
			t.Errorf("%s: %v", grace, err)
		}
	}
}

func TestWorkerSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   config.Workers
		wrong string
	}{
		"none": {config.Workers{}, ""},
		"whole": {config.Workers{
			WorkerConcurrency: 8, RunMaxTurns: 25, RunMaxTokens: 1, RunMaxCost: 0.5, RunMaxBytes: 64 << 10, ToolConcurrency: 1,
			OpenAIBaseURL: "http://127.0.0.1:8000/v1", AnthropicBaseURL: "https://a.example", SearxngURL: "http://searx:8080", WikipediaURL: "https://de.wikipedia.org",
			Outbound: config.Outbound{OutboundAllow: []string{"127.0.0.1:80", "[::1]:8080", "host.example:443", "10.0.0.0/8", "fd00::/8"}},
		}, ""},
		"concurrency":            {config.Workers{WorkerConcurrency: -1}, "WORKER_CONCURRENCY"},
		"tool concurrency":       {config.Workers{ToolConcurrency: -1}, "TOOL_CONCURRENCY"},
		"turns":                  {config.Workers{RunMaxTurns: -1}, "RUN_MAX_TURNS"},
		"too many turns":         {config.Workers{RunMaxTurns: 1001}, "RUN_MAX_TURNS"},
		"tokens":                 {config.Workers{RunMaxTokens: -1}, "RUN_MAX_TOKENS"},
		"cost":                   {config.Workers{RunMaxCost: -0.1}, "RUN_MAX_COST"},
		"cost that is none":      {config.Workers{RunMaxCost: math.NaN()}, "RUN_MAX_COST"},
		"cost without end":       {config.Workers{RunMaxCost: math.Inf(1)}, "RUN_MAX_COST"},
		"bytes":                  {config.Workers{RunMaxBytes: 1000}, "RUN_MAX_BYTES"},
		"negative bytes":         {config.Workers{RunMaxBytes: -1}, "RUN_MAX_BYTES"},
		"address":                {config.Workers{SearxngURL: "searx:8080"}, "SEARXNG_URL"},
		"address of a file":      {config.Workers{WikipediaURL: "file:///etc/passwd"}, "WIKIPEDIA_URL"},
		"address without a host": {config.Workers{OpenAIBaseURL: "https:///v1"}, "OPENAI_BASE_URL"},
		"another address":        {config.Workers{AnthropicBaseURL: "a.example"}, "ANTHROPIC_BASE_URL"},
		"host alone":             {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"host.example"}}}, "OUTBOUND_ALLOW"},
		"address alone":          {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"127.0.0.1:80", "10.0.0.1"}}}, "OUTBOUND_ALLOW"},
		"whole URL":              {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"http://127.0.0.1:80"}}}, "OUTBOUND_ALLOW"},
		"port 0":                 {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"127.0.0.1:0"}}}, "OUTBOUND_ALLOW"},
		"port beyond":            {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"127.0.0.1:65536"}}}, "OUTBOUND_ALLOW"},
		"no network":             {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{"10.0.0.0/40"}}}, "OUTBOUND_ALLOW"},
		"nothing":                {config.Workers{Outbound: config.Outbound{OutboundAllow: []string{""}}}, "OUTBOUND_ALLOW"},
	} {
		err := c.set.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := (config.Workers{RunMaxCost: 0.15}).RunMaxCostMicros(); got != 150_000 {
		t.Errorf("0.15 is %d millionths", got)
	}
}

// A currency is an ISO 4217 code. If no currency is set, the default currency applies.
func TestPricesCurrency(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "USD", "USD": "USD", "EUR": "EUR", "eur": "", "EURO": "", "XXX": ""} {
		runs := config.Runs{PricesCurrency: code}
		switch err := runs.Check(); {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "PRICES_CURRENCY")):
			t.Errorf("%q: %v", code, err)
		case want != "" && (err != nil || runs.Currency() != want):
			t.Errorf("%q: %v, currency %s", code, err, runs.Currency())
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("ab", 32)
	for setting, ok := range map[string]bool{good: true, good + "," + good: true, "": false, "secret": false, good + ",secret": false} {
		err := config.Secrets{SecretsKey: setting}.Check()
		if (err == nil) != ok || err != nil && (strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), good) || !strings.Contains(err.Error(), "SECRETS_KEY")) {
			t.Errorf("%q: %v", setting, err)
		}
	}
}

// An unset key and an invalid key cause different errors.
func TestUnsetSecretsKey(t *testing.T) {
	t.Parallel()
	const want = "SECRETS_KEY is not set; create a key with openssl rand -base64 32"
	if err := (config.Secrets{}).Check(); err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
}

func TestPortsOfServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  config.Servers
		want string
	}{
		{config.Servers{}, "[]"},
		{config.Servers{DatabaseURL: "postgres://u:p@127.0.0.1:5433/parley?sslmode=disable", NATSURL: "nats://a:4333, b:4334,c"}, "[5433 4333 4334 4222]"},
		{config.Servers{DatabaseURL: "postgres://db/parley", NATSURL: "tls://a"}, "[5432 4222]"},
		{config.Servers{DatabaseURL: "postgres:///parley?host=/run/postgresql"}, "[]"},
		{config.Servers{DatabaseURL: "postgres://%zz"}, "[]"},
	} {
		if got := fmt.Sprint(c.set.Ports()); got != c.want {
			t.Errorf("%+v: %s", c.set, got)
		}
	}
}

// TestSandboxSettings checks each setting at its bounds and just beyond them.
func TestSandboxSettings(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		set   config.Sandbox
		wrong string
	}{
		"none":                             {config.Sandbox{}, ""},
		"bubblewrap":                       {config.Sandbox{SandboxKind: "bubblewrap"}, ""},
		"gvisor":                           {config.Sandbox{SandboxKind: "gvisor"}, ""},
		"off":                              {config.Sandbox{SandboxKind: "off"}, ""},
		"another kind":                     {config.Sandbox{SandboxKind: "docker"}, `SANDBOX must be bubblewrap, gvisor or off, not "docker"`},
		"kinds are in small letters":       {config.Sandbox{SandboxKind: "Off"}, "SANDBOX must be"},
		"one at a time":                    {config.Sandbox{SandboxConcurrency: 1}, ""},
		"less than none at a time":         {config.Sandbox{SandboxConcurrency: -1}, "SANDBOX_CONCURRENCY must not be negative: -1"},
		"least CPU":                        {config.Sandbox{SandboxCPU: 100 * time.Millisecond}, ""},
		"too little CPU":                   {config.Sandbox{SandboxCPU: 99 * time.Millisecond}, "SANDBOX_CPU must be at least 100ms, not 99ms"},
		"negative CPU":                     {config.Sandbox{SandboxCPU: -time.Second}, "SANDBOX_CPU"},
		"more CPU than can be used at all": {config.Sandbox{SandboxCPU: day, SandboxWall: time.Second}, ""},
		"least wall":                       {config.Sandbox{SandboxWall: 100 * time.Millisecond}, ""},
		"too little wall":                  {config.Sandbox{SandboxWall: 99 * time.Millisecond}, "SANDBOX_WALL must be between 100ms and 10m0s, not 99ms"},
		"most wall":                        {config.Sandbox{SandboxWall: 10 * time.Minute}, ""},
		"too much wall":                    {config.Sandbox{SandboxWall: 10*time.Minute + 1}, "SANDBOX_WALL"},
		"negative wall":                    {config.Sandbox{SandboxWall: -time.Second}, "SANDBOX_WALL"},
		"least memory":                     {config.Sandbox{SandboxMemory: 64 << 20}, ""},
		"too little memory":                {config.Sandbox{SandboxMemory: 64<<20 - 1}, "SANDBOX_MEMORY must be at least 67108864, not 67108863"},
		"negative memory":                  {config.Sandbox{SandboxMemory: -1}, "SANDBOX_MEMORY"},
	} {
		err := c.set.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
		if whole := (config.Workers{Sandbox: c.set}).Check(); (whole == nil) != (err == nil) {
			t.Errorf("%s: among a worker's settings: %v", name, whole)
		}
	}
}

func TestDocumentSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   config.Documents
		wrong string
	}{
		"none":      {config.Documents{}, ""},
		"whole":     {config.Documents{DocumentsPerOrganization: 1, DocumentBytesPerOrganization: 1, EncryptContents: true}, ""},
		"documents": {config.Documents{DocumentsPerOrganization: -1}, "DOCUMENTS_PER_ORGANIZATION"},
		"bytes":     {config.Documents{DocumentBytesPerOrganization: -1}, "DOCUMENT_BYTES_PER_ORGANIZATION"},
		"files":     {config.Documents{FilesPerOrganization: -1}, "FILES_PER_ORGANIZATION must not be negative: -1"},
	} {
		if err := c.set.Check(); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		set   config.Ingest
		wrong string
	}{
		"none":             {config.Ingest{}, ""},
		"whole":            {config.Ingest{EmbeddingsModel: "openai/text-embedding-3-small", IngestConcurrency: 64}, ""},
		"concurrency":      {config.Ingest{IngestConcurrency: -1}, "INGEST_CONCURRENCY"},
		"much concurrency": {config.Ingest{IngestConcurrency: 65}, "INGEST_CONCURRENCY"},
		"no provider":      {config.Ingest{EmbeddingsModel: "text-embedding-3-small"}, "EMBEDDINGS_MODEL"},
		"other provider":   {config.Ingest{EmbeddingsModel: "anthropic/x"}, "EMBEDDINGS_MODEL"},
		"no model":         {config.Ingest{EmbeddingsModel: "openai/"}, "EMBEDDINGS_MODEL"},
	} {
		if err := (config.Workers{Ingest: c.set}).Check(); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
