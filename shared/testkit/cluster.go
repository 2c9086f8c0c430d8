package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/migrations"
	"parley/shared/store/pgserver"
)

// privateSettings are those of a server whose data need not outlive the machine, for many tests at once.
func privateSettings() map[string]string {
	return map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
		"max_connections": "400", "shared_buffers": "64MB",
	}
}

// copyCluster puts a data directory into dir, before a server is started there: one with Parley's roles, the migrated
// database parleyDatabase and the template that tests' databases are copied from. To make it takes seconds of a core, so it is
// made once on a machine for each schema and each PostgreSQL, and kept in the user's cache.
func copyCluster(ctx context.Context, dir string) error {
	made, err := madeCluster()
	if err != nil {
		return err
	}
	// Owners and modes are kept: the files belong to the account that PostgreSQL runs as.
	output, err := exec.CommandContext(ctx, "cp", "-a", made, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying database cluster: %w: %s", err, output)
	}
	return nil
}

// madeCluster gives the path of what is copied.
var madeCluster = sync.OnceValues(func() (path string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpWithin)
	defer cancel()
	binaries, err := pgserver.Find(ctx)
	if err != nil {
		return "", err
	}
	schema, err := migrations.Digest()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", schema, binaries.Version, os.Geteuid()))
	dir := filepath.Join(cache, "cluster-"+hex.EncodeToString(key[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: PostgreSQL's account goes through it
		return "", fmt.Errorf("making cache: %w", err)
	}
	lock, err := awaitLock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	path = filepath.Join(dir, "done")
	if os.Chtimes(path, time.Time{}, time.Now()) == nil { // it is there, and is used
		return path, nil
	}
	dropClusters(cache)
	return path, makeCluster(ctx, dir, path)
})

// dropClusters removes what other schemas have left: what was not used for days, nobody copies just now. What cannot be removed stays.
func dropClusters(cache string) {
	made, _ := filepath.Glob(filepath.Join(cache, "cluster-*")) // the pattern is good
	for _, dir := range made {
		if info, err := os.Stat(filepath.Join(dir, "done")); err == nil && time.Since(info.ModTime()) > 48*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

// makeCluster makes it below dir, and moves it to its place when all is done: what is there is whole.
func makeCluster(ctx context.Context, dir, final string) (err error) {
	draft, err := os.MkdirTemp(dir, "draft-")
	if err != nil {
		return fmt.Errorf("creating directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: draft, Log: zerolog.Nop(), Settings: privateSettings()})
	if err != nil {
		return err
	}
	err = fillCluster(ctx, server)
	if err := errors.Join(err, server.Stop(ctx)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(draft, "data"), final); err != nil {
		return fmt.Errorf("keeping database cluster: %w", err)
	}
	return nil
}

func fillCluster(ctx context.Context, server *pgserver.Server) error {
	if err := server.CreateDatabase(ctx, parleyDatabase); err != nil {
		return err
	}
	if err := migrateDatabase(ctx, server.DSN(parleyDatabase)); err != nil {
		return err
	}
	databases, err := newDatabases(ctx, server.DSN("postgres"), server.DSN)
	if err != nil {
		return err
	}
	return databases.admin.Close()
}

// cacheDir is what test processes of this user share, also with later ones.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home: a cache that lives as long as the machine
	}
	dir := filepath.Join(cache, "parley-test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making cache: %w", err)
	}
	return dir, nil
}
