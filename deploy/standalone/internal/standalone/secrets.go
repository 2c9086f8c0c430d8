package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"parley/deploy/standalone/internal/console"
	"parley/shared/config"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/pg"
	"parley/shared/store/pgserver"
	"parley/shared/store/sealdb"
)

// noteEvery is the time between two progress messages if the output is not a terminal.
const noteEvery = 10 * time.Second

// Secrets groups the commands about stored secrets. They show which keys in SECRETS_KEY the
// database needs, and encrypt all values again with the first key.
type Secrets struct {
	Status SecretsStatus `cmd:"" help:"Show how many stored values need each key in SECRETS_KEY, and which keys can be removed."`
	Reseal SecretsReseal `cmd:"" help:"Re-encrypt values stored under older keys with the first key in SECRETS_KEY, while the service runs."`
}

// sealedDatabase gives a command the database, and the keys for the encrypted values in it. The
// commands embed it, so its fields are options of each of them.
type sealedDatabase struct {
	config.Secrets
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" help:"The service's database, as a postgres:// URL; default: the database of the parley that runs with DATA_DIR."`
	DataDir     string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"Where parley up keeps its data."`
	JSON        bool   `name:"json" help:"Print JSON and no progress."`
}

// open opens the database and reads the keys. It reads missing settings from the data directory of
// a running parley. The caller must close the store.
func (s *sealedDatabase) open() (*store.Store, *secrets.Box, error) {
	key, dsn := s.SecretsKey, s.DatabaseURL
	if key == "" {
		path := filepath.Join(s.DataDir, "secrets.key")
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("SECRETS_KEY is not set, and the data directory has no key: %w", err)
		}
		key = string(raw)
	}

	box, err := secrets.NewBox(key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	if dsn == "" {
		if dsn, err = pgserver.RunningDSN(filepath.Join(s.DataDir, "postgres"), databaseName); err != nil {
			return nil, nil, err
		}
	}

	st, err := store.Open(dsn, 2)
	return st, box, err
}

// SecretsStatus is the command that shows which values need each key.
type SecretsStatus struct{ sealedDatabase }

// Help returns the description for the manual page of the command.
func (*SecretsStatus) Help() string {
	return `Counts the stored values that each key encrypts: secrets of agents' tools (tool, and tool_version for each version of an agent), of widgets, hooks and notification endpoints, and with ENCRYPT_CONTENTS the bodies of deliveries and the contents of documents and files, in chunks of 1 MiB (content). A key is identified by its ID, the first digits of a hash, and by its position in SECRETS_KEY. An old key that no value needs can be removed.

Running processes of the service publish the IDs of their keys in the database. The exit status is 1 if values need a key that is not in SECRETS_KEY, if a running process encrypts with such a key, or if a running process lacks the first key of SECRETS_KEY. The command needs the database and SECRETS_KEY, not the service.`
}

// Examples returns the examples on the manual page of the command.
func (*SecretsStatus) Examples() string {
	return `parley secrets status
export SECRETS_KEY=new,old DATABASE_URL=postgres://parley@db/parley
parley secrets status --json`
}

// Run prints how many values each key encrypts. It changes nothing. The errors that determine the
// exit status come after the output.
func (s *SecretsStatus) Run(ctx context.Context, con *console.Console) error {
	st, box, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // an error has no effect, because the process ends

	keys, err := countSealed(ctx, con, st, box, s.JSON)
	if err != nil {
		return err
	}

	// The processes publish their keys, so a process with another SECRETS_KEY is found even if it
	// has written nothing.
	running, err := st.RunningKeys(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		err = con.JSON(map[string]any{"keys": keysView(keys), "running": running})
	} else {
		err = printKeys(con, keys)
	}
	return errors.Join(err, missingKeys(keys), checkRunningKeys(box.KeyIDs(), running))
}

// checkRunningKeys compares the keys of the service's running processes with this command's
// SECRETS_KEY. It returns an error if a process encrypts with a key that SECRETS_KEY lacks, or if a
// process lacks the first key of SECRETS_KEY.
func checkRunningKeys(own []string, running [][]string) error {
	var errs []error
	for _, theirs := range running {
		switch {
		case !slices.Contains(own, theirs[0]):
			errs = append(errs, fmt.Errorf("a running process encrypts with a key that is not in SECRETS_KEY (%s); "+
				"run this command with the SECRETS_KEY of the service", theirs[0]))
		case !slices.Contains(theirs, own[0]) && len(theirs) < pg.MaxRunningKeys:
			errs = append(errs, fmt.Errorf("a running process lacks the first key of SECRETS_KEY (%s) and has %s; "+
				"start it again with this SECRETS_KEY", own[0], strings.Join(theirs, ", ")))
		}
	}
	return errors.Join(errs...)
}

// countSealed counts the values that need each key, in the order of SECRETS_KEY. It reads all
// encrypted values, and shows progress unless quiet is true.
func countSealed(ctx context.Context, con *console.Console, st *store.Store, box *secrets.Box, quiet bool) ([]sealed.Key, error) {
	progress := con.Progress(quiet, "counting")
	defer progress.Done()
	return sealed.Count(ctx, st.Seals, box, func(read int) { progress.Sayf("counting: %d values", read) })
}

// SecretsReseal is the command that encrypts all values again with the first key.
type SecretsReseal struct{ sealedDatabase }

// Help returns the description for the manual page of the command.
func (*SecretsReseal) Help() string {
	return `Decrypts each value stored under an older key and encrypts it with the first key in SECRETS_KEY. The service may run, and concurrent changes are kept. Each batch is a separate transaction: the command can be stopped at any time, and continues when it is started again. A value that no key decrypts is reported and unchanged, and the exit status is 1. At the end the command prints the output of parley secrets status.

First add the new key as the first key of SECRETS_KEY in every process of the service, and restart it. A process without the new key cannot decrypt resealed values. A process whose first key is the old key still encrypts new values with it.`
}

// Examples returns the examples on the manual page of the command.
func (*SecretsReseal) Examples() string {
	return `export SECRETS_KEY=new,old DATABASE_URL=postgres://parley@db/parley
parley secrets reseal`
}

// Run encrypts the values again, and prints which keys are still needed. Each batch is committed,
// so an interrupted command loses no work. Run counts the values that cannot be decrypted or that
// are locked, and leaves them unchanged. If there are such values, Run returns an error.
func (s *SecretsReseal) Run(ctx context.Context, con *console.Console) error {
	st, box, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // an error has no effect, because the process ends

	outcome, err := resealAll(ctx, con, st, box, s.JSON)
	if err != nil {
		return fmt.Errorf("stopped after resealing %d values; run the command again to continue: %w", outcome.Resealed, err)
	}

	keys, err := countSealed(ctx, con, st, box, s.JSON)
	if err != nil {
		return err
	}
	if s.JSON {
		err = con.JSON(map[string]any{
			"resealed": outcome.Resealed, "unopened": outcome.Unopened, "busy": outcome.Busy, "keys": keysView(keys),
		})
	} else {
		err = errors.Join(con.Printf("%d values resealed\n\n", outcome.Resealed), printKeys(con, keys))
	}

	switch {
	case err != nil:
		return err
	case outcome.Unopened > 0:
		err := fmt.Errorf("%d values cannot be decrypted with the keys in SECRETS_KEY and are unchanged", outcome.Unopened)
		return errors.Join(err, missingKeys(keys))
	case outcome.Busy > 0:
		return fmt.Errorf("%d values were locked by other transactions; run the command again", outcome.Busy)
	}
	return missingKeys(keys)
}

// resealAll encrypts all values again and shows progress unless quiet is true. On an error, the
// outcome describes the work done before it.
func resealAll(ctx context.Context, con *console.Console, st *store.Store, box *secrets.Box, quiet bool) (sealed.Outcome, error) {
	progress := con.Progress(quiet, "resealing")
	defer progress.Done()
	noted := time.Now()
	return sealed.Reseal(ctx, st.Seals, box, func(v sealdb.Value) {
		con.Notef("cannot decrypt %s (key %s)", v, v.Keys)
	}, func(o sealed.Outcome) {
		progress.Sayf("resealing: %d values", o.Resealed)
		if !quiet && !con.Watched() && time.Since(noted) > noteEvery {
			noted = time.Now()
			con.Notef("resealed %d values so far", o.Resealed)
		}
	})
}

// keyView is a key in the JSON output of the commands.
type keyView struct {
	ID        string              `json:"id"`
	Position  int                 `json:"place,omitempty"` // position of the key in SECRETS_KEY, from 1
	State     sealed.State        `json:"state"`
	Values    map[sealdb.Kind]int `json:"values"`
	Total     int                 `json:"total"`
	Removable bool                `json:"removable"`
}

// keysView converts keys to their JSON form. keys must be in the order of SECRETS_KEY, with missing
// keys at the end.
func keysView(keys []sealed.Key) []keyView {
	out := make([]keyView, len(keys))
	for n, key := range keys {
		out[n] = keyView{ID: key.ID, State: key.State, Values: key.Values, Total: key.Total(), Removable: key.Removable()}
		if key.State != sealed.Missing {
			out[n].Position = n + 1
		}
	}
	return out
}

// printKeys prints a table with a row for each key.
func printKeys(con *console.Console, keys []sealed.Key) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tPOSITION\tSTATE\tVALUES\tREMOVABLE\tNEEDED BY") // writing to a strings.Builder never fails
	for _, view := range keysView(keys) {
		var needed []string
		for _, kind := range sealdb.Kinds {
			if n := view.Values[kind]; n > 0 {
				needed = append(needed, fmt.Sprintf("%s %d", kind, n))
			}
		}
		position, removable := "-", "no"
		if view.Position > 0 {
			position = fmt.Sprint(view.Position)
		}
		if view.Removable {
			removable = "yes"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", view.ID, position, view.State, view.Total, removable, strings.Join(needed, ", "))
	}

	_ = table.Flush()
	for line := range strings.Lines(text.String()) {
		if err := con.Printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// missingKeys returns an error if values need a key that is not in SECRETS_KEY. The error names the
// keys and the remedy.
func missingKeys(keys []sealed.Key) error {
	var ids []string
	values := 0
	for _, key := range keys {
		if key.State == sealed.Missing {
			ids = append(ids, key.ID)
			values += key.Total()
		}
	}

	if len(ids) == 0 {
		return nil
	}

	return fmt.Errorf("%d values need a key that SECRETS_KEY does not have (%s); add it after the first key, then run parley secrets reseal",
		values, strings.Join(ids, ", "))
}
