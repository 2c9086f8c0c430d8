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

// privateSettings returns settings for a PostgreSQL server that many tests use. Its data may be
// lost in a crash.
func privateSettings() map[string]string {
	return map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
		"max_connections": "400", "shared_buffers": "64MB",
	}
}

// copyCluster copies a data directory into dir before a server is started there. The data directory
// contains Parley's roles, the migrated database parleyDatabase and the template for the tests'
// databases. Creating it takes seconds of CPU time, so it is created once per machine, schema and
// PostgreSQL version, and kept in the user's cache.
func copyCluster(ctx context.Context, dir string) error {
	made, err := cachedCluster()
	if err != nil {
		return err
	}
	// The copy keeps owners and modes, because the files belong to PostgreSQL's account.
	output, err := exec.CommandContext(ctx, "cp", "-a", made, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying database cluster: %w: %s", err, output)
	}
	return nil
}

// cachedCluster returns the path of the data directory that copyCluster copies. It creates the
// directory if it is missing.
var cachedCluster = sync.OnceValues(func() (path string, err error) {
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
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", schema, binaries.Version, os.Geteuid()))
	dir := filepath.Join(cache, "cluster-"+hex.EncodeToString(key[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: PostgreSQL's account must enter it
		return "", fmt.Errorf("creating cache: %w", err)
	}
	lock, err := awaitLock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	path = filepath.Join(dir, "done")
	if Used(path) {
		return path, nil
	}
	dropClusters(cache)
	return path, makeCluster(ctx, dir, path)
})

// dropClusters removes the cached clusters of other schemas that have not been used for days. It
// ignores errors.
func dropClusters(cache string) {
	made, _ := filepath.Glob(filepath.Join(cache, "cluster-*")) // Glob fails only for malformed patterns, and this one is valid
	for _, dir := range made {
		if info, err := os.Stat(filepath.Join(dir, "done")); err == nil && time.Since(info.ModTime()) > 48*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

// makeCluster creates the cluster below dir and renames it to final, so that an existing cluster is
// always complete.
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
		return fmt.Errorf("saving database cluster: %w", err)
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
