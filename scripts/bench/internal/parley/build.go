package parley

import (
	"context"
	_ "embed" // the text of a source file
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

// Binaries are the paths of the two mains.
type Binaries struct {
	Ingress, Worker string
}

// mains are the modules and the commands in them.
var mains = []struct{ module, command string }{
	{"parley/ingress", "ingress"},
	{"parley/workers", "worker"},
}

// profileSource is a file of package main that is added to the mains for a profile, and to nothing else: the mains that
// are shipped know no profiles.
//
//go:embed profile.go.txt
var profileSource []byte

const (
	profilesVariable = "BENCH_PROFILES" // a directory; profile.go.txt knows it, too
	profileWritten   = 10 * time.Second
)

// Build builds the mains from this repository's modules into dir; with profile they also write CPU profiles.
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

// addProfile writes an overlay that lets the compiler see profile.go.txt in the package.
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

// Module is the directory of one of the repository's modules.
func Module(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking for module %s: %w", path, err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// WriteProfiles makes processes built with a profile write those of their CPU time, and gives the files.
func (p *Parley) WriteProfiles(ctx context.Context) ([]string, error) {
	return p.profiles(ctx, syscall.SIGUSR1, ".pprof")
}

// WriteMemoryProfiles makes processes built with a profile write those of their heap and goroutines and what their
// runtime says of its memory, and gives the files.
func (p *Parley) WriteMemoryProfiles(ctx context.Context) ([]string, error) {
	return p.profiles(ctx, syscall.SIGUSR2, "-heap.pprof", "-goroutine.pprof", "-memory.json")
}

func (p *Parley) profiles(ctx context.Context, signal syscall.Signal, suffixes ...string) (files []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, profileWritten)
	defer cancel()
	for _, process := range p.Processes() {
		for _, suffix := range suffixes { // of an earlier bench
			if err := os.Remove(filepath.Join(p.config.ProfilesDir, process.Name+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("removing an old profile: %w", err)
			}
		}
		if err := process.Signal(signal); err != nil {
			return nil, fmt.Errorf("asking for profile of %s: %w", process.Name, err)
		}
		for _, suffix := range suffixes {
			file := filepath.Join(p.config.ProfilesDir, process.Name+suffix)
			err := process.Await(ctx, func(context.Context) bool {
				_, err := os.Stat(file)
				return err == nil
			})
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}
