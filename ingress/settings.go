package ingress

import (
	"fmt"
	"net/netip"

	"parley/ingress/internal/auth"
	"parley/shared/config"
	"parley/shared/outbound"
	"parley/shared/secrets"
)

// Check returns a *config.InvalidError for the first invalid setting. It opens no connections.
func Check(cfg Config) error {
	return config.Invalid(cfg.Runs.Check(), cfg.Ingress.Check(), cfg.Documents.Check(), cfg.Outbound.Check(), cfg.Secrets.Check())
}

// keys derives the keys for encryption and for signatures from key, the value of SECRETS_KEY. The
// keys for both purposes are independent of each other.
func keys(key string) (*secrets.Box, *secrets.Signer, error) {
	box, err := secrets.NewBox(key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	signer, err := secrets.NewSigner(key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	return box, signer, nil
}

// networks parses the trusted proxies and creates the client for outbound requests. The error names
// the faulty setting.
func networks(cfg Config) (auth.Proxies, *outbound.Client, error) {
	proxies := make(auth.Proxies, len(cfg.TrustedProxies))
	for n, network := range cfg.TrustedProxies {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, nil, fmt.Errorf("reading TRUSTED_PROXIES: %w", err)
		}
		proxies[n] = prefix
	}

	client, err := outbound.New(outbound.Config{Allow: cfg.OutboundAllow})
	if err != nil {
		return nil, nil, fmt.Errorf("reading OUTBOUND_ALLOW: %w", err)
	}
	return proxies, client, nil
}
