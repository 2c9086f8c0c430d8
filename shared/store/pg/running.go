package pg

import (
	"context"
	"fmt"
	"strings"
)

// Each process of the service lists the ids of the keys in its SECRETS_KEY in the application_name
// of its database connections.
const (
	runningPrefix = "parley keys="
	// MaxRunningKeys is the maximum number of key ids that a process lists. PostgreSQL keeps 63
	// bytes of an application_name.
	MaxRunningKeys = 5
)

// RunningKeys returns the key ids of the connected processes of the service, each in the order
// of its SECRETS_KEY and at most MaxRunningKeys. Processes with the same keys appear once.
func (db *DB) RunningKeys(ctx context.Context) ([][]string, error) {
	var names []string
	err := db.SelectContext(ctx, &names, `SELECT DISTINCT application_name FROM pg_stat_activity
		WHERE datname = current_database() AND starts_with(application_name, $1) ORDER BY 1`, runningPrefix)
	if err != nil {
		return nil, fmt.Errorf("looking for running processes: %w", err)
	}
	running := make([][]string, len(names))
	for i, name := range names {
		running[i] = strings.Split(strings.TrimPrefix(name, runningPrefix), ",")
	}
	return running, nil
}
