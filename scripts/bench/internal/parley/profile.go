package parley

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"parley/scripts/bench/internal/load"
)

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
	profile, err := load.Request{Method: "GET", Path: "/debug/pprof/" + kind}.Read(ctx, "http://"+address)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.config.ProfilesDir, name+".pprof"), profile, 0o600); err != nil {
		return fmt.Errorf("writing profile: %w", err)
	}
	return nil
}
