package standalone

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/deploy/standalone/internal/console"
)

func TestResetDeletesAfterConfirmation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reset  Reset
		answer string
		wrong  error
		says   string
	}{
		"yes":             {Reset{}, "yes\n", nil, "deleted "},
		"no":              {Reset{}, "no\n", errDeclined, "Type yes: "},
		"nothing":         {Reset{}, "", errDeclined, "Type yes: "},
		"half a word":     {Reset{}, "yes", errDeclined, ""},
		"not asked":       {Reset{Yes: true}, "", nil, "deleted "},
		"confirmed, JSON": {Reset{Yes: true, JSON: true}, "", nil, `{"deleted":"`},
		"JSON, no --yes":  {Reset{JSON: true}, "yes\n", errDeclined, ""},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		lock, err := lockData(dir)
		if err != nil {
			t.Fatal(err)
		}
		c.reset.DataDir = dir
		con := &console.Console{In: strings.NewReader(c.answer), Out: new(bytes.Buffer)}
		if err := c.reset.Run(t.Context(), con); err == nil || errors.Is(err, errDeclined) {
			t.Errorf("%s: data was deleted while parley was running: %v", name, err)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		con = &console.Console{In: strings.NewReader(c.answer), Out: &out}
		err = c.reset.Run(t.Context(), con)
		_, there := os.Stat(dir)
		if !errors.Is(err, c.wrong) || (there == nil) != (c.wrong != nil) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: error %v, the directory's status %v, output %q", name, err, there, out.String())
		}
	}

	other := Reset{DataDir: t.TempDir(), Yes: true}
	if err := other.Run(t.Context(), &console.Console{}); !errors.Is(err, errNoData) {
		t.Errorf("deleted a directory that is not a data directory: %v", err)
	}
}

// TestResetOfAnotherUsersData checks that the error names the cause if the process may not enter the
// data directory.
func TestResetOfAnotherUsersData(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may enter every directory")
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	reset := Reset{DataDir: dir, Yes: true}
	if err := reset.Run(t.Context(), &console.Console{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want that of a directory without permission", err)
	}
}
