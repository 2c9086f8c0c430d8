package testkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// CutFiles truncates files below a directory, as a crash might. The argument name is a pattern that
// the names of these files match. If half is true, it keeps the first half of each file. Otherwise
// it leaves each file empty. It returns the number of truncated files.
func CutFiles(tb testing.TB, dir, name string, half bool) (files int) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if matches, _ := filepath.Match(name, entry.Name()); err != nil || entry.IsDir() || !matches {
			return err
		}

		info, err := entry.Info()
		if err != nil || info.Size() == 0 {
			return err
		}

		files++
		size := int64(0)
		if half {
			size = info.Size() / 2
		}

		return os.Truncate(path, size)
	})
	if err != nil {
		tb.Fatal(err)
	}

	return files
}
