package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/lib/pq" // the driver that ages runs

	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

const (
	samples  = 100         // of each process
	ageEvery = time.Second // that runs are looked at which have been kept for long enough
)

// Config says what goes through, and through what.
type Config struct {
	Parley      *parley.Parley // with model's settings, and its sweeper
	DatabaseURL string         // as its owner
	Runs        int
	Agents      int
	Clients     int
	Kept        time.Duration // that results of run-automation are kept, instead of a day
	Progress    func(format string, args ...any)
}

// Run asks for everything. An answer that is not as it should be is an error.
func Run(ctx context.Context, c Config) (*report.Soak, error) {
	if _, err := machine.Memory(os.Getpid()); err != nil {
		return nil, err
	}
	db, err := sql.Open("postgres", c.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	s := &soak{config: c, db: db, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Clients}}}
	defer s.client.CloseIdleConnections()
	err = s.makeAgents(ctx)
	if err == nil {
		err = s.run(ctx)
	}
	return s.out, errors.Join(err, c.Parley.Err(), db.Close())
}

type soak struct {
	config Config
	db     *sql.DB
	client *http.Client
	agents []string // the last one is the one that fails
	done   atomic.Int64
	out    *report.Soak
}

func (s *soak) makeAgents(ctx context.Context) error {
	for n := range s.config.Agents + 1 {
		name := "offline/echo"
		if n == s.config.Agents {
			name = model.Name
		}
		id, err := s.config.Parley.NewAgent(ctx, s.client, "Echo "+strconv.Itoa(n), name)
		if err != nil {
			return err
		}
		s.agents = append(s.agents, id)
	}
	return nil
}

// run has the clients ask, and meanwhile runs age and samples are taken.
func (s *soak) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.out = &report.Soak{Runs: s.config.Runs, Kinds: map[string]int{}}
	for n := range s.config.Runs {
		s.out.Kinds[of(n, s.config.Agents).kind]++
	}
	for _, p := range s.config.Parley.Processes() {
		s.out.Processes = append(s.out.Processes, report.SoakProcess{Process: p.Name})
	}
	began := time.Now()
	var clients, beside sync.WaitGroup
	var next atomic.Int64
	for range s.config.Clients {
		clients.Go(func() {
			for n := int(next.Add(1)) - 1; n < s.config.Runs && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if err := s.ask(ctx, of(n, s.config.Agents)); err != nil {
					cancel(fmt.Errorf("request %d: %w", n, err))
				}
				s.done.Add(1)
			}
		})
	}
	through := make(chan struct{})
	for _, do := range []func(context.Context, <-chan struct{}) error{s.age, s.watch} {
		beside.Go(func() {
			if err := do(ctx, through); err != nil {
				cancel(err)
			}
		})
	}
	clients.Wait()
	s.out.Seconds = time.Since(began).Seconds()
	close(through)
	beside.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.count(ctx)
}

// ask asks for one, and checks the answer.
func (s *soak) ask(ctx context.Context, r request) error {
	asked := r.on(s.config.Parley, s.agents)
	if r.kind == streams {
		return s.listen(ctx, r, asked)
	}
	var run struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if err := s.config.Parley.Ask(ctx, s.client, asked, &run); err != nil {
		return err
	}
	want, answer := "completed", "echo: "+r.message
	if r.kind == failing {
		want, answer = "failed", ""
	}
	if run.Status != want || run.Message != answer {
		return fmt.Errorf("%s: %s with %q, asked was %q", r.kind, run.Status, run.Message, r.message)
	}
	return nil
}

// listen reads a stream to its end.
func (s *soak) listen(ctx context.Context, r request, asked parley.Request) error {
	body, err := s.config.Parley.Listen(ctx, s.client, asked)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	if text := string(raw); !strings.Contains(text, "event: run.completed") || !strings.Contains(text, `"message":"echo: `+r.message+`"`) {
		return fmt.Errorf("the stream of %q is %s", r.message, text)
	}
	return nil
}

// age makes results expire whose runs ended so long ago, until all is through.
func (s *soak) age(ctx context.Context, through <-chan struct{}) error {
	return every(ctx, through, ageEvery, func() error {
		_, err := s.db.ExecContext(ctx, `UPDATE runs SET sweep_after = now(), expires_at = now() - interval '1 millisecond'
			WHERE sweep_after > now() AND sweep_after < now() + retention * interval '1 second' - $1::float8 * interval '1 second' AND status IS NOT NULL`,
			s.config.Kept.Seconds())
		if err != nil {
			return fmt.Errorf("making runs expire: %w", err)
		}
		return nil
	})
}

// watchEvery is often enough for a hundred samples of any number of runs.
const watchEvery = 20 * time.Millisecond

// watch takes a sample of each process whenever another hundredth of the runs is through.
func (s *soak) watch(ctx context.Context, through <-chan struct{}) error {
	taken := -1
	look := func() error {
		done := int(s.done.Load())
		if at := done * samples / s.config.Runs; at > taken {
			taken = at
			if at%10 == 0 {
				s.config.Progress("soak: %d of %d requests", done, s.config.Runs)
			}
			return s.sample(ctx, done)
		}
		return nil
	}
	return errors.Join(every(ctx, through, watchEvery, look), look())
}

func (s *soak) sample(ctx context.Context, done int) error {
	for i, p := range s.config.Parley.Processes() {
		bytes, err := machine.Memory(p.PID())
		if err != nil {
			return errors.Join(err, p.Err())
		}
		files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.PID()), "fd"))
		if err != nil {
			return fmt.Errorf("counting open files: %w", err)
		}
		goroutines, err := s.config.Parley.Goroutines(ctx, p.Name)
		if err != nil {
			return err
		}
		s.out.Processes[i].Samples = append(s.out.Processes[i].Samples, report.SoakSample{
			Done: done, Bytes: bytes, Files: len(files), Goroutines: goroutines,
		})
	}
	return nil
}

// every does something at intervals until all is through.
func every(ctx context.Context, through <-chan struct{}, interval time.Duration, do func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-through:
			return nil
		case <-ctx.Done():
			return nil // whoever ended it says why
		}
		if err := do(); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// count says how many runs were erased: those that were there but the ones that are.
func (s *soak) count(ctx context.Context) error {
	var left int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM runs`).Scan(&left); err != nil {
		return fmt.Errorf("counting runs: %w", err)
	}
	const first = 1 // which Parley's start has carried out
	s.out.Erased = s.config.Runs - s.out.Kinds[repeated] + first - left
	return nil
}
