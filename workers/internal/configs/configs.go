// Package configs caches the configurations of agents and templates.
package configs

import (
	"context"
	"fmt"
	"sync"

	"parley/shared/domain"
)

const maxRows = 1024

// Records reads configurations from the store.
type Records interface {
	Config(ctx context.Context, org, target string, version int) (domain.Config, error)
}

// Cache caches configurations by version. A version never changes, so entries never become stale. A
// full cache is cleared, so configurations that are still in use are read once more.
type Cache struct {
	records Records

	mu   sync.Mutex
	rows map[key]domain.Config
}

type key struct {
	org, target string
	version     int
}

// New returns an empty Cache that reads from records.
func New(records Records) *Cache { return &Cache{records: records, rows: map[key]domain.Config{}} }

// Get returns one version of the configuration of an agent or template.
func (c *Cache) Get(ctx context.Context, org, target string, version int) (domain.Config, error) {
	k := key{org, target, version}

	c.mu.Lock()
	cfg, ok := c.rows[k]
	c.mu.Unlock()
	if ok {
		return cfg, nil
	}

	cfg, err := c.records.Config(ctx, org, target, version)
	if err != nil {
		return cfg, fmt.Errorf("loading configuration: %w", err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rows) >= maxRows {
		clear(c.rows)
	}
	c.rows[k] = cfg
	return cfg, nil
}
