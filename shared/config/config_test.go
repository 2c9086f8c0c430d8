package config_test

import (
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
