package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// cacheKeeps is the time after which an unused entry is removed from the cache.
const cacheKeeps = 30 * 24 * time.Hour

// swept contains the cache directories from which this process has removed unused entries.
var swept sync.Map

// CacheDir returns the cache directory that all test processes of this user share. Its first call
// in a process removes the entries that were not used for 30 days. A caller that reads an entry
// must record this with Used.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home directory: use a temporary cache
	}
	dir := filepath.Join(cache, "parley-test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating cache: %w", err)
	}
	if _, done := swept.LoadOrStore(dir, true); !done {
		dropUnused(dir, time.Now().Add(-cacheKeeps))
	}
	return dir, nil
}

// Used records that an entry of the cache is used now. It returns false if the entry does not
// exist.
func Used(path string) bool { return os.Chtimes(path, time.Time{}, time.Now()) == nil }

// dropUnused removes the entries of a cache that were last used before a time. It ignores errors,
// because another process may remove the same entries.
func dropUnused(cache string, before time.Time) {
	entries, _ := os.ReadDir(cache)
	for _, entry := range entries {
		path := filepath.Join(cache, entry.Name())
		if used, err := lastUse(path); err == nil && used.Before(before) {
			_ = os.RemoveAll(path)
		}
	}
}

// lastUse returns the latest time at which an entry, or a file in the entry's directory, was
// changed or its use was recorded.
func lastUse(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading cache: %w", err)
	}
	used := info.ModTime()
	if !info.IsDir() {
		return used, nil
	}

	inside, err := os.ReadDir(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading cache: %w", err)
	}
	for _, entry := range inside {
		if info, err := entry.Info(); err == nil && info.ModTime().After(used) {
			used = info.ModTime()
		}
	}
	return used, nil
}
