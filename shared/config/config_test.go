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
			LimitDemo: 1, DemoTokens: 1, LimitUser: 2, LimitSystem: 3, StreamsPerCredential: 1, StreamsPerOrganization: 1, RunDeadline: time.Minute, RetentionDefault: 24 * time.Hour, BacklogMax: 1,
			OIDCIssuer: c.issuer, OIDCClientID: c.client, OIDCClientSecret: c.secret,
		}.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
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
			OutboundAllow: []string{"127.0.0.1:80", "[::1]:8080", "host.example:443", "10.0.0.0/8", "fd00::/8"},
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
		"host alone":             {config.Workers{OutboundAllow: []string{"host.example"}}, "OUTBOUND_ALLOW"},
		"address alone":          {config.Workers{OutboundAllow: []string{"127.0.0.1:80", "10.0.0.1"}}, "OUTBOUND_ALLOW"},
		"whole URL":              {config.Workers{OutboundAllow: []string{"http://127.0.0.1:80"}}, "OUTBOUND_ALLOW"},
		"port 0":                 {config.Workers{OutboundAllow: []string{"127.0.0.1:0"}}, "OUTBOUND_ALLOW"},
		"port beyond":            {config.Workers{OutboundAllow: []string{"127.0.0.1:65536"}}, "OUTBOUND_ALLOW"},
		"no network":             {config.Workers{OutboundAllow: []string{"10.0.0.0/40"}}, "OUTBOUND_ALLOW"},
		"nothing":                {config.Workers{OutboundAllow: []string{""}}, "OUTBOUND_ALLOW"},
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
