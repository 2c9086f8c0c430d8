package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/lib/pq"

	"parley/migrations"
	"parley/shared/store"
	"parley/shared/testkit"
)

// login creates a role that may log in. The argument more lists the role's attributes and
// privileges.
func login(t *testing.T, super *sql.DB, more string) (name, password string) {
	t.Helper()
	name, password = "parley_test_"+strings.ToLower(rand.Text()[:12]), rand.Text()
	mustExec(t, super, `CREATE ROLE `+name+` LOGIN PASSWORD `+pq.QuoteLiteral(password)+more)
	t.Cleanup(func() { _, _ = super.ExecContext(context.WithoutCancel(t.Context()), `DROP ROLE IF EXISTS `+name) }) // the role's database was dropped before
	return name, password
}

func mustExec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// loginAs returns the connection URL dsn with the given database, user name and password.
func loginAs(t *testing.T, dsn, database, name, password string) string {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	address.Path, address.User = "/"+database, url.UserPassword(name, password)
	return address.String()
}

// If the database's owner may not create roles, the migration returns commands for an
// administrator. After these commands, the migration succeeds.
func TestAnOwnerWithoutRightsMigratesWithAnAdministratorsHelp(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	super := testkit.SQL(t, dsn)
	owner, password := login(t, super, "")
	mustExec(t, super, `CREATE DATABASE `+owner+` OWNER `+owner)
	t.Cleanup(func() {
		_, _ = super.ExecContext(context.WithoutCancel(t.Context()), `DROP DATABASE `+owner+` WITH (FORCE)`)
	}) // the test has ended
	ownDSN := loginAs(t, dsn, owner, owner, password)
	own := testkit.SQL(t, ownDSN)

	err := migrations.Up(t.Context(), own)
	if err == nil || !strings.Contains(err.Error(), "administrator") {
		t.Fatalf("migrating without rights: %v", err)
	}
	_, commands, _ := strings.Cut(err.Error(), "migrate again: ")
	commands, _, _ = strings.Cut(commands, " (42501)")
	admin := testkit.SQL(t, withPath(t, dsn, owner))
	ran := 0
	for command := range strings.SplitSeq(commands, ";") {
		if strings.Contains(command, "CREATE ROLE") { // the roles already exist, because other tests use the same server
			continue
		}
		mustExec(t, admin, command)
		ran++
	}
	if ran != 2 {
		t.Fatalf("%d grants in %q", ran, commands)
	}
	if err := migrations.Up(t.Context(), own); err != nil {
		t.Fatalf("migrating with them: %v", err)
	}
	if _, err := own.ExecContext(t.Context(), `INSERT INTO organizations (id, name) VALUES ('org_x', 'x')`); err != nil {
		t.Errorf("the owner's own statements: %v", err)
	}
	if n := texts(t, own, `SELECT id FROM organizations`); len(n) != 1 {
		t.Errorf("the owner sees %v", n)
	}
	wantService(t, ownDSN, "")

	member, memberPassword := login(t, super, ` IN ROLE parley_app`)
	memberDSN := loginAs(t, dsn, owner, member, memberPassword)
	wantService(t, memberDSN, "")
	err = migrations.Up(t.Context(), testkit.SQL(t, memberDSN))
	if err == nil || !strings.Contains(err.Error(), owner+" owns its tables; set DATABASE_URL") {
		t.Errorf("migrating as the service's login: %v", err)
	}
	stranger, strangerPassword := login(t, super, "")
	wantService(t, loginAs(t, dsn, owner, stranger, strangerPassword), "GRANT parley_app")
}

func withPath(t *testing.T, dsn, database string) string {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + database
	return address.String()
}

// wantService opens the database at the URL dsn in the same way as the service. The argument
// refused is a part of the expected error, or "" if opening must succeed.
func wantService(t *testing.T, dsn, refused string) {
	t.Helper()
	s, err := store.Open(dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // ignore the error: the pool is no longer needed
	err = s.Ping(t.Context())
	if refused != "" {
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("connecting = %v, want %q", err, refused)
		}
		return
	}
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if who := texts(t, s.SQL(), `SELECT current_user`); len(who) != 1 || who[0] != "parley_app" {
		t.Errorf("acting as %v", who)
	}
	newEnvOn(t, s, nil, strings.ToLower(rand.Text())+"@example.com")
}

func TestOnlyTheOwnersConnectionsAreUnbound(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	for _, c := range []struct {
		open                 func(string, int) (*store.Store, error)
		dsn, patience, plans string
		acts                 bool // whether the login may act as parley_app
	}{
		{store.Open, dsn, "10s", "force_generic_plan", true},
		{store.Open, dsn + "&role=none&statement_timeout=3000", "3s", "force_generic_plan", false},
		{store.OpenOwner, dsn, "0", "auto", false},
	} {
		s, err := c.open(c.dsn, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		got := append(texts(t, s.SQL(), `SHOW statement_timeout`), texts(t, s.SQL(), `SHOW plan_cache_mode`)...)
		got = append(got, texts(t, s.SQL(), `SELECT current_user`)...)
		if got[0] != c.patience || got[1] != c.plans || (got[2] == "parley_app") != c.acts {
			t.Errorf("%s: timeout, plans, role: %v", c.dsn, got)
		}
	}
}
