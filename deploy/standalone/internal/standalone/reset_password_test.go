package standalone

import (
	"bytes"
	"strings"
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

func TestResetPassword(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	user, err := st.Accounts.CreateUser(t.Context(), accountdb.NewUser{Email: "ada@example.com", Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command := ResetPassword{Account: "ADA@example.com", DatabaseURL: dsn, PublicURL: "https://parley.example.com/", out: &out}
	if err := command.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, ours := strings.CutPrefix(strings.TrimSpace(out.String()), "https://parley.example.com/reset?token=")
	if !ours || !secrets.IsResetToken(token) {
		t.Fatalf("output = %q", out.String())
	}
	login := newLogin()
	if got, err := st.Accounts.UseReset(t.Context(), secrets.Hash(token), "hash", login); err != nil || got.User.ID != user.ID {
		t.Errorf("using the link: %+v, error %v", got, err)
	}
	if _, err := st.Accounts.UseReset(t.Context(), secrets.Hash(token), "hash", login); apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("using the link again: %v", err)
	}
	command.Account = "nobody@example.com"
	if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody@example.com") {
		t.Errorf("without an account: %v", err)
	}
	// A person who joins with an invitation link takes over the email address of an account that
	// has not proven the address.
	other, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "bea@example.com", Name: "Bea", PasswordHash: "hash"}, newLogin())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // the second invitation gets Bea's address below
		link := accountdb.NewInvitation{TokenHash: []byte{byte(n)}, ExpiresAt: time.Now().Add(time.Hour)}
		inviter := accountdb.Actor{OrganizationID: other.Organization.ID, UserID: other.User.ID}
		if _, err := st.Organizations.AddMember(t.Context(), inviter, []string{"cleo@example.com", "bea.example@example.com"}[n], domain.RoleMember, link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := testkit.SQL(t, dsn).ExecContext(t.Context(), `UPDATE invitations SET email = 'bea@example.com' WHERE token_hash = '\x01'`); err != nil {
		t.Fatal(err)
	}
	taker, err := st.Accounts.JoinNew(t.Context(), []byte{1}, "Taker", "hash", newLogin())
	if err != nil {
		t.Fatal(err)
	}
	command.Account = "bea@example.com"
	if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), other.User.ID) || !strings.Contains(err.Error(), taker.User.ID) {
		t.Errorf("with two accounts: %v", err)
	}
	command.Account = other.User.ID
	if err := command.Run(t.Context()); err != nil {
		t.Errorf("by id: %v", err)
	}
	command.Account = id.New(id.User)
	if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), command.Account) {
		t.Errorf("by an unknown id: %v", err)
	}
}

func newLogin() accountdb.NewLogin {
	return accountdb.NewLogin{TokenHash: secrets.Hash(secrets.NewSessionToken()), ExpiresAt: time.Now().Add(time.Hour)}
}
