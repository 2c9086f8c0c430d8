package parley

import (
	"context"
	_ "embed" // for profile.go.txt
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries contains the paths of Parley's two programs.
type Binaries struct {
	Ingress, Worker string
}

// mains lists Parley's modules, each with the path of the command to build in it.
var mains = []struct{ module, command string }{
	{"parley/ingress", "ingress"},
	{"parley/workers", "worker"},
}

// profileSource is the source of a file that is added to package main if profiling is requested.
// Released programs do not contain it.
//
//go:embed profile.go.txt
var profileSource []byte

const profilesVariable = "BENCH_PROFILES" // variable with the address on which the programs serve profiles; profile.go.txt reads it

// Build builds both programs from this repository's modules into dir. If profile is true, the
// programs serve profiles over HTTP.
func Build(ctx context.Context, dir string, profile bool) (Binaries, error) {
	for _, main := range mains {
		source, err := Module(ctx, main.module)
		if err != nil {
			return Binaries{}, err
		}
		args := []string{"build", "-buildvcs=false", "-o", filepath.Join(dir, main.command)}
		if profile {
			overlay, err := addProfile(dir, main.command, filepath.Join(source, "cmd", main.command))
			if err != nil {
				return Binaries{}, err
			}
			args = append(args, "-overlay", overlay)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+main.command)...)
		cmd.Dir = source
		if complaint, err := cmd.CombinedOutput(); err != nil {
			return Binaries{}, fmt.Errorf("building %s: %w\n%s", main.command, err, complaint)
		}
	}
	return Binaries{Ingress: filepath.Join(dir, "ingress"), Worker: filepath.Join(dir, "worker")}, nil
}

// addProfile writes an overlay for "go build -overlay" that adds profile.go.txt to the package, and
// returns the overlay's path.
func addProfile(dir, command, pkg string) (overlay string, err error) {
	source := filepath.Join(dir, "profile.go")
	overlay = filepath.Join(dir, command+"-overlay.json")
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(pkg, "bench_profile.go"): source}})
	if err == nil {
		err = errors.Join(os.WriteFile(source, profileSource, 0o600), os.WriteFile(overlay, raw, 0o600))
	}
	if err != nil {
		return "", fmt.Errorf("preparing profile: %w", err)
	}
	return overlay, nil
}

// Module returns the directory of one of the repository's modules.
func Module(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking for module %s: %w", path, err)
	}
	return strings.TrimSpace(string(raw)), nil
}
