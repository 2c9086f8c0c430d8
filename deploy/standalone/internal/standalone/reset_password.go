package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/shared/apierr"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/pgserver"
)

const resetLinkLife = 24 * time.Hour

// ResetPassword prints a link by which somebody sets a new password.
type ResetPassword struct {
	Email       string `arg:"" help:"Address of the account."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" help:"PostgreSQL that the service runs on, as a postgres:// URL; by default that of the parley that runs on DATA_DIR."`
	PublicURL   string `name:"public-url" env:"PUBLIC_URL" help:"Address that people reach the service at; by default that of the parley that runs on DATA_DIR."`
	DataDir     string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"Where parley up keeps its data."`
	JSON        bool   `name:"json" help:"Print JSON."`

	out io.Writer // os.Stdout unless a test says otherwise
}

// Help is the command's description.
func (*ResetPassword) Help() string {
	return `Whoever opens the link sets the account's password, once and within a day; the one before works until then. It needs the database, not the service.`
}

// Examples shows it in use.
func (*ResetPassword) Examples() string {
	return `parley reset-password ada@example.com
parley reset-password ada@example.com --public-url https://parley.example \
    --database-url postgres://parley@db/parley`
}

// Run makes the link, which works once and for a day.
func (r *ResetPassword) Run(ctx context.Context) error {
	if err := r.complete(); err != nil {
		return err
	}
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
	link := strings.TrimRight(r.PublicURL, "/") + "/reset?token=" + token
	if r.JSON {
		err = json.NewEncoder(out).Encode(map[string]string{"url": link, "expiresAt": ends.UTC().Format(time.RFC3339)})
	} else {
		_, err = fmt.Fprintln(out, link)
	}
	if err != nil {
		return fmt.Errorf("printing link: %w", err)
	}
	return nil
}

// complete takes what is not said from the parley that runs on the data directory.
func (r *ResetPassword) complete() (err error) {
	if r.PublicURL == "" {
		made, err := seeder{file: filepath.Join(r.DataDir, "credentials.json")}.known()
		if err != nil {
			return err
		}
		if r.PublicURL = made.BaseURL; r.PublicURL == "" {
			return fmt.Errorf("no parley has run on %s: name its DATA_DIR, or DATABASE_URL and PUBLIC_URL", r.DataDir)
		}
	}
	if r.DatabaseURL == "" {
		r.DatabaseURL, err = pgserver.RunningDSN(filepath.Join(r.DataDir, "postgres"), databaseName)
	}
	return err
}
