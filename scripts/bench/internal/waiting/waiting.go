package waiting

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/scripts/bench/internal/report"
)

// Before it is measured an ingress answers some requests, so that what it makes once is there.
const (
	warmClients  = 20
	warmRequests = 10 // of each of them
)

const spareFiles = 1000 // for all else that a process has open

// Config says what to measure.
type Config struct {
	Waiters, Streams int
	Rounds           int
	Command          string // a binary that calls floor.RunParked on the argument floor-parked, and model.Serve on model
	LogsDir          string
	// Parley says how to start one, with a database of its own; Model and Settings are filled in.
	Parley func(ctx context.Context, round int) (parley.Config, error)
	// Full is called when all clients of the first round wait; nil for nothing.
	Full func(context.Context, *parley.Parley) error
	// Progress hears of each round, numbered from 1.
	Progress func(int, report.WaitingRound)
}

// Settings let all runs be with the model at a time, so that every stream is one of a running run.
func (c *Config) Settings() map[string]string {
	n := strconv.Itoa(c.Waiters + c.Streams + warmClients)
	return map[string]string{"ORG_DISPATCH_WINDOW": n, "WORKER_CONCURRENCY": n}
}

// Files is how many files and connections each process must be allowed to have open: the bench, the ingress, the worker and the model
// have one for each client, and in the end the streams of a second kind besides.
func Files(waiters, streams int) int { return waiters + 2*streams + spareFiles }

// Outcome is what was measured; FanOut is nil without streams.
type Outcome struct {
	Parked []report.Stage
	Rounds []report.WaitingRound
	FanOut *report.FanOut
}

// Run measures all rounds. An answer that is missing, wrong or doubled is an error.
func Run(ctx context.Context, c Config) (out *Outcome, err error) {
	if err := machine.AllowFiles(Files(c.Waiters, c.Streams)); err != nil {
		return nil, err
	}
	m := &measurer{config: c}
	if c.Streams > 0 {
		m.fan = &report.FanOut{Streams: c.Streams}
	}
	if err := m.parked(ctx); err != nil {
		return nil, err
	}
	out = &Outcome{Parked: m.round.Stages}
	if m.model, err = model.Start(ctx, c.Command, c.LogsDir, 0); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.model.Stop()) }()
	for n := range c.Rounds {
		m.round = report.WaitingRound{}
		if err := m.ingress(ctx, n); err != nil {
			return nil, err
		}
		if c.Progress != nil {
			c.Progress(n+1, m.round)
		}
		out.Rounds = append(out.Rounds, m.round)
	}
	out.FanOut = m.fan
	return out, nil
}

type measurer struct {
	config Config
	model  *model.Model
	round  report.WaitingRound
	fan    *report.FanOut
}

// stage notes the memory of a process once it has settled.
func (m *measurer) stage(ctx context.Context, p *process.Process, name, stage string, clients int) error {
	bytes, err := settled(ctx, p.PID())
	if err != nil {
		return errors.Join(err, p.Err())
	}
	m.round.Stages = append(m.round.Stages, report.Stage{Process: name, Stage: stage, Clients: clients, Bytes: bytes})
	return nil
}

// parked measures requests that are parked in handlers.
func (m *measurer) parked(ctx context.Context) (err error) {
	server, err := floor.StartParked(ctx, m.config.Command, m.config.LogsDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	pid := server.Processes()[0]
	n := m.config.Waiters
	idle := parley.Request{Method: http.MethodGet, Path: floor.ReadyPath}
	if err := m.stage(ctx, pid, report.Parked, report.StageBefore, 0); err != nil {
		return err
	}
	clients, err := connect(ctx, server.Address(), n, idle)
	if err != nil {
		return err
	}
	defer clients.close()
	if err := m.stage(ctx, pid, report.Parked, report.StageIdle, n); err != nil {
		return err
	}
	err = clients.start(ctx, func(n int, c *client) error {
		_, err := c.ask(ctx, parkedRequest(n))
		return err
	})
	if err == nil {
		err = m.stage(ctx, pid, report.Parked, report.StageWaiting, n)
	}
	if err != nil {
		return err
	}
	return errors.Join(release(ctx, server.Address()), clients.finish(ctx))
}

func parkedRequest(n int) parley.Request {
	body := fmt.Sprintf(`{"target":"ag_parked","input":{"message":"message %06d"},"idempotencyKey":"key-%06d"}`, n, n)
	return parley.Request{Method: http.MethodPost, Path: floor.Path, Body: []byte(body)}
}

func release(ctx context.Context, address string) error {
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, parley.Request{Method: http.MethodPost, Path: floor.ReleasePath})
	return errors.Join(err, c.conn.Close())
}

// ingress measures a fresh Parley.
func (m *measurer) ingress(ctx context.Context, round int) (err error) {
	config, err := m.config.Parley(ctx, round)
	if err != nil {
		return err
	}
	config.Model, config.Settings = model.Name, m.config.Settings()
	maps.Copy(config.Settings, m.model.Settings())
	p, err := parley.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	fresh, err := p.Fresh(ctx)
	if err != nil {
		return err
	}
	q := &queue{measurer: m, parley: p, ingress: fresh, nonce: rand.Text()[:8]}
	err = q.measure(ctx, round, config.NATSURL)
	if err = errors.Join(err, q.close(ctx)); err != nil {
		return errors.Join(err, p.Err())
	}
	return nil
}

// queue is the clients of one round at one ingress.
type queue struct {
	*measurer

	parley   *parley.Parley
	ingress  *process.Process
	nonce    string
	crowds   []*crowd
	messages []string // of all runs that the model is to be asked for
}

// close ends all clients, also when ctx has ended.
func (q *queue) close(ctx context.Context) error {
	err := q.model.Release(context.WithoutCancel(ctx))
	for _, c := range q.crowds {
		c.close()
	}
	return err
}

func (q *queue) measure(ctx context.Context, round int, natsURL string) error {
	if err := q.warmUp(ctx); err != nil {
		return err
	}
	if err := q.stage(ctx, q.ingress, report.Ingress, report.StageBefore, 0); err != nil {
		return err
	}
	waiters, err := q.connect(ctx, q.config.Waiters)
	if err == nil {
		err = q.stage(ctx, q.ingress, report.Ingress, report.StageIdle, q.config.Waiters)
	}
	if err != nil {
		return err
	}
	if err := q.model.Hold(ctx); err != nil {
		return err
	}
	if err := q.wait(ctx, waiters); err != nil {
		return err
	}
	if err := q.stage(ctx, q.ingress, report.Ingress, report.StageWaiting, q.config.Waiters); err != nil {
		return err
	}
	if err := q.stream(ctx); err != nil {
		return err
	}
	if q.config.Full != nil && round == 0 {
		if err := q.config.Full(ctx, q.parley); err != nil {
			return err
		}
	}
	if err := q.answer(ctx); err != nil || q.fan == nil {
		return err
	}
	return q.fanOut(ctx, natsURL)
}

// warmUp has a few clients answered, one request after the other.
func (q *queue) warmUp(ctx context.Context) error {
	clients, err := connect(ctx, q.parley.Address(), warmClients, ready)
	if err != nil {
		return err
	}
	defer clients.close()
	err = clients.start(ctx, func(n int, c *client) error {
		for range warmRequests {
			message := q.message("warm-up", n)
			if err := c.await(ctx, q.parley.Automation(message, rand.Text()), message); err != nil {
				return err
			}
		}
		if q.config.Streams == 0 {
			return nil
		}
		message := q.message("warm-up", n)
		return c.watch(ctx, q.parley.ChatStream(message, message), message, func() {})
	})
	if err != nil {
		return err
	}
	return clients.finish(ctx)
}

var ready = parley.Request{Method: http.MethodGet, Path: "/healthz"}

func (q *queue) connect(ctx context.Context, n int) (*crowd, error) {
	c, err := connect(ctx, q.parley.Address(), n, ready)
	if err == nil {
		q.crowds = append(q.crowds, c)
	}
	return c, err
}

// message is a client's own, and the name of its session and key.
func (q *queue) message(kind string, n int) string { return fmt.Sprintf("%s %s %d", q.nonce, kind, n) }

// wait has clients wait for runs, until the model is asked for all of them. Every other one chats.
func (q *queue) wait(ctx context.Context, clients *crowd) error {
	for n := range clients.clients {
		q.messages = append(q.messages, q.message("waits", n))
	}
	err := clients.start(ctx, func(n int, c *client) error {
		message := q.message("waits", n)
		if n%2 == 0 {
			return c.await(ctx, q.parley.Automation(message, message), message)
		}
		return c.await(ctx, q.parley.Chat(message, message), message)
	})
	if err != nil {
		return err
	}
	return q.awaitModel(ctx)
}

// stream has clients watch runs, until all have seen theirs start. Every other one watches a run that was there before.
func (q *queue) stream(ctx context.Context) error {
	if q.config.Streams == 0 {
		return nil
	}
	clients, err := q.connect(ctx, q.config.Streams)
	if err != nil {
		return err
	}
	for n := range clients.clients {
		q.messages = append(q.messages, q.message("watches", n))
	}
	err = clients.start(ctx, func(n int, c *client) error {
		message := q.message("watches", n)
		if n%2 == 0 {
			return c.watch(ctx, q.parley.ChatStream(message, message), message, clients.begun)
		}
		id, err := c.enqueue(ctx, q.parley.ChatAsync(message, message))
		if err != nil {
			return err
		}
		return c.watch(ctx, q.parley.Events(id), message, clients.begun)
	})
	if err != nil {
		return err
	}
	if err := q.awaitModel(ctx); err != nil {
		return err
	}
	err = until(ctx, "all streams have begun", func() (bool, error) { return clients.waits(q.config.Streams) })
	if err != nil {
		return err
	}
	return q.stage(ctx, q.ingress, report.Ingress, report.StageStreams, q.config.Streams)
}

// awaitModel waits until all runs are with the model.
func (q *queue) awaitModel(ctx context.Context) error {
	return until(ctx, "all runs are with the model", func() (bool, error) {
		for _, c := range q.crowds {
			if _, err := c.waits(0); err != nil {
				return false, err
			}
		}
		active, err := q.model.Active(ctx)
		return active == len(q.messages), err
	})
}

// answer lets the model answer, and every client check what it gets.
func (q *queue) answer(ctx context.Context) error {
	began := time.Now()
	errs := []error{q.model.Release(ctx)}
	for _, c := range q.crowds {
		errs = append(errs, c.finish(ctx))
		q.round.Answers += len(c.clients)
	}
	q.round.Seconds = time.Since(began).Seconds()
	return errors.Join(append(errs, q.model.Asked(ctx, q.messages))...)
}
