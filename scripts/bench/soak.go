package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

// soak measures the memory of ingress and worker during the runs of a day, executed at full speed.
// Of twenty requests 16 are run-automation, one repeats the key of a finished run, two are turns of
// chats, and one is a chat whose events are read to the end.
type soak struct {
	Runs    int           `default:"86400" help:"Requests: as many as a day has seconds."`
	Agents  int           `default:"200" help:"Agents that the requests are for."`
	Clients int           `default:"32" help:"Clients, each with one request at a time."`
	Kept    time.Duration `default:"5s" help:"Time after which results expire and the sweeper deletes them."`
}

// Name is the name of the load.
func (*soak) Name() string { return "soak" }

// Measure compares the memory at the end with the memory after 30 % of the requests.
func (k *soak) Measure(ctx context.Context, s *loadEnv) error {
	p, dsn, err := s.parley(ctx, "parley", parley.Config{})
	if err != nil {
		return err
	}
	if err := p.RestartIngress(ctx); err != nil {
		return err
	}

	r := &soakRun{soak: k, parley: p, samples: map[string][]soakSample{}}
	for n := range k.Agents {
		agent, err := p.NewAgent(ctx, fmt.Sprintf("Echo %d", n), "offline/echo", nil)
		if err != nil {
			return err
		}
		r.agents = append(r.agents, agent)
	}

	if err := r.run(ctx, dsn); err != nil {
		return err
	}

	for _, running := range p.Processes() {
		early, late := r.medianNear(running.Name, 0.3), r.medianNear(running.Name, 1)
		s.add(running.Name, "MiB at the end, at 30 %", []float64{early}, []float64{late}, ratioAtMost(1.1))
	}
	return s.inspect(ctx, p, "parley")
}

// soakSample is the memory of a process after a number of requests.
type soakSample struct{ done, mib float64 }

type soakRun struct {
	*soak

	parley *parley.Parley
	agents []string
	done   atomic.Int64

	mu      sync.Mutex
	samples map[string][]soakSample // by process
}

// run sends all requests. Meanwhile results expire and samples are taken.
func (r *soakRun) run(ctx context.Context, dsn string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return fmt.Errorf("opening database: %w", err)
	}

	beside, stop := context.WithCancel(ctx)
	expired := make(chan error, 1)
	go func() { expired <- r.expire(beside, db) }()

	clients, inner := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range r.Clients {
		clients.Go(func() error {
			for n := int(next.Add(1)) - 1; n < r.Runs; n = int(next.Add(1)) - 1 {
				if err := r.ask(inner, r.request(n)); err != nil {
					return fmt.Errorf("request %d: %w", n, err)
				}
				if done := r.done.Add(1); done*100/int64(r.Runs) > (done-1)*100/int64(r.Runs) { // another percent is done
					if err := r.sample(done); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}

	err = clients.Wait()
	stop()
	return errors.Join(err, <-expired, db.Close())
}

// soakRequest is one request.
type soakRequest struct {
	load.Request

	message string
	stream  bool
}

// request returns the nth request. A key is repeated 498 requests later. By then its first run has
// finished, unless there are more concurrent clients.
func (r *soakRun) request(n int) soakRequest {
	const repeatAfter = 498
	out := soakRequest{message: fmt.Sprintf("message %d", n)}
	agent, key := r.agents[n%r.Agents], fmt.Sprintf("key-%d", n)
	switch kind := n % 20; {
	case kind == 0:
		out.stream = true
		out.Request = r.parley.Chat(agent, fmt.Sprintf("stream-%d", n), out.message, true)
	case kind <= 2: // a session of five turns
		out.Request = r.parley.Chat(r.agents[n/100%r.Agents], fmt.Sprintf("chat-%d-%d", n/100, kind), out.message, false)
	case kind == 3 && n > repeatAfter:
		return r.request(n - repeatAfter)
	default:
		out.Request = r.parley.Automation(agent, out.message, key)
	}
	return out
}

// ask sends a request and checks the answer.
func (r *soakRun) ask(ctx context.Context, q soakRequest) error {
	raw, err := q.Read(ctx, r.parley.Base())
	if err != nil {
		return errors.Join(err, r.parley.Err())
	}
	answer := string(raw)
	completed := strings.Contains(answer, `"status":"completed"`) && (!q.stream || strings.Contains(answer, "event: run.completed"))
	if !completed || !strings.Contains(answer, `"message":"echo: `+q.message+`"`) {
		return fmt.Errorf("the answer to %q is %s", q.message, answer)
	}
	return nil
}

// expire ages old results once a second so that they expire, because the setting's minimum is a
// day.
func (r *soakRun) expire(ctx context.Context, db *sql.DB) error {
	for lifecycle.Sleep(ctx, time.Second) == nil {
		_, err := db.ExecContext(ctx, `UPDATE runs SET sweep_after = now(), expires_at = now() - interval '1 millisecond'
			WHERE sweep_after > now() AND sweep_after < now() + retention * interval '1 second' - $1::float8 * interval '1 second' AND status IS NOT NULL`,
			r.Kept.Seconds())
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("making runs expire: %w", err)
		}
	}
	return nil
}

// sample reads the memory of each process.
func (r *soakRun) sample(done int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done*10/int64(r.Runs) > (done-1)*10/int64(r.Runs) {
		progressf("soak: %d of %d requests", done, r.Runs)
	}

	for _, p := range r.parley.Processes() {
		bytes, err := process.Memory(p.PID())
		if err != nil {
			return errors.Join(err, p.Err())
		}
		r.samples[p.Name] = append(r.samples[p.Name], soakSample{float64(done), float64(bytes) / (1 << 20)})
	}
	return nil
}

// medianNear returns the median of a process's samples near a share of the requests, in MiB, because a
// heap grows and shrinks with each collection.
func (r *soakRun) medianNear(process string, share float64) float64 {
	var mib []float64
	for _, s := range r.samples[process] {
		if at := s.done / float64(r.Runs); at >= share-0.05 && at <= share+0.05 {
			mib = append(mib, s.mib)
		}
	}
	return median(mib)
}
