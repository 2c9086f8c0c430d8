package standalone

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/secrets"
	"parley/shared/store"
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
	user, err := st.CreateUser(t.Context(), store.NewUser{Email: "ada@example.com", Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command := ResetPassword{Email: "ADA@example.com", DatabaseURL: dsn, PublicURL: "https://parley.example.com/", out: &out}
	if err := command.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, ours := strings.CutPrefix(strings.TrimSpace(out.String()), "https://parley.example.com/reset?token=")
	if !ours || !secrets.IsResetToken(token) {
		t.Fatalf("printed %q", out.String())
	}
	login := store.NewLogin{TokenHash: secrets.Hash(secrets.NewSessionToken()), ExpiresAt: time.Now().Add(time.Hour)}
	if got, err := st.UseReset(t.Context(), secrets.Hash(token), "hash", login); err != nil || got.User.ID != user.ID {
		t.Errorf("using the link: %+v, %v", got, err)
	}
	if _, err := st.UseReset(t.Context(), secrets.Hash(token), "hash", login); apierr.CodeOf(err) != apierr.NotFound {
		t.Errorf("using it again: %v", err)
	}
	command.Email = "nobody@example.com"
	if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody@example.com") {
		t.Errorf("without an account: %v", err)
	}
}
