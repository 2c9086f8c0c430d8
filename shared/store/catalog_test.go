package store_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"parley/shared/store"
	"parley/shared/testkit"
)

// withoutOrganizations lists the tables without a row-level security policy. docs/security.md gives
// the reason for each.
var withoutOrganizations = map[string]string{
	"users":            "a person belongs to several organizations",
	"identities":       "a person's accounts at OpenID providers",
	"login_sessions":   "looked up by the hash of a secret, before anything is known of the caller",
	"login_links":      "looked up by the hash of a secret, before anything is known of the caller",
	"templates":        "everybody's; the service cannot write them",
	"demo_clients":     "counts of client addresses",
	"worker_slots":     "how many runs each worker executes",
	"rate_buckets":     "counts of limits, under names that are hashes or ids",
	"goose_db_version": "the schema's version; the service cannot read it",
	"function_files":   "which functions are applied; the service cannot read it",
}

func texts(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

const tables = `FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'm', 'f') `

func TestEveryTableIsKeptApartOrNamed(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	all := texts(t, db, `SELECT c.relname `+tables)
	forced := map[string]bool{}
	for _, name := range texts(t, db, `SELECT c.relname `+tables+`AND c.relrowsecurity AND c.relforcerowsecurity
		AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polpermissive AND (
		  p.polname = 'tenant' AND p.polroles = ARRAY['parley_app'::regrole::oid] AND p.polwithcheck IS NOT NULL
		    AND pg_get_expr(p.polqual, p.polrelid) LIKE '%ANY (( SELECT parley_organizations()%'
		    AND pg_get_expr(p.polwithcheck, p.polrelid) LIKE '%ANY (( SELECT parley_organizations()%'
		  OR p.polname = 'system' AND p.polroles = ARRAY['parley_system'::regrole::oid])) = 2`) {
		forced[name] = true
	}
	if len(all) < 15 || len(forced) < 7 {
		t.Fatalf("%d tables, %d of them with policies: the catalog was read wrongly", len(all), len(forced))
	}
	for _, name := range all {
		if _, excepted := withoutOrganizations[name]; forced[name] == excepted {
			t.Errorf("table %s: policies %v, named as an exception %v", name, forced[name], excepted)
		}
	}
	for name := range withoutOrganizations {
		if !slices.Contains(all, name) {
			t.Errorf("the exception %s is no table", name)
		}
	}
	// In all tables except these two, a policy that depends on the user must restrict access to the
	// user's own rows.
	others := texts(t, db, `SELECT polrelid::regclass::text || ' ' || polname FROM pg_policy
		WHERE polname NOT IN ('tenant', 'system') AND pg_get_expr(polqual, polrelid) NOT LIKE '%org_id IS NULL%parley_user()%'`)
	if len(others) > 0 {
		t.Errorf("policies that nothing is known of: %v", others)
	}
}

func TestFunctionsThatSeeAllAreFewAndClosed(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	const definers = `FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef `
	if all := texts(t, db, `SELECT p.proname `+definers); len(all) < 10 {
		t.Fatalf("only %v look over all organizations: the catalog was read wrongly", all)
	}
	for what, query := range map[string]string{
		"have no fixed search_path": definers + `AND NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c = 'search_path=pg_catalog, public, pg_temp')`,
		"are not parley_system's":   definers + `AND p.proowner <> 'parley_system'::regrole`,
		"are open to everybody":     definers + `AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))`,
		"are closed to the service": definers + `AND NOT has_function_privilege('parley_app', p.oid, 'EXECUTE')`,
	} {
		if wrong := texts(t, db, `SELECT p.proname `+query); len(wrong) > 0 {
			t.Errorf("functions that see all organizations and %s: %v", what, wrong)
		}
	}
}

func TestTheServicesRoleIsBound(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	for what, query := range map[string]string{
		"roles that pass by the policies": `SELECT rolname FROM pg_roles WHERE rolname IN ('parley_app', 'parley_system')
			AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolcanlogin)`,
		"roles that parley_app is a member of": `SELECT r.rolname FROM pg_roles r
			WHERE r.rolname <> 'parley_app' AND pg_has_role('parley_app', r.oid, 'MEMBER')`,
		"things that parley_app owns": `SELECT c.relname FROM pg_class c WHERE c.relowner = 'parley_app'::regrole
			UNION ALL SELECT p.proname FROM pg_proc p WHERE p.proowner = 'parley_app'::regrole`,
		"tables that parley_system owns": `SELECT c.relname FROM pg_class c WHERE c.relowner = 'parley_system'::regrole`,
		"schemas that either may create in": `SELECT n.nspname FROM pg_namespace n, unnest(ARRAY['parley_app', 'parley_system']) r
			WHERE n.nspname = 'public' AND has_schema_privilege(r, n.oid, 'CREATE')`,
		"tables that the service may truncate or disable triggers of": `SELECT c.relname ` + tables + `
			AND (has_table_privilege('parley_app', c.oid, 'TRUNCATE') OR has_table_privilege('parley_app', c.oid, 'TRIGGER'))`,
		"tables of migrations that the service may read": `SELECT c.relname ` + tables + ` AND c.relname IN ('goose_db_version', 'function_files')
			AND has_any_column_privilege('parley_app', c.oid, 'SELECT, INSERT, UPDATE')`,
		"views that apply the policies of another role than the caller's": `SELECT c.relname FROM pg_class c
			WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY (c.reloptions), false)`,
		"templates that the service may write": `SELECT c.relname ` + tables + ` AND c.relname = 'templates'
			AND has_any_column_privilege('parley_app', c.oid, 'INSERT, UPDATE')`,
	} {
		if wrong := texts(t, db, query); len(wrong) > 0 {
			t.Errorf("%s: %v", what, wrong)
		}
	}
	s, err := store.Open(testkit.Postgres(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if who := texts(t, s.SQL(), `SELECT current_user`); strings.Join(who, "") != "parley_app" {
		t.Errorf("the store acts as %v", who)
	}
}

// A transaction that acts for no organization can neither read nor write the rows of organizations.
func TestWithoutOrganizationsThereIsNothing(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runID := b.accept(wideWindow, b.run("k", "s"), b.run("", "s"))[0].Run.Run.ID
	c := b.mustClaim(runID)
	b.make(c.Held(), "c", made("x", "x"))
	b.finish(c, "x")
	b.finish(b.mustClaim(b.automationRun("nightly", "schedule", "removed")), "x")
	b.exec(`DELETE FROM runs WHERE automation_id = 'nightly'`)
	ctx := t.Context()
	tenants := texts(t, b.raw, `SELECT p.polrelid::regclass::text FROM pg_policy p WHERE p.polname = 'tenant'`)
	read, written := 0, 0
	for _, name := range tenants {
		var there, visible int
		if err := b.raw.QueryRowContext(ctx, `SELECT count(*) FROM `+name+` t WHERE to_jsonb(t)->>'org_id' IS NOT NULL OR to_jsonb(t) ? 'name'`).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if err := b.s.SQL().QueryRowContext(ctx, `SELECT count(*) FROM `+name).Scan(&visible); err != nil || visible != 0 {
			t.Errorf("%d rows of %s are visible: %v", visible, name, err)
		}
		read += min(there, 1)
		written += refusesOwnRows(ctx, t, b, name)
	}
	if read < 11 || written < 11 {
		t.Errorf("only %d tables had rows to hide, and %d refused them; of %v", read, written, tenants)
	}
}

// refusesOwnRows checks that row-level security rejects rows that the service inserts, which are
// copies of existing rows. A copied row violates a unique key, too, but PostgreSQL checks the
// policy first.
func refusesOwnRows(ctx context.Context, t *testing.T, b *testEnv, table string) int {
	t.Helper()
	var row sql.NullString
	if err := b.raw.QueryRowContext(ctx, `SELECT to_jsonb(t) FROM `+table+` t LIMIT 1`).Scan(&row); err != nil {
		return 0 // the test has created none
	}
	_, err := b.s.SQL().ExecContext(ctx, `INSERT INTO `+table+` OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(NULL::`+table+`, $1)).*`, row.String)
	if err == nil || !strings.Contains(err.Error(), "row-level security policy") {
		t.Errorf("inserting into %s: %v", table, err)
		return 0
	}
	return 1
}
