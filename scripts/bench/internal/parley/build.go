package parley

import (
	"context"
	_ "embed" // for profile.go.txt
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries contains the paths of Parley's two programs.
type Binaries struct {
	Ingress, Worker string
}

// programs are the packages of Parley's two programs.
var programs = []string{"parley/ingress/cmd/ingress", "parley/workers/cmd/worker"}

// profileSource is the source of a file that is added to package main if profiling is requested.
// Released programs do not contain it.
//
//go:embed profile.go.txt
var profileSource []byte

const profilesVariable = "BENCH_PROFILES" // variable with the address on which the programs serve profiles; profile.go.txt reads it

// Build builds both programs from this repository's modules into dir. If profile is true, the
// programs serve profiles over HTTP.
func Build(ctx context.Context, dir string, profile bool) (Binaries, error) {
	args := []string{"build", "-buildvcs=false", "-o", dir + string(filepath.Separator)}
	if profile {
		overlay, err := addProfile(ctx, dir)
		if err != nil {
			return Binaries{}, err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, programs...)...)
	if complaint, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("building ingress and worker: %w\n%s", err, complaint)
	}
	return Binaries{Ingress: filepath.Join(dir, "ingress"), Worker: filepath.Join(dir, "worker")}, nil
}

// addProfile writes an overlay for "go build -overlay" that adds profile.go.txt to both programs,
// and returns the overlay's path.
func addProfile(ctx context.Context, dir string) (overlay string, err error) {
	source := filepath.Join(dir, "profile.go")
	replaced := map[string]string{}
	for _, program := range programs {
		pkg, err := Directory(ctx, program)
		if err != nil {
			return "", err
		}
		replaced[filepath.Join(pkg, "bench_profile.go")] = source
	}

	overlay = filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err == nil {
		err = errors.Join(os.WriteFile(source, profileSource, 0o600), os.WriteFile(overlay, raw, 0o600))
	}
	if err != nil {
		return "", fmt.Errorf("preparing profile: %w", err)
	}
	return overlay, nil
}

// Directory returns the directory of one of the repository's packages.
func Directory(ctx context.Context, pkg string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg)
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking for package %s: %w", pkg, err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// profileCPU writes CPU profiles of ten seconds one after another until the process or ctx ends, in
// the files name-1.pprof, name-2.pprof and so on. The command pprof can merge them.
func (p *Parley) profileCPU(ctx context.Context, name, address string) {
	for n := 1; ; n++ {
		if err := p.saveProfile(ctx, "profile?seconds=10", address, fmt.Sprintf("%s-%d", name, n)); err != nil {
			return
		}
	}
}

// WriteProfiles writes heap and goroutine profiles of the processes that serve profiles.
func (p *Parley) WriteProfiles(ctx context.Context) error {
	for _, running := range p.Processes() {
		for _, kind := range []string{"heap", "goroutine"} {
			if err := p.saveProfile(ctx, kind+"?gc=1", p.profiles[running.Name], running.Name+"-"+kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveProfile reads a profile of the process at an address and writes it to the file name.pprof.
func (p *Parley) saveProfile(ctx context.Context, kind, address, name string) error {
	profile, err := Ask(ctx, http.MethodGet, "http://"+address+"/debug/pprof/"+kind, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.config.ProfilesDir, name+".pprof"), profile, 0o600); err != nil {
		return fmt.Errorf("writing profile: %w", err)
	}
	return nil
}
