// Package configs caches the configurations of agents and templates in a worker. The runner and the
// tool server read configurations through it.
//
// An agent's configuration has versions that never change, and each run's row contains the version
// that it uses. So a cached entry is always correct, and needs no notification when an agent
// changes.
package configs

import (
	"context"
	"fmt"
	"sync"

	"parley/shared/domain"
)

// maxRows is the maximum number of cached configurations.
const maxRows = 1024

// Records reads configurations from the store. Package executiondb implements it.
type Records interface {
	Config(ctx context.Context, org, target string, version int) (domain.Config, error)
}

// Cache caches configurations by version. A version never changes, so entries never become stale. A
// full cache is cleared, so configurations that are still in use are read once more. A Cache is
// safe for concurrent use, and each runner and each tool server has its own.
type Cache struct {
	records Records

	mu   sync.Mutex
	rows map[key]domain.Config
}

// key identifies a version of a configuration. The organization is part of the key, so that no
// organization can read the entries of another one.
type key struct {
	org, target string
	version     int
}

// New returns an empty Cache that reads from records.
func New(records Records) *Cache { return &Cache{records: records, rows: map[key]domain.Config{}} }

// Get returns one version of the configuration of an agent or template. The caller must not change
// it, because all callers share it. Errors of the store are wrapped and not cached. Concurrent
// calls may read the same version twice.
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
