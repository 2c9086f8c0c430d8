package floor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/lib/pq"
)

// maxBatch is the maximum number of rows in a batch, and maxWaiting is the maximum number of rows
// that wait for a batch.
const (
	maxBatch   = 512
	maxWaiting = 16_384
)

// Completed is an SQL query that returns the number of requests on disk.
const Completed = "SELECT count(*) FROM " + table

// table is the name of the table of requests. The following statements create it and insert a batch
// of rows.
const table = "floor_runs"

const createTable = `CREATE TABLE IF NOT EXISTS ` + table + ` (id text COLLATE "C" PRIMARY KEY, input text NOT NULL)`

const insertRows = `INSERT INTO ` + table + ` (id, input) SELECT * FROM unnest($1::text[], $2::text[])`

var errTooMany = errors.New("insert queue is full")

// row is a row to insert. committed receives the result of its commit.
type row struct {
	id, input string
	committed chan error
}

// inserter inserts rows in groups: the rows that arrive during a commit are committed together
// afterwards. It has no timer, so a single client does not wait for other clients.
type inserter struct {
	query *sql.Stmt
	rows  chan row
}

// openTable connects to a database with the given number of connections, creates a table and
// prepares a query. The caller closes both results.
func openTable(ctx context.Context, dsn string, connections int, create, prepare string) (*sql.DB, *sql.Stmt, error) {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("reading database address: %w", err)
	}

	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	_, err = db.ExecContext(ctx, create)
	var query *sql.Stmt
	if err == nil {
		query, err = db.PrepareContext(ctx, prepare)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("preparing table: %w", err), db.Close())
	}
	return db, query, nil
}

// withInserter starts an inserter, calls do, and stops the inserter when do returns.
func withInserter(ctx context.Context, dsn string, do func(context.Context, *inserter) error) (err error) {
	db, query, err := openTable(ctx, dsn, 1, createTable, insertRows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, query.Close(), db.Close()) }()
	i := &inserter{query: query, rows: make(chan row, maxWaiting)}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background.Go(func() { i.run(ctx) })
	return do(ctx, i)
}

// insert returns nil when the row is on disk. It returns an error at once if too many rows wait.
func (i *inserter) insert(ctx context.Context, id, input string) error {
	r := row{id: id, input: input, committed: make(chan error, 1)}
	select {
	case i.rows <- r:
	default:
		return errTooMany
	}
	select {
	case err := <-r.committed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run inserts the submitted rows in batches until ctx ends.
func (i *inserter) run(ctx context.Context) {
	batch := make([]row, 0, maxBatch)
	ids, inputs := make([]string, 0, maxBatch), make([]string, 0, maxBatch)
	unbound := context.WithoutCancel(ctx) // lib/pq starts a goroutine for each query whose context can be canceled
	for {
		batch, ids, inputs = batch[:0], ids[:0], inputs[:0]
		select {
		case first := <-i.rows:
			batch = append(batch, first)
		case <-ctx.Done():
			return
		}
		for len(batch) < maxBatch && len(i.rows) > 0 {
			batch = append(batch, <-i.rows)
		}
		for _, r := range batch {
			ids, inputs = append(ids, r.id), append(inputs, r.input)
		}
		_, err := i.query.ExecContext(unbound, pq.StringArray(ids), pq.StringArray(inputs))
		for _, r := range batch {
			r.committed <- err
		}
	}
}
