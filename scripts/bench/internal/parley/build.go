package parley

import (
	"context"
	_ "embed" // embeds profile.go.txt
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Binaries are the paths of the two programs.
type Binaries struct {
	Ingress, Worker string
}

// mains are the modules and the commands in them.
var mains = []struct{ module, command string }{
	{"parley/ingress", "ingress"},
	{"parley/workers", "worker"},
}

// profileSource is a file that is added to package main only for profiling. Released programs do not
// contain it.
//
//go:embed profile.go.txt
var profileSource []byte

const (
	profilesVariable = "BENCH_PROFILES" // a directory; profile.go.txt reads it
	profileTimeout   = 10 * time.Second
)

// Build builds both programs from this repository's modules into dir. With profile they can write profiles.
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

// addProfile writes an overlay that adds profile.go.txt to the package.
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

// WriteProfiles makes processes built with profiles write CPU, heap and goroutine profiles and the
// runtime's memory statistics to the configuration's directory.
func (p *Parley) WriteProfiles(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()

	for _, process := range p.Processes() {
		last := filepath.Join(p.config.ProfilesDir, process.Name+"-memory.json")
		if err := os.Remove(last); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old profile: %w", err)
		}
		if err := process.Signal(syscall.SIGUSR1); err != nil {
			return fmt.Errorf("requesting profile of %s: %w", process.Name, err)
		}
		err := process.Await(ctx, func(context.Context) bool {
			_, err := os.Stat(last)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
