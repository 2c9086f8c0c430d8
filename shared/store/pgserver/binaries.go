package pgserver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldestMajor is the oldest major version that the migrations support.
const oldestMajor = 14

// installCommand is the command that ErrNotInstalled suggests.
const installCommand = "apt-get install -y postgresql"

// binaryDirs lists the directories in which distributions install the server's binaries. These
// directories are not in PATH.
var binaryDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

// Binaries are the server programs of one PostgreSQL installation. All of them have been found and
// can be executed.
type Binaries struct {
	Postgres string // path of postgres
	Initdb   string // path of initdb
	Version  string // for example "15.18"
	Major    int    // for example 15
}

// Find returns the server in PATH or, if there is none, the newest server in the usual directories
// of distributions. Servers older than version 14 are ignored. If no server is found, Find returns
// ErrNotInstalled with the command that installs one.
func Find(ctx context.Context) (Binaries, error) {
	return find(ctx, os.Getenv("PATH"), binaryDirs, 0)
}

// find looks for a server of the given major version, in the directories of path and in the
// directories that match globs. If major is 0, find accepts any supported version.
func find(ctx context.Context, path string, globs []string, major int) (Binaries, error) {
	all := candidates(ctx, path, globs)
	for _, found := range all {
		if found.Major == major || major == 0 && found.Major >= oldestMajor {
			return found, nil
		}
	}
	var versions []string
	for _, found := range all {
		versions = append(versions, found.Version)
	}
	return Binaries{}, notInstalled(versions, major)
}

// notInstalled returns ErrNotInstalled with the versions that were found and the command that
// installs a suitable version.
func notInstalled(versions []string, major int) error {
	have := "none is installed"
	if len(versions) > 0 {
		have = "installed: " + strings.Join(versions, ", ")
	}
	if major != 0 {
		return fmt.Errorf("%w: the data was created by version %d, %s; install that version (on Debian and Ubuntu: %s-%d)",
			ErrNotInstalled, major, have, installCommand, major)
	}
	return fmt.Errorf("%w: version %d or newer is required, %s; install it (on Debian and Ubuntu: %s)",
		ErrNotInstalled, oldestMajor, have, installCommand)
}

// candidates lists installations: first the installations in PATH in its order, then all others,
// newest first.
func candidates(ctx context.Context, path string, globs []string) []Binaries {
	var inPath, elsewhere []Binaries
	for _, dir := range filepath.SplitList(path) {
		if found, ok := inspect(ctx, dir); ok {
			inPath = append(inPath, found)
		}
	}

	for _, glob := range globs {
		dirs, err := filepath.Glob(glob)
		if err != nil {
			continue // a malformed pattern; all are constants
		}
		for _, dir := range dirs {
			if found, ok := inspect(ctx, dir); ok {
				elsewhere = append(elsewhere, found)
			}
		}
	}

	slices.SortStableFunc(elsewhere, func(a, b Binaries) int { return cmp.Compare(b.Major, a.Major) })
	return append(inPath, elsewhere...)
}

// versionPattern finds the version and its major number in the output of `postgres --version`.
var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect reads the version of the server in dir. It returns false if dir contains no server that
// can run.
func inspect(ctx context.Context, dir string) (Binaries, bool) {
	if dir == "" {
		return Binaries{}, false
	}

	found := Binaries{Postgres: filepath.Join(dir, "postgres"), Initdb: filepath.Join(dir, "initdb")}
	for _, program := range []string{found.Postgres, found.Initdb} {
		info, err := os.Stat(program)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return Binaries{}, false
		}
	}

	// The program is executed, because only this shows whether its libraries are installed.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, found.Postgres, "--version").Output()
	if err != nil {
		return Binaries{}, false
	}

	match := versionPattern.FindSubmatch(output)
	if match == nil {
		return Binaries{}, false
	}

	found.Version = string(match[1])
	found.Major, err = strconv.Atoi(string(match[2]))
	return found, err == nil
}
