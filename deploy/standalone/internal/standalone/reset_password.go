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
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/pgserver"
)

// resetLinkLife is the time for which a link is valid.
const resetLinkLife = 24 * time.Hour

// ResetPassword is the command that prints a link to set a new password.
type ResetPassword struct {
	Account     string `arg:"" help:"Email address or ID of the account."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" help:"The service's database, as a postgres:// URL; default: the database of the parley that runs with DATA_DIR."`
	PublicURL   string `name:"public-url" env:"PUBLIC_URL" help:"The service's public URL; default: the URL of the parley that runs with DATA_DIR."`
	DataDir     string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"Where parley up keeps its data."`
	JSON        bool   `name:"json" help:"Print JSON."`

	out io.Writer // os.Stdout, except in tests
}

// Help returns the description for the manual page of the command.
func (*ResetPassword) Help() string {
	return `The link sets a new password for the account. It works once and for one day; until it is used, the old password works. Using the link verifies the account's email address, and the first verification revokes the person's own API keys. The command needs only the database: the service need not run.`
}

// Examples returns the examples on the manual page of the command.
func (*ResetPassword) Examples() string {
	return `parley reset-password ada@example.com
parley reset-password ada@example.com --public-url https://parley.example \
    --database-url postgres://parley@db/parley`
}

// Run creates and prints a link, which works once and for one day. Only a hash of its token is
// stored. The password does not change before the link is used.
func (r *ResetPassword) Run(ctx context.Context) error {
	if err := r.complete(); err != nil {
		return err
	}

	st, err := store.Open(r.DatabaseURL, 2)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // an error has no effect, because the process ends

	userID, err := r.user(ctx, st)
	if err != nil {
		return err
	}

	token, ends := secrets.NewResetToken(), time.Now().Add(resetLinkLife)
	if err := st.Accounts.CreateReset(ctx, userID, secrets.Hash(token), ends); err != nil {
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

// user returns the ID of the account with the ID or email address in r.Account. Several accounts
// can have the same email address after an invitation link has taken over the address. In that
// case, user returns an error that lists the accounts, and the operator must give an ID.
func (r *ResetPassword) user(ctx context.Context, st *store.Store) (string, error) {
	if id.Valid(id.User, r.Account) {
		user, err := st.Accounts.User(ctx, r.Account)
		if apierr.CodeFor(err) == apierr.NotFound {
			return "", fmt.Errorf("no account with ID %s", r.Account)
		}
		return user.ID, err
	}

	accounts, err := st.Accounts.AccountsAt(ctx, r.Account)
	switch {
	case err != nil:
		return "", err
	case len(accounts) == 0:
		return "", fmt.Errorf("no account with the email address %s", r.Account)
	case len(accounts) == 1:
		return accounts[0].User.ID, nil
	}

	var list strings.Builder
	for _, account := range accounts {
		state := "has the address"
		if account.Displaced {
			state = "no longer has the address: another account took it over"
		}
		fmt.Fprintf(&list, "\n  %s  %q, created %s, %s", account.User.ID, account.User.Name, account.User.CreatedAt.Format(time.RFC3339), state)
	}
	return "", fmt.Errorf("%d accounts have had the email address %s; give an ID instead:%s", len(accounts), r.Account, list.String())
}

// complete reads missing settings from the data directory of a running parley. It fails if there is
// no such directory, or if the private PostgreSQL server does not run.
func (r *ResetPassword) complete() (err error) {
	if r.PublicURL == "" {
		made, err := seeder{file: filepath.Join(r.DataDir, "credentials.json")}.known()
		if err != nil {
			return err
		}
		if r.PublicURL = made.BaseURL; r.PublicURL == "" {
			return fmt.Errorf("no Parley service has used the data directory %s: set DATA_DIR, or DATABASE_URL and PUBLIC_URL", r.DataDir)
		}
	}
	if r.DatabaseURL == "" {
		r.DatabaseURL, err = pgserver.RunningDSN(filepath.Join(r.DataDir, "postgres"), databaseName)
	}
	return err
}
