package testkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
)

// sabotages lists the conditions that restrict statements to an organization, with replacements
// that are always true.
var sabotages = []struct {
	condition *regexp.Regexp
	instead   string
}{
	{regexp.MustCompile(`(?:\w+\.)?org_id = (\$\d+)\b`), `$1 = $1`},
	{regexp.MustCompile(`(\bFROM organizations(?: \w+)?\s+WHERE )(?:\w+\.)?id = (\$\d+)\b`), `${1}$2 = $2`},
	{regexp.MustCompile(`\w+\.org_id = \w+\.org_id`), `true`},
}

func sabotaged(query string) (string, int) {
	n := 0
	for _, s := range sabotages {
		n += len(s.condition.FindAllString(query, -1))
		query = s.condition.ReplaceAllString(query, s.instead)
	}
	return query, n
}

// Sabotage makes connections that remove the conditions on organizations from all statements, as if
// a developer had forgotten these conditions. Then only the database's policies separate
// organizations.
type Sabotage struct {
	driver.Connector
	conditions atomic.Int64
}

// Sabotaged returns a connector that makes connections through the connector c and removes the
// conditions on organizations from the statements of these connections.
func Sabotaged(c driver.Connector) *Sabotage { return &Sabotage{Connector: c} }

// Conditions returns the number of conditions removed so far. If it is 0, nothing was tested.
func (s *Sabotage) Conditions() int { return int(s.conditions.Load()) }

// Connect opens a connection.
func (s *Sabotage) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(wholeConn)
	if !ok {
		return nil, fmt.Errorf("the connection type %T does not implement the methods that the pool requires", conn)
	}
	return &sabotagedConn{wholeConn: whole, by: s}, nil
}

// wholeConn contains the methods that the pool requires of a connection, except those for
// unprepared queries. Without methods for unprepared queries, the pool prepares each query, so that
// all queries pass through PrepareContext.
type wholeConn interface {
	driver.Conn
	workingConn
	pooledConn
}

type workingConn interface {
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.NamedValueChecker
}

type pooledConn interface {
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sabotagedConn is a connection that removes the conditions on organizations from the statements
// that it prepares.
type sabotagedConn struct {
	wholeConn
	by *Sabotage
}

func (c *sabotagedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	query, n := sabotaged(query)
	c.by.conditions.Add(int64(n))
	return c.wholeConn.PrepareContext(ctx, query)
}

// SabotageFunctions also removes the conditions on organizations from a database's functions,
// except from functions that intentionally read the data of all organizations. It returns the
// number of removed conditions.
func SabotageFunctions(tb testing.TB, super *sql.DB) int {
	tb.Helper()
	rows, err := super.QueryContext(tb.Context(), `SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace = 'public'::regnamespace AND NOT p.prosecdef AND p.prokind = 'f' AND l.lanname IN ('sql', 'plpgsql')`)
	if err != nil {
		tb.Fatalf("testkit: reading functions: %v", err)
	}

	defer func() { _ = rows.Close() }() // rows.Err has the error
	total := 0
	var changed []string
	for rows.Next() {
		var definition string
		if err := rows.Scan(&definition); err != nil {
			tb.Fatalf("testkit: reading functions: %v", err)
		}
		definition, n := sabotaged(definition)
		if total += n; n > 0 {
			changed = append(changed, definition)
		}
	}

	if err := rows.Err(); err != nil {
		tb.Fatalf("testkit: reading functions: %v", err)
	}

	for _, definition := range changed {
		if _, err := super.ExecContext(tb.Context(), definition); err != nil {
			tb.Fatalf("testkit: changing function: %v\n%s", err, definition)
		}
	}

	return total
}
