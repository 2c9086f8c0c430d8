package pg

import (
	"context"
	"fmt"
	"strings"
)

// A process of the service names the keys of its SECRETS_KEY in the application_name of its connections, by their ids.
const (
	runningPrefix = "parley keys="
	// MaxRunningKeys is how many keys a process names: PostgreSQL keeps 63 bytes of a name.
	MaxRunningKeys = 5
)

// RunningKeys returns the ids of the keys that the connected processes of the service have, in the order of their SECRETS_KEY: at most
// MaxRunningKeys of each. Processes with the same keys count once.
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
