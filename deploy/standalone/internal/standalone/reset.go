package standalone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/deploy/standalone/internal/console"
)

// Reset is the command that deletes the data directory.
type Reset struct {
	DataDir string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"The directory to delete."`
	Yes     bool   `name:"yes" short:"y" help:"Delete without asking for confirmation."`
	JSON    bool   `name:"json" help:"Print JSON; needs --yes."`
}

// Help returns the description for the manual page of the command.
func (*Reset) Help() string {
	return `Deletes the directory with all organizations, agents, documents, runs and keys in it. A directory that parley did not create, or that a running parley uses, is not deleted. The command fails if the answer to its question is not yes.`
}

// Examples returns the examples on the manual page of the command.
func (*Reset) Examples() string {
	return `parley reset
parley reset --yes --data-dir /tmp/trial`
}

// errDeclined means that the user did not confirm the deletion.
var errDeclined = errors.New("nothing was deleted")

// Run deletes the data directory after a confirmation. It returns an error if a running parley uses
// the directory, and errNoData if parley did not create the directory. The lock is held while the
// files are deleted, so no parley can start in between.
func (r *Reset) Run(ctx context.Context, con *console.Console) error {
	if _, err := os.Stat(filepath.Join(r.DataDir, lockName)); errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("finding the data directory: %w", err)
	} else if err != nil {
		return fmt.Errorf("%w: %s", errNoData, r.DataDir)
	}

	lock, err := lockData(r.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the lock file is deleted with the directory
	if !r.Yes && (r.JSON || !r.confirmed(ctx, con)) {
		return errDeclined
	}
	if err := os.RemoveAll(r.DataDir); err != nil {
		return fmt.Errorf("deleting data directory: %w", err)
	}
	if r.JSON {
		return con.JSON(map[string]string{"deleted": r.DataDir})
	}
	return con.Printf("deleted %s\n", r.DataDir)
}

// confirmed asks the user for a confirmation. It returns false for any answer other than yes, and
// after a signal.
func (r *Reset) confirmed(ctx context.Context, con *console.Console) bool {
	_ = con.Printf("Delete %s with all organizations, agents, runs and keys in it? Type yes: ", r.DataDir) // no answer means no
	answers := make(chan string, 1)
	go func() { // a read cannot be canceled, so the goroutine ends with the process
		answer, err := bufio.NewReader(con.In).ReadString('\n')
		if err != nil {
			answer = ""
		}
		answers <- answer
	}()

	select {
	case answer := <-answers:
		return strings.TrimSpace(answer) == "yes"
	case <-ctx.Done():
		return false
	}
}
