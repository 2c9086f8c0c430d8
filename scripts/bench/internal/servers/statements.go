package servers

import (
	"context"
	"errors"
	"fmt"

	"parley/scripts/bench/internal/report"
)

// statementsSettings make PostgreSQL keep the figures of each statement. It costs a little, so they are on only when asked for.
var statementsSettings = map[string]string{
	"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on", "track_io_timing": "on",
}

// countStatements begins to count statements anew.
func (s *Servers) countStatements(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
		return fmt.Errorf("counting statements: %w", err)
	}
	return nil
}

// Statements are the twelve that have cost a database most, per run.
func (s *Servers) Statements(ctx context.Context, database string, runs int64) (out []report.Statement, err error) {
	rows, err := s.admin.QueryContext(ctx, `
		SELECT regexp_replace(query, '\s+', ' ', 'g'), calls / $2::float8, (total_exec_time + total_plan_time) * 1e3 / $2::float8,
		  (total_exec_time + total_plan_time) / calls, rows / calls::float8, wal_bytes / $2::float8
		FROM pg_stat_statements st JOIN pg_database d ON d.oid = st.dbid
		WHERE datname = $1 ORDER BY 3 DESC LIMIT 12`, database, runs)
	if err != nil {
		return nil, fmt.Errorf("reading statements: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		st := report.Statement{Database: database}
		if err := rows.Scan(&st.Query, &st.CallsPerRun, &st.MicrosPerRun, &st.MeanMillis, &st.RowsPerCall, &st.WALPerRun); err != nil {
			return nil, fmt.Errorf("reading statements: %w", err)
		}
		out = append(out, st)
	}
	return out, rows.Err()
}
