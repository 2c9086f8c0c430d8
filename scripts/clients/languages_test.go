package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/lib/pq"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// js runs a block's program on Node with the tests' npm packages and the packaged TypeScript SDK.
func (r *reader) js(t *testing.T, b fenced.Block) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(r.dir, "node_modules")); err != nil {
		if err := os.Symlink(r.testEnv.packages(t), filepath.Join(r.dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	if r.keep(t, b) {
		return
	}
	r.save(t, "block.mjs", []byte(r.text(b)))
	r.run(t, b.String(), needsNode(t), "block.mjs")
}

// packages returns a directory with the tests' npm packages and the TypeScript SDK.
func (s *testEnv) packages(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.npmInstall(t), "node_modules")
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "parley-sdk")); err != nil {
		unpackTypeScript(t, filepath.Join(dir, "parley-sdk"))
	}
	return dir
}

// python runs a block's program with the packaged Python SDK.
func (r *reader) python(t *testing.T, b fenced.Block) {
	t.Helper()
	if r.interpreter == "" {
		r.interpreter = r.testEnv.environment(t)
		call := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", quoted(r.interpreter)) // becomes `python3` in the reader's shell
		if err := os.WriteFile(filepath.Join(r.dir, "bin", "python3"), []byte(call), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if r.keep(t, b) {
		return
	}

	r.save(t, "block.py", []byte(r.text(b)))
	r.run(t, b.String(), r.interpreter, "block.py")
}

// golang runs a block's program inside this Go module, so that the program can import the module's
// dependencies.
func (r *reader) golang(t *testing.T, b fenced.Block) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(name, []byte(r.text(b)), 0o600); err != nil {
		t.Fatal(err)
	}
	const plain = "-ldflags=-s -w" // halves the time for linking
	got := execute(t, filepath.Join(r.root, "scripts"), r.env, "go", "run", plain, name)
	if got.code != 0 {
		t.Fatalf("%s ended with %d\n%s%s", b, got.code, got.stdout, got.stderr)
	}
}

// The pattern schedules matches the part of a crontab line that precedes the command. The pattern
// settings matches a crontab line that sets a variable.
var (
	schedules = regexp.MustCompile(`^(@\w+|([\d*/,-]+\s+){4}[\w*/,-]+)\s+`)
	settings  = regexp.MustCompile(`^\w+=`)
)

// cron runs the command of each crontab line with sh, as cron does. Percent signs in a command must
// be escaped with a backslash.
func (r *reader) cron(t *testing.T, b fenced.Block) {
	t.Helper()
	for line := range strings.Lines(r.text(b)) {
		line = strings.TrimSpace(line)
		when := schedules.FindString(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), settings.MatchString(line):
			continue // the reader's environment already has the variables
		case when == "":
			t.Errorf("%s: %q is not a crontab line", b, line)
			continue
		}
		command := line[len(when):]
		if regexp.MustCompile(`(^|[^\\])%`).MatchString(command) {
			t.Errorf("%s: cron treats a percent sign without a backslash as a line end: %s", b, command)
		}
		command = strings.ReplaceAll(command, `\%`, "%")
		r.ran += command
		r.run(t, b.String(), "sh", "-euc", command)
	}
}

// sql runs a block's statements as the superuser of the reader's PostgreSQL server. Before that, it
// creates the roles that the documents require.
func (r *reader) sql(t *testing.T, b fenced.Block) {
	t.Helper()
	if r.database == nil {
		r.database = testkit.SQL(t, testkit.PostgresProcess(t).DSN())
		if _, err := r.database.ExecContext(t.Context(), "CREATE ROLE parley_service; CREATE ROLE the_owner"); err != nil { // roles named in documents
			t.Fatal(err)
		}
	}

	for statement := range strings.SplitSeq(b.Text, ";\n") {
		_, err := r.database.ExecContext(t.Context(), statement)
		var refused *pq.Error
		if err != nil && (!errors.As(err, &refused) || refused.Code != "42710") {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// html accepts an HTML block without a test, because scripts/browser tests these blocks.
func (r *reader) html(t *testing.T, b fenced.Block) {
	t.Helper()
	if !strings.Contains(b.Text, "<script") {
		t.Errorf("%s: contains no script, so no test runs it", b)
	}
}

// goSettings returns the Go settings whose defaults depend on HOME. Programs of a reader need these
// settings, because they run with another HOME.
var goSettings = sync.OnceValues(func() ([]string, error) {
	names := []string{"GOMODCACHE", "GOCACHE", "GOPATH"}
	out, err := exec.CommandContext(context.Background(), "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("asking Go for its settings: %w", err)
	}
	values := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(values) != len(names) {
		return nil, fmt.Errorf("Go's settings = %q, want one for each name", values)
	}
	for i, name := range names {
		values[i] = name + "=" + values[i]
	}
	return values, nil
})
