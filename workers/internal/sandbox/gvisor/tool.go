package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"parley/workers/internal/sandbox/host"
)

// tool is the command that starts runsc. It is determined when the backend is opened and then not
// changed.
type tool struct {
	// path and unshare are the absolute paths of the two programs.
	path    string
	unshare string
	options []string // options for this version
	root    bool     // this process may create the namespaces as root, without a user namespace
}

// option matches the name and the description of each option in runsc's help.
var option = regexp.MustCompile(`(?m)^ +-([A-Za-z0-9_-]+)( .*)?\n([^\n]*)`)

// findTool finds unshare and runsc, and the options that this version of runsc supports. path is
// the configured path, or "" for $RUNSC or the search path. Errors name the package to install.
func findTool(path string) (t tool, err error) {
	if path == "" {
		path = os.Getenv("RUNSC")
	}
	if path == "" {
		path = "runsc"
	}
	if t.path, err = exec.LookPath(path); err != nil {
		return t, fmt.Errorf("%s not found: install the package runsc, or set RUNSC to its path", path)
	}
	if t.path, err = filepath.Abs(t.path); err != nil {
		return t, fmt.Errorf("finding runsc: %w", err)
	}
	if t.unshare, err = exec.LookPath("unshare"); err != nil {
		return t, errors.New("unshare not found: install the package util-linux")
	}

	// Versions of runsc have different options and reject unknown ones, so runsc itself is asked
	// for its options.
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	ask := exec.CommandContext(ctx, t.path, "flags") //nolint:gosec // G204: the path comes from the operator's settings
	ask.Env = []string{}
	said, err := ask.CombinedOutput()

	known := make(map[string]string)
	for _, m := range option.FindAllSubmatch(said, -1) {
		known[string(m[1])] = string(m[3])
	}
	if len(known) == 0 {
		return t, fmt.Errorf("cannot read the options of %s (%w): %s", t.path, err, bytes.TrimSpace(said[:min(len(said), 200)]))
	}

	t.root = host.MayNamespace()
	t.options, err = choose(known, t.root)
	return t, err
}

// choose returns the options with which this version of runsc is started. known contains the
// options that the version supports. root is true if no user namespace is needed. choose fails if
// the version lacks an option that isolation requires.
func choose(known map[string]string, root bool) ([]string, error) {
	platform := "ptrace"
	if strings.Contains(known["platform"], "systrap") {
		platform = "systrap"
	}

	// Isolation depends on these options, so choose rejects a version that lacks one of them.
	options := []string{
		"-platform=" + platform,
		"-network=none",
		"-oci-seccomp",
		"-ignore-cgroups", // runsc need not create cgroups, because this package's cgroups contain all processes of runsc
		"-overlay2=none",  // only tmpfs is writable, so no overlay is needed
		"-file-access=exclusive",
	}

	if !root {
		options = append(options, "-rootless")
	}
	for _, o := range options {
		if _, is := known[optionName(o)]; !is {
			return nil, fmt.Errorf("this runsc has no option -%s: it is older than 2022-12, or not part of gVisor", optionName(o))
		}
	}

	// Only some versions of runsc have the following options, which state explicitly what isolation
	// requires.
	for _, o := range []string{
		"-directfs=false",               // the gofer, and not the sentry, opens host files
		"-host-uds=none",                // the default value; the same applies to -host-fifo
		"-host-fifo=none",               //
		"-file-access-mounts=exclusive", // the mounts are read-only, so the files need not be checked for changes by the host
		"-host-settings=ignore",         // otherwise runsc prints advice to standard error
	} {
		if _, is := known[optionName(o)]; is {
			options = append(options, o)
		}
	}
	return options, nil
}

// optionName returns the name of an option without its dash and value.
func optionName(o string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(o, "-"), "=")
	return name
}

// command returns the command that starts the sandbox with the given name from the bundle in dir.
// unshare makes runsc the first process of a PID namespace. unshare also gives runsc its own mount
// namespace, because newer versions of runsc leave a mount in dir.
func (t tool) command(name, dir string) []string {
	args := []string{t.unshare, "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--propagation", "private"}
	if !t.root {
		args = append(args, "--user", "--map-root-user")
	}
	args = append(args, "--", t.path)
	args = append(args, t.options...)
	return append(args, "-root="+filepath.Join(dir, stateDir), "run", "-bundle="+dir, name)
}
