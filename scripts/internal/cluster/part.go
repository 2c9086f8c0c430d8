package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/testkit"
)

// Part is one of the cluster's processes or servers. It is restarted whenever it ends. Its methods
// may be called from any goroutine.
type Part struct {
	supervise.Part

	// Kind is the kind of the part, such as "agent". Its name is the kind and a number, as in "agent
	// 2".
	Kind string
	// URL is the base URL of an ingress through its proxy Front. Other parts have none.
	URL string
	// Front, DB and Bus are the process's fault proxies. Front proxies the clients of an ingress.
	// DB and Bus proxy the process's connections to PostgreSQL and NATS. Servers have no proxies.
	Front, DB, Bus *testkit.FaultProxy

	log string // path of the log file

	mu    sync.Mutex
	extra Extra
}

// Extra contains changes that apply to the next starts of a part.
type Extra struct {
	Path string   // path of another program; empty: the default program
	Env  []string // additional environment variables, as "KEY=value"
}

// Next sets the changes that apply to the next starts of the part.
func (p *Part) Next(extra Extra) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = extra
}

// runs sets the program that the part runs. Its output signals readiness with the text in the
// argument ready.
func (p *Part) runs(program childproc.Program, ready string) {
	program.Name, program.Log = p.Name, p.log
	p.Launch = func(ctx context.Context) (*supervise.Instance, error) {
		p.mu.Lock()
		extra := p.extra
		p.mu.Unlock()
		changed := program
		changed.Path = cmp.Or(extra.Path, program.Path)
		changed.Env = slices.Concat(os.Environ(), program.Env, extra.Env)
		return supervise.Process(ctx, changed, ready, 0)
	}
}

// output returns the output of all processes of the part, or nil if the log cannot be read.
func (p *Part) output() []byte {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return nil
	}
	return raw
}

// problem describes why the part is not ready, for error messages.
func (p *Part) problem() string {
	const limit = 2000
	output := p.output()
	return fmt.Sprintf("%s is not ready: %s\n%s", p.Name, p.History().LastFailure, output[max(0, len(output)-limit):])
}
