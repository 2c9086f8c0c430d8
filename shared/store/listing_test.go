package store_test

import (
	"testing"

	"parley/shared/store"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// To read a page of a list, the database reads few rows that are not on the page, regardless of the
// number of organizations and their rows.
func TestPagesAreReadAlongTheirIndex(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	const own, others = 20_000, 30_000
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input, retention,
		created_at, status, result) SELECT 'run_' || lpad(n::text, 26, '0'), CASE WHEN n <= $3 THEN $1 ELSE 'org_' || n % 10000 END, $2, 1, n, 1, 's' || n, 'system',
		'system', 'schedule', '{}', 0, now(), 'completed', '{"id":"r"}' FROM generate_series(1, $3::int + $4::int) n`, r.org, r.agent, own, others)
	r.raw(`INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq) OVERRIDING SYSTEM VALUE
		SELECT n, sha256(n::text::bytea), CASE WHEN n <= $3 THEN $1 ELSE 'org_' || n % 10000 END, $2, 'system', 's' || n, 1
		FROM generate_series(1, $3::int + $4::int) n`, r.org, r.agent, own, others)
	for _, stats := range []string{"none", "up to date"} {
		for name, list := range map[string]func(s *store.Store) (int, error){
			"runs": func(s *store.Store) (int, error) {
				list, err := s.Runs.ListRuns(t.Context(), r.org, rundb.RunFilter{}, 20)
				return len(list), err
			},
			"sessions": func(s *store.Store) (int, error) {
				list, err := s.Sessions.Sessions(t.Context(), r.org, sessiondb.SessionFilter{}, 20)
				return len(list), err
			},
		} {
			n := r.touched(func(s *store.Store) {
				if found, err := list(s); err != nil || found != 20 {
					t.Errorf("%s: %d of 20, %v", name, found, err)
				}
			})
			if n > 250 || n == 0 {
				t.Errorf("%s, statistics %s: %d pages were touched for a list of 20", name, stats, n)
			}
		}
		r.raw(`ANALYZE`)
	}
}
