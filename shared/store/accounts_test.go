package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/testkit"
)

// open returns a store on a new database.
func open(t *testing.T) *store.Store {
	t.Helper()
	s, _ := openRaw(t)
	return s
}

// openRaw returns a store on a new database, and the database opened as a superuser.
func openRaw(t *testing.T) (*store.Store, *sql.DB) {
	t.Helper()
	return openAt(t, testkit.Postgres(t))
}

func openAt(t *testing.T, dsn string) (*store.Store, *sql.DB) {
	t.Helper()
	s, err := store.Open(dsn, 8)
	if err != nil {
		t.Fatalf("opening store: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Queue.AnnounceSlots(t.Context(), "worker", wideWindow, time.Hour); err != nil {
		t.Fatal(err)
	}
	return s, testkit.SQL(t, dsn)
}

func newLogin(ttl time.Duration) accountdb.NewLogin {
	return accountdb.NewLogin{TokenHash: secrets.Hash(secrets.NewSessionToken()), ExpiresAt: time.Now().Add(ttl)}
}

func signUp(t *testing.T, s *store.Store, email string) (accountdb.Account, accountdb.NewLogin) {
	t.Helper()
	login := newLogin(time.Hour)
	account, err := s.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: email, Name: "Ada", PasswordHash: "hash"}, login)
	if err != nil {
		t.Fatalf("signing up %s: %v", email, err)
	}
	return account, login
}

func wantCode(t *testing.T, err error, code apierr.Code) {
	t.Helper()
	if apierr.CodeFor(err) != code || err == nil {
		t.Errorf("got %v, want code %s", err, code)
	}
}

func TestSignUpGivesAnOrganization(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, login := signUp(t, s, "Ada@Example.com")
	all, err := s.Organizations.Memberships(ctx, account.User.ID)
	if err != nil || len(all) != 1 || all[0].Role != domain.RoleOwner || all[0].ID != account.Organization.ID {
		t.Fatalf("memberships %+v, %v", all, err)
	}
	creds, err := s.Accounts.LoginCredentials(ctx, [][]byte{login.TokenHash, secrets.Hash("other")})
	if err != nil || len(creds) != 1 {
		t.Fatalf("credentials %v, %v", creds, err)
	}
	c := creds[string(login.TokenHash)]
	if c.UserID != account.User.ID || len(c.Memberships) != 1 || c.Memberships[0].OrganizationID != account.Organization.ID {
		t.Errorf("credential %+v", c)
	}
	_, err = s.Accounts.SignUp(ctx, accountdb.NewUser{Email: "ada@example.COM", Name: "x"}, newLogin(time.Hour))
	wantCode(t, err, apierr.EmailTaken)
	user, hash, err := s.Accounts.UserByEmail(ctx, "ADA@example.com")
	if err != nil || hash != "hash" || user.ID != account.User.ID || user.Email != "Ada@Example.com" {
		t.Errorf("user %+v, %q, %v", user, hash, err)
	}
	_, _, err = s.Accounts.UserByEmail(ctx, "nobody@example.com")
	wantCode(t, err, apierr.NotFound)
	if got, err := s.Accounts.User(ctx, user.ID); err != nil || got != user {
		t.Errorf("user by id %+v, %v", got, err)
	}
	if got, err := s.Organizations.Organization(ctx, account.Organization.ID); err != nil || got != account.Organization {
		t.Errorf("organization %+v, %v", got, err)
	}
}

func TestConcurrentFirstLoginsCreateOneOrganization(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	user, err := s.Accounts.CreateUser(ctx, accountdb.NewUser{Email: "a@b.c", Name: "A"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := s.Accounts.LogIn(ctx, user.ID, newLogin(time.Hour)); err != nil {
				t.Errorf("logging in: %v", err)
			}
		})
	}
	wg.Wait()
	if all, err := s.Organizations.Memberships(ctx, user.ID); err != nil || len(all) != 1 {
		t.Errorf("memberships %v, %v", all, err)
	}
}

func TestLoginSessionsEnd(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, first := signUp(t, s, "a@b.c")
	second := newLogin(time.Hour)
	second.Replaces = first.TokenHash
	if _, err := s.Accounts.LogIn(ctx, account.User.ID, second); err != nil {
		t.Fatal(err)
	}
	expired := newLogin(-time.Second)
	if _, err := s.Accounts.LogIn(ctx, account.User.ID, expired); err != nil {
		t.Fatal(err)
	}
	all := [][]byte{first.TokenHash, second.TokenHash, expired.TokenHash}
	creds, err := s.Accounts.LoginCredentials(ctx, all)
	if err != nil || len(creds) != 1 || creds[string(second.TokenHash)] == nil {
		t.Errorf("credentials %v, %v; want the second session's only", creds, err)
	}
	if n, err := s.Accounts.PruneLogins(ctx); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; want the expired one", n, err)
	}
	if err := s.Accounts.LogOut(ctx, second.TokenHash); err != nil {
		t.Fatal(err)
	}
	if creds, err = s.Accounts.LoginCredentials(ctx, all); err != nil || len(creds) != 0 {
		t.Errorf("credentials after logout %v, %v", creds, err)
	}
}

func TestLoginLinksWorkOnce(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	user, err := s.Accounts.CreateUser(ctx, accountdb.NewUser{Email: "a@b.c", Name: "A"})
	if err != nil {
		t.Fatal(err)
	}
	link, late := secrets.Hash(secrets.NewLinkToken()), secrets.Hash(secrets.NewLinkToken())
	for hash, end := range map[*[]byte]time.Duration{&link: time.Hour, &late: -time.Second} {
		if err := s.Accounts.CreateLoginLink(ctx, user.ID, *hash, time.Now().Add(end)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	used := 0
	for range 5 {
		wg.Go(func() {
			_, err := s.Accounts.UseLoginLink(ctx, link, newLogin(time.Hour))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				used++
			case !errors.Is(err, accountdb.ErrLinkSpent):
				t.Errorf("using link: %v", err)
			}
		})
	}
	wg.Wait()
	if used != 1 {
		t.Errorf("link worked %d times", used)
	}
	if _, err := s.Accounts.UseLoginLink(ctx, late, newLogin(time.Hour)); !errors.Is(err, accountdb.ErrLinkSpent) {
		t.Errorf("expired link: %v", err)
	}
	if _, err := s.Accounts.UseLoginLink(ctx, secrets.Hash("no"), newLogin(time.Hour)); !errors.Is(err, accountdb.ErrLinkUnknown) {
		t.Errorf("unknown link: %v", err)
	}
}

func newKey(t *testing.T, s *store.Store, scope domain.KeyScope, org, user string) (domain.APIKey, secrets.APIKey) {
	t.Helper()
	k := secrets.NewAPIKey()
	key, err := s.Organizations.CreateKey(t.Context(), accountdb.Actor{OrganizationID: org, UserID: user, Role: domain.RoleAdmin}, accountdb.NewKey{
		ID: k.ID, Scope: scope, Name: "k", SecretHash: k.Hash, LastFour: k.LastFour,
	})
	if err != nil {
		t.Fatalf("creating key: %v", err)
	}
	return key, k
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	other, _ := signUp(t, s, "b@b.c")
	org, user := account.Organization.ID, account.User.ID
	orgKey, raw := newKey(t, s, domain.KeyScopeOrganization, org, user)
	userKey, _ := newKey(t, s, domain.KeyScopeUser, org, user)
	foreign, _ := newKey(t, s, domain.KeyScopeOrganization, other.Organization.ID, other.User.ID)

	creds, err := s.Accounts.KeyCredentials(ctx, []string{orgKey.ID, userKey.ID, id.New(id.Key)})
	if err != nil || len(creds) != 2 {
		t.Fatalf("credentials %v, %v", creds, err)
	}
	if c := creds[orgKey.ID]; c.OrganizationID != org || c.UserID != "" || len(c.Memberships) != 0 || !bytes.Equal(c.SecretHash, raw.Hash) {
		t.Errorf("organization's key %+v", c)
	}
	if c := creds[userKey.ID]; c.OrganizationID != "" || c.UserID != user || len(c.Memberships) != 1 {
		t.Errorf("user's key %+v", c)
	}

	list := func(f accountdb.KeyFilter, limit int) []string {
		keys, err := s.Organizations.Keys(ctx, f, limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, k := range keys {
			ids = append(ids, k.ID)
		}
		return ids
	}
	if got := list(accountdb.KeyFilter{OrganizationID: org, UserID: user}, 1); len(got) != 1 || got[0] != userKey.ID {
		t.Errorf("first page %v", got)
	}
	if got := list(accountdb.KeyFilter{OrganizationID: org, UserID: user, After: userKey.ID}, 5); len(got) != 1 || got[0] != orgKey.ID {
		t.Errorf("second page %v", got)
	}
	if got := list(accountdb.KeyFilter{UserID: user}, 5); len(got) != 1 || got[0] != userKey.ID {
		t.Errorf("user's keys %v", got)
	}

	admin := accountdb.Actor{OrganizationID: org, UserID: user}
	link := accountdb.NewInvitation{TokenHash: secrets.Hash("invitation"), ExpiresAt: time.Now().Add(time.Hour)}
	if _, err := s.Organizations.AddMember(ctx, admin, other.User.Email, domain.RoleMember, link); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accounts.Join(ctx, link.TokenHash, other.User.ID, newLogin(time.Hour)); err != nil {
		t.Fatal(err)
	}
	member := accountdb.Actor{OrganizationID: org, UserID: other.User.ID, Role: domain.RoleAdmin} // with a cached, outdated role
	wantCode(t, s.Organizations.RevokeKey(ctx, member, orgKey.ID), apierr.PermissionDenied)
	wantCode(t, s.Organizations.RevokeKey(ctx, admin, foreign.ID), apierr.NotFound)
	if err := s.Organizations.RevokeKey(ctx, admin, orgKey.ID); err != nil {
		t.Error(err)
	}
	wantCode(t, s.Organizations.RevokeKey(ctx, admin, orgKey.ID), apierr.NotFound)
	if creds, err := s.Accounts.KeyCredentials(ctx, []string{orgKey.ID}); err != nil || len(creds) != 0 {
		t.Errorf("revoked key still there: %v, %v", creds, err)
	}
}

func TestTouchKeepsTheNewest(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	key, _ := newKey(t, s, domain.KeyScopeOrganization, account.Organization.ID, "")
	newest := time.Now().Add(-time.Minute).Truncate(time.Millisecond).Add(time.Millisecond - 1) // the last nanosecond of the displayed millisecond
	for _, at := range []time.Time{newest.Add(-time.Hour), newest, newest.Add(-time.Second)} {
		if err := s.Accounts.Touch(context.WithoutCancel(ctx), map[string]time.Time{key.ID: at, id.New(id.Key): at}); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := s.Organizations.Keys(ctx, accountdb.KeyFilter{OrganizationID: account.Organization.ID}, 1)
	if err != nil || len(keys) != 1 || !keys[0].LastUsedAt.Equal(domain.At(newest).Time) {
		t.Errorf("last used %+v, %v; want %v", keys, err, newest)
	}
}

// Passwords that are set concurrently for one email address get the same salt, so that a login
// computes one key per salt and cost.
func TestPasswordsOfAnAddressShareASalt(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	const cheap, dear = "$argon2id$v=19$m=64,t=1,p=1$", "$argon2id$v=19$m=128,t=1,p=1$"
	for _, c := range []struct {
		hash    string
		refused bool
	}{
		{cheap + "SALT$one", false},
		{cheap + "SALT$two", false},
		{cheap + "OTHER$three", true},
		{dear + "OTHER$four", false},
		{"", false},
		{dear + "OTHER$five", false},
		{dear + "SALT$six", true},
		{cheap + "SALT$seven", false},
	} {
		_, err := s.Accounts.CreateUser(t.Context(), accountdb.NewUser{Email: "ada@example.com", PasswordHash: c.hash})
		if (err != nil) != c.refused || c.refused && apierr.CodeFor(err) != apierr.Unavailable {
			t.Errorf("%s: %v", c.hash, err)
		}
		mustExec(t, raw, `UPDATE users SET displaced_at = clock_timestamp() WHERE displaced_at IS NULL`)
	}
	schemes, err := s.Accounts.PasswordSchemes(t.Context(), "Ada@example.com")
	if err != nil || !slices.Equal(schemes, []string{dear + "OTHER", cheap + "SALT"}) {
		t.Errorf("schemes %q, %v", schemes, err)
	}
}
