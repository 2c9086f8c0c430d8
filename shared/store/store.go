package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"parley/shared/store/accountdb"
	"parley/shared/store/agentdb"
	"parley/shared/store/blobdb"
	"parley/shared/store/budgetdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/hookdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/limitdb"
	"parley/shared/store/notificationdb"
	"parley/shared/store/overviewdb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sealdb"
	"parley/shared/store/sessiondb"
	"parley/shared/store/usagedb"
)

// Store is a database with one store per domain. It is safe for concurrent use.
type Store struct {
	*pg.DB

	Accounts      *accountdb.Store
	Agents        *agentdb.Store
	Blobs         *blobdb.Store
	Budgets       *budgetdb.Store
	Executions    *executiondb.Store
	Overviews     *overviewdb.Store
	Hooks         *hookdb.Store
	Knowledge     *knowledgedb.Store
	Limits        *limitdb.Store
	Notifications *notificationdb.Store
	Organizations *accountdb.Organizations
	Queue         *queuedb.Store
	Runs          *rundb.Store
	Seals         *sealdb.Store
	Sessions      *sessiondb.Store
	Usage         *usagedb.Store
}

// Open opens the database like pg.Open and adds the domain stores.
func Open(dsn string, conns int) (*Store, error) {
	db, err := pg.Open(dsn, conns)
	if err != nil {
		return nil, err
	}
	return New(db), nil
}

// OpenOwner opens the database like pg.OpenOwner and adds the domain stores.
func OpenOwner(dsn string, conns int) (*Store, error) {
	db, err := pg.OpenOwner(dsn, conns)
	if err != nil {
		return nil, err
	}
	return New(db), nil
}

// On is like pg.On and adds the domain stores.
func On(connector driver.Connector, conns int) *Store { return New(pg.On(connector, conns)) }

// New creates the domain stores on a database.
func New(db *pg.DB) *Store {
	seals, runs, budgets := sealdb.New(db), rundb.New(db), budgetdb.New(db)
	blobs := blobdb.New(db, seals)
	accounts := accountdb.New(db)
	return &Store{
		DB:            db,
		Accounts:      accounts,
		Agents:        agentdb.New(db),
		Blobs:         blobs,
		Budgets:       budgets,
		Executions:    executiondb.New(db, runs),
		Overviews:     overviewdb.New(db),
		Hooks:         hookdb.New(db, seals),
		Knowledge:     knowledgedb.New(db, blobs),
		Limits:        limitdb.New(db),
		Notifications: notificationdb.New(db, runs),
		Organizations: accountdb.NewOrganizations(accounts),
		Queue:         queuedb.New(db, budgets, runs, seals),
		Runs:          runs,
		Seals:         seals,
		Sessions:      sessiondb.New(db),
		Usage:         usagedb.New(db),
	}
}

// CheckSchema returns an error unless the database has this release's schema and a new
// connection can use it.
func (s *Store) CheckSchema(ctx context.Context) error {
	return s.Fresh(ctx, func(fresh *sql.DB) error {
		if _, err := fresh.ExecContext(ctx, `SELECT agents.widget_secret, runs.key_id, runs.summary, run_attempts.provider_status, api_keys.lineage, users.displaced_at,
			CAST('accept_single_runs(new_run[], text[], int[], interval)' AS regprocedure),
			CAST('end_lane_runs(run_ending[], text[], boolean)' AS regprocedure),
			CAST('claim_runs(text[], interval)' AS regprocedure),
			CAST('receiving_hook(text, interval)' AS regprocedure),
			CAST('settle_holds' AS regproc)
			FROM agents, api_keys, users, runs, open_runs, rate_buckets, run_events,
			invitations, effects, files, documents, run_documents, document_chunks, document_vectors, knowledge_terms, indexed_documents,
			run_attempts, heard, budget_holds, past_usage_by, hooks, deliveries, collecting, notification_endpoints, notifications,
			waiting_lanes, hook_senders LIMIT 0`); err != nil {
			return fmt.Errorf("checking the schema (see `parley migrate`): %w", err)
		}
		return nil
	})
}

// Close closes all connections.
func (s *Store) Close() error {
	s.Executions.Close()
	s.Queue.Close()
	return s.DB.Close()
}
