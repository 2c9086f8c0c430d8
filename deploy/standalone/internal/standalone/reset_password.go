package standalone

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"parley/shared/apierr"
	"parley/shared/secrets"
	"parley/shared/store"
)

const resetLinkLife = 24 * time.Hour

// ResetPassword prints a link by which somebody sets a new password.
type ResetPassword struct {
	Email       string `arg:"" help:"Address of the account."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" required:"" help:"PostgreSQL that the service runs on, as a postgres:// URL."`
	PublicURL   string `name:"public-url" env:"PUBLIC_URL" default:"http://127.0.0.1:8080" help:"Address that people reach the service at."`

	out io.Writer // os.Stdout unless a test says otherwise
}

// Run makes the link, which works once and for a day.
func (r *ResetPassword) Run(ctx context.Context) error {
	st, err := store.Open(r.DatabaseURL, 2)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // the process ends
	user, _, err := st.UserByEmail(ctx, r.Email)
	if apierr.CodeOf(err) == apierr.NotFound {
		return fmt.Errorf("no account has the address %s", r.Email)
	}
	if err != nil {
		return err
	}
	token, ends := secrets.NewResetToken(), time.Now().Add(resetLinkLife)
	if err := st.CreateReset(ctx, user.ID, secrets.Hash(token), ends); err != nil {
		return err
	}
	out := r.out
	if out == nil {
		out = os.Stdout
	}
	_, err = fmt.Fprintf(out, "%s/reset?token=%s\n", strings.TrimRight(r.PublicURL, "/"), token)
	return err
}
