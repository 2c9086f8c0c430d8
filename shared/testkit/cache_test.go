package testkit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestCacheDir checks that a process removes the entries of the cache that were not used for 30
// days, and keeps entries whose use or whose files are newer.
func TestCacheDir(t *testing.T) { // it sets the environment, so it is not parallel
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "parley-test")
	old, recent := time.Now().Add(-cacheKeeps-time.Hour), time.Now().Add(-cacheKeeps+time.Hour)
	for path, used := range map[string]time.Time{
		"pdf-old": old, "pdf-used": old, "pdf-new": recent, "npm-old/a/b": old, "npm-new/a": old, "cluster/done": recent,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	for path, used := range map[string]time.Time{"npm-old/a": old, "npm-old": old, "npm-new": recent, "cluster": old} {
		if err := os.Chtimes(filepath.Join(dir, path), used, used); err != nil {
			t.Fatal(err)
		}
	}
	if !Used(filepath.Join(dir, "pdf-used")) || Used(filepath.Join(dir, "pdf-missing")) {
		t.Error("Used does not report which entries exist")
	}

	if got, err := CacheDir(); got != dir || err != nil {
		t.Fatalf("CacheDir() = %s, %v; want %s", got, err, dir)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if want := []string{"cluster", "npm-new", "pdf-new", "pdf-used"}; !slices.Equal(left, want) {
		t.Errorf("entries = %v, want %v", left, want)
	}
}
