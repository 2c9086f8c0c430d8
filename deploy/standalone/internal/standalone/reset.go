package standalone

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Reset deletes the data directory.
type Reset struct {
	DataDir string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"The directory to delete."`
	Yes     bool   `name:"yes" short:"y" help:"Do not ask."`
}

// Run deletes the directory unless a running parley uses it or the answer is not yes.
func (r *Reset) Run() error {
	if _, err := os.Stat(filepath.Join(r.DataDir, lockName)); err != nil {
		return fmt.Errorf("%w: %s", errNoData, r.DataDir)
	}
	lock, err := lockData(r.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the file is gone with the directory
	if !r.Yes && !confirmed(r.DataDir) {
		fmt.Println("nothing was deleted")
		return nil
	}
	if err := os.RemoveAll(r.DataDir); err != nil {
		return fmt.Errorf("deleting data directory: %w", err)
	}
	fmt.Println("deleted", r.DataDir)
	return nil
}

func confirmed(dir string) bool {
	fmt.Printf("Delete %s with all organizations, agents, runs and keys in it? Type yes: ", dir)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err == nil && strings.TrimSpace(answer) == "yes"
}
