package store_test

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// TestAccountRowsNeedAName sends statements without conditions, as the service's role. The rows of
// a user are invisible unless the transaction names that user.
func TestAccountRowsNeedAName(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	ada, _ := signUp(t, s, "a@b.c")
	bea, _ := signUp(t, s, "b@b.c")
	for _, account := range []accountdb.Account{ada, bea} {
		newKey(t, s, domain.KeyScopeOrganization, account.Organization.ID, account.User.ID)
		newKey(t, s, domain.KeyScopeUser, "", account.User.ID)
		invitation := accountdb.NewInvitation{TokenHash: secrets.Hash(account.User.ID), ExpiresAt: time.Now().Add(time.Hour)}
		who := accountdb.Actor{OrganizationID: account.Organization.ID, UserID: account.User.ID}
		if _, err := s.Organizations.AddMember(ctx, who, "new@b.c", domain.RoleMember, invitation); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		orgs, user string
		want       map[string]int
	}{
		"nobody":       {"", "", map[string]int{"organizations": 0, "memberships": 0, "invitations": 0, "api_keys": 0}},
		"organization": {ada.Organization.ID, "", map[string]int{"organizations": 1, "memberships": 1, "invitations": 1, "api_keys": 1}},
		"user":         {"", ada.User.ID, map[string]int{"organizations": 0, "memberships": 0, "invitations": 0, "api_keys": 1}},
		"both":         {ada.Organization.ID, ada.User.ID, map[string]int{"organizations": 1, "memberships": 1, "invitations": 1, "api_keys": 2}},
		"another":      {"org_x", "usr_x", map[string]int{"organizations": 0, "memberships": 0, "invitations": 0, "api_keys": 0}},
	} {
		tx, err := s.SQL().BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.ExecContext(ctx, `SELECT set_config('parley.organizations', $1, true), set_config('parley.user', $2, true)`, c.orgs, c.user)
		if err != nil {
			t.Fatal(err)
		}
		for table, want := range c.want {
			if got := count(t, tx, table); got != want {
				t.Errorf("%s sees %d rows of %s, want %d", name, got, table, want)
			}
		}
		changed, err := tx.ExecContext(ctx, `UPDATE memberships SET role = 'owner'`)
		if n, _ := changed.RowsAffected(); err != nil || int(n) != c.want["memberships"] {
			t.Errorf("%s changes %d memberships, %v", name, n, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, 'owner')`, bea.Organization.ID, ada.User.ID); err == nil {
			t.Errorf("%s joins another organization", name)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func count(t *testing.T, tx *sql.Tx, table string) (n int) {
	t.Helper()
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConcurrentIdentitiesCreateOneUser(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	who := accountdb.Identity{Issuer: "https://id.example", Subject: "1", Email: "a@b.c", Verified: true, Name: "A"}
	seen := make(chan string, 8)
	var wg sync.WaitGroup
	for range cap(seen) {
		wg.Go(func() {
			account, err := s.Accounts.LogInByIdentity(ctx, who, "", false, newLogin(time.Hour))
			if err != nil {
				t.Errorf("logging in: %v", err)
			}
			seen <- account.User.ID
		})
	}
	wg.Wait()
	first := <-seen
	for range cap(seen) - 1 {
		if other := <-seen; other != first {
			t.Errorf("two people: %s and %s", first, other)
		}
	}
	who.Issuer = "https://other.example"
	_, err := s.Accounts.LogInByIdentity(ctx, who, "", false, newLogin(time.Hour))
	wantCode(t, err, apierr.EmailTaken)
}

// The password or login session that proves a login must still be valid when the new login session
// is created.
func TestLoginsNeedAValidProof(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	ada, _ := signUp(t, s, "a@b.c")
	inviter := accountdb.Actor{OrganizationID: ada.Organization.ID, UserID: ada.User.ID}
	link := accountdb.NewInvitation{TokenHash: secrets.Hash("invitation"), ExpiresAt: time.Now().Add(time.Hour)}
	if _, err := s.Organizations.AddMember(ctx, inviter, "b@b.c", domain.RoleMember, link); err != nil {
		t.Fatal(err)
	}
	bea, _ := signUp(t, s, "b@b.c")
	before, err := s.Accounts.Logins(ctx, bea.User.ID, []byte("none"), accountdb.After{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	reset := secrets.Hash("reset")
	if err := s.Accounts.CreateReset(ctx, bea.User.ID, reset, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accounts.UseReset(ctx, reset, "new hash", newLogin(time.Hour)); err != nil {
		t.Fatal(err)
	}
	shown := func(passwordHash, loginID string) accountdb.NewLogin {
		login := newLogin(time.Hour)
		login.PasswordHash, login.LoginID = passwordHash, loginID
		return login
	}
	who := accountdb.Identity{Issuer: "https://id.example", Subject: "1", Email: "b@b.c", Verified: true}
	for name, login := range map[string]accountdb.NewLogin{"password": shown("hash", ""), "session": shown("", before[0].ID)} {
		if _, err := s.Accounts.LogIn(ctx, bea.User.ID, login); apierr.CodeFor(err) != apierr.Unauthenticated {
			t.Errorf("logging in by the old %s: %v", name, err)
		}
		if _, err := s.Accounts.Join(ctx, link.TokenHash, bea.User.ID, login); apierr.CodeFor(err) != apierr.Unauthenticated {
			t.Errorf("joining by the old %s: %v", name, err)
		}
	}
	_, err = s.Accounts.LogInByIdentity(ctx, who, bea.User.ID, false, shown("", before[0].ID))
	wantCode(t, err, apierr.Unauthenticated)
	now, err := s.Accounts.Logins(ctx, bea.User.ID, []byte("none"), accountdb.After{}, 2)
	if err != nil || len(now) != 1 {
		t.Fatalf("sessions after the reset: %v, %v", now, err)
	}
	if _, err := s.Accounts.LogInByIdentity(ctx, who, bea.User.ID, false, shown("", now[0].ID)); err != nil {
		t.Errorf("linking in the session that is there: %v", err)
	}
	if _, err := s.Accounts.LogIn(ctx, bea.User.ID, shown("new hash", "")); err != nil {
		t.Errorf("logging in by the new password: %v", err)
	}
	if _, err := s.Accounts.Join(ctx, link.TokenHash, bea.User.ID, shown("", now[0].ID)); err != nil {
		t.Errorf("joining in the session that is there: %v", err)
	}
}

// After a key is revoked, no more keys are created with the revoked key, not even by concurrent
// requests.
func TestKeysAreMadeBeforeTheirMakerEnds(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	ada, _ := signUp(t, s, "a@b.c")
	owner := accountdb.Actor{OrganizationID: ada.Organization.ID, UserID: ada.User.ID}
	maker, _ := newKey(t, s, domain.KeyScopeUser, "", ada.User.ID)
	by := accountdb.Actor{OrganizationID: ada.Organization.ID, UserID: ada.User.ID, KeyID: maker.ID}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 1000 {
				k := secrets.NewAPIKey()
				_, err := s.Organizations.CreateKey(ctx, by, accountdb.NewKey{ID: k.ID, Scope: domain.KeyScopeUser, Name: "k", SecretHash: k.Hash, LastFour: k.LastFour})
				if err != nil {
					if apierr.CodeFor(err) != apierr.Unauthenticated {
						t.Errorf("making a key: %v", err)
					}
					return
				}
			}
		})
	}
	if err := s.Organizations.RevokeKey(ctx, owner, maker.ID); err != nil {
		t.Error(err)
	}
	then, err := s.Organizations.Keys(ctx, accountdb.KeyFilter{UserID: ada.User.ID}, 10_000)
	if err != nil {
		t.Error(err)
	}
	wg.Wait()
	if now, err := s.Organizations.Keys(ctx, accountdb.KeyFilter{UserID: ada.User.ID}, 10_000); err != nil || len(now) != len(then) {
		t.Errorf("%d keys, %v; there were %d when the key had ended", len(now), err, len(then))
	}
}

func TestResetsWorkOnce(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	hash := secrets.Hash(secrets.NewResetToken())
	if err := s.Accounts.CreateReset(ctx, account.User.ID, hash, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accounts.UseLoginLink(ctx, hash, newLogin(time.Hour)); err == nil {
		t.Error("a reset link logs in by itself")
	}
	results := make(chan error, 5)
	var wg sync.WaitGroup
	for range cap(results) {
		wg.Go(func() {
			_, err := s.Accounts.UseReset(ctx, hash, "new hash", newLogin(time.Hour))
			results <- err
		})
	}
	wg.Wait()
	used := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			used++
		case apierr.CodeFor(err) != apierr.NotFound:
			t.Errorf("using the link: %v", err)
		}
	}
	logins, err := s.Accounts.Logins(ctx, account.User.ID, []byte("none"), accountdb.After{}, 10)
	if used != 1 || err != nil || len(logins) != 1 {
		t.Errorf("the link worked %d times and left %d sessions, %v", used, len(logins), err)
	}
}

func TestEndedInvitationsArePruned(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	who := accountdb.Actor{OrganizationID: account.Organization.ID, UserID: account.User.ID}
	for email, end := range map[string]time.Duration{"open@b.c": time.Hour, "ended@b.c": -time.Hour, "old@b.c": -25 * time.Hour} {
		link := accountdb.NewInvitation{TokenHash: secrets.Hash(email), ExpiresAt: time.Now().Add(end)}
		if _, err := s.Organizations.AddMember(ctx, who, email, domain.RoleMember, link); err != nil {
			t.Fatal(err)
		}
	}
	members, err := s.Organizations.Members(ctx, account.Organization.ID, accountdb.After{}, 10)
	if err != nil || len(members) != 2 || members[0].Email != "open@b.c" {
		t.Errorf("members %+v, %v", members, err)
	}
	if n, err := s.Accounts.PruneLogins(ctx); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; want the old one", n, err)
	}
}
