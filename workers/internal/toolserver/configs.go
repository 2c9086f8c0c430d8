package toolserver

import (
	"context"
	"fmt"
	"sync"

	"parley/shared/contract"
	"parley/shared/domain"
)

const configsMax = 1024

// configs caches agent configurations. A version never changes, so an entry is never stale; when the cache is full it
// starts anew.
type configs struct {
	records Records

	mu   sync.Mutex
	rows map[configKey]domain.Config
}

type configKey struct {
	org, target string
	version     int
}

func (c *configs) get(ctx context.Context, of contract.Capability) (domain.Config, error) {
	key := configKey{of.OrganizationID, of.TargetID, of.ConfigVersion}
	c.mu.Lock()
	cfg, ok := c.rows[key]
	c.mu.Unlock()
	if ok {
		return cfg, nil
	}
	cfg, err := c.records.Config(ctx, key.org, key.target, key.version)
	if err != nil {
		return cfg, fmt.Errorf("loading configuration: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rows) >= configsMax {
		clear(c.rows)
	}
	c.rows[key] = cfg
	return cfg, nil
}
