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

// tool is runsc, and what starts it.
type tool struct {
	path    string
	unshare string
	options []string // what this version is told in each run
	root    bool     // it may make namespaces without one of users
}

// option finds the names of options, and the text of each, in what runsc says about itself.
var option = regexp.MustCompile(`(?m)^ +-([A-Za-z0-9_-]+)( .*)?\n([^\n]*)`)

// findTool finds the programs, and out which options this runsc knows: versions differ.
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
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	ask := exec.CommandContext(ctx, t.path, "flags") //nolint:gosec // G204: the operator's own setting
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

// choose gives the options for a version of runsc. Those without which it would isolate less must be known.
func choose(known map[string]string, root bool) ([]string, error) {
	platform := "ptrace"
	if strings.Contains(known["platform"], "systrap") {
		platform = "systrap"
	}
	options := []string{
		"-platform=" + platform,
		"-network=none",
		"-oci-seccomp",
		"-ignore-cgroups", // ours are around all of it
		"-overlay2=none",  // nothing but tmpfs may be written to, so there is nothing to lay over
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
	for _, o := range []string{
		"-directfs=false",               // the sentry opens nothing of the host's; the gofer does
		"-host-uds=none",                // already so where it is not said, as is the next
		"-host-fifo=none",               //
		"-file-access-mounts=exclusive", // what is mounted is read-only: nothing to look for again at each use
		"-host-settings=ignore",         // it advises, on standard error
	} {
		if _, is := known[optionName(o)]; is {
			options = append(options, o)
		}
	}
	return options, nil
}

func optionName(o string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(o, "-"), "=")
	return name
}

// command is what starts a sandbox. unshare makes runsc the first process of a PID namespace, with its own view of mounts: newer
// versions mount something in their folder and leave it there.
func (t tool) command(name, dir string) []string {
	args := []string{t.unshare, "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--propagation", "private"}
	if !t.root {
		args = append(args, "--user", "--map-root-user")
	}
	args = append(args, "--", t.path)
	args = append(args, t.options...)
	return append(args, "-root="+filepath.Join(dir, stateDir), "run", "-bundle="+dir, name)
}
