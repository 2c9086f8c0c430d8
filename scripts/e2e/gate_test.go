package e2e

import (
	"database/sql"
	"testing"
)

// gates blocks statements of the service inside PostgreSQL, so that a test can kill a process
// during a statement. Triggers of the test call e2e_gate.
type gates struct {
	c    *cluster
	conn *sql.Conn
}

const gateSQL = `
CREATE FUNCTION e2e_gate(point text) RETURNS void LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(7331, hashtext(point) & 65535);
END $$;`

// newGates creates the gates, all closed.
func newGates(t *testing.T, c *cluster, points ...string) *gates {
	t.Helper()
	if _, err := c.db.ExecContext(t.Context(), gateSQL); err != nil {
		t.Fatal(err)
	}

	conn, err := c.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close() })
	for _, point := range points {
		if _, err := conn.ExecContext(t.Context(), `SELECT pg_advisory_lock(7331, hashtext($1) & 65535)`, point); err != nil {
			t.Fatal(err)
		}
	}
	return &gates{c: c, conn: conn}
}

// waiting returns the number of statements that the gate of a point blocks.
func (g *gates) waiting(t *testing.T, point string) int {
	t.Helper()
	return g.c.number(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7331
		AND objid = (hashtext($1) & 65535)::oid`, point)
}

// open opens all gates permanently.
func (g *gates) open(t *testing.T) {
	t.Helper()
	if _, err := g.conn.ExecContext(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
}
