package rundb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/id"
)

// knownQueries maps the prefix of an id to a query that checks whether an organization has or had
// such a resource. The queries find deleted agents and revoked keys, which may still have runs. They
// find a member's personal key only if the key has runs.
var knownQueries = map[string]string{
	id.Agent: `SELECT EXISTS (SELECT FROM agents WHERE id = $1 AND org_id = $2)`,
	id.Key: `SELECT EXISTS (SELECT FROM api_keys WHERE id = $1 AND org_id = $2)
		OR EXISTS (SELECT FROM runs WHERE key_id = $1 AND org_id = $2)`,
	id.Run:      `SELECT EXISTS (SELECT FROM runs r WHERE r.id = $1 AND r.org_id = $2 AND` + RunLive + `)`,
	id.Hook:     `SELECT EXISTS (SELECT FROM hooks WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL)`,
	id.Endpoint: `SELECT EXISTS (SELECT FROM notification_endpoints WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL)`,
}

// Known reports whether a resource with this prefix and id may be named in a filter of an
// organization's runs. prefix is one of the prefixes of package id; for a prefix without a query,
// Known returns false.
func (s *Store) Known(ctx context.Context, org, prefix, resourceID string) (bool, error) {
	// An id with an unknown prefix or with a wrong form belongs to no resource and needs no query.
	query, listed := knownQueries[prefix]
	if !listed || !id.Valid(prefix, resourceID) {
		return false, nil
	}

	var known bool
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &known, query, resourceID, org) })
	if err != nil {
		return false, fmt.Errorf("looking up %s: %w", prefix, err)
	}
	return known, nil
}

// KnownDocuments returns the subset of ids that are documents of an organization, as a set. It
// includes documents that are not ready.
func (s *Store) KnownDocuments(ctx context.Context, org string, ids []string) (map[string]bool, error) {
	var found []string
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, `SELECT id FROM documents WHERE id = ANY ($1) AND org_id = $2`, pq.Array(ids), org)
	})
	if err != nil {
		return nil, fmt.Errorf("looking up documents: %w", err)
	}

	known := make(map[string]bool, len(found))
	for _, documentID := range found {
		known[documentID] = true
	}

	return known, nil
}
