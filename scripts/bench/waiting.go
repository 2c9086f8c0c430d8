package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

// waiting measures the memory of requests that wait for their runs, of these runs in the worker, and of event streams.
//
//	clients ──run-automation, chat, streams──▶ ingress ··· worker ──▶ model, which holds its answers
//	clients ──the same requests──▶ a bare handler that only waits
//
// Then the model answers. Each client checks that it receives the answer to its own message exactly once, and the model must
// have been called once for each message.
type waiting struct {
	Waiters int `default:"10000" help:"Requests that wait at one ingress; fewer if the limit of open files requires it."`
	Streams int `default:"2000" help:"Event streams that are open besides."`
	Rounds  int `default:"3" help:"Rounds, each with new processes."`
}

const (
	warmClients  = 20 // an ingress answers some requests before it is measured
	warmRequests = 10
	spareFiles   = 1000
)

// Name is the name of the load.
func (*waiting) Name() string { return "waiting" }

// Measure measures the bare handler once, then Parley in each round.
func (w *waiting) Measure(ctx context.Context, s *loadEnv) error {
	allowed, err := process.MaxFiles()
	if err != nil {
		return err
	}
	if maximum := (allowed-spareFiles)/2 - w.Streams; w.Waiters > maximum { // the bench is both client and model
		progressf("%d requests wait, because %d files and connections may be open (ulimit -Hn)", maximum, allowed)
		w.Waiters = maximum
	}
	if w.Waiters < 1 {
		return errors.New("no request can wait; raise --waiters or the limit of open files")
	}

	parked, err := w.parked(ctx, s)
	if err != nil {
		return err
	}

	provider, err := s.model(ctx, 0)
	if err != nil {
		return err
	}

	var requests, runs, streams []float64
	for n := range w.Rounds {
		r := &waitingRound{waiting: w, loadEnv: s, model: provider, nonce: rand.Text()[:8]}
		if err := r.measure(ctx, n); err != nil {
			return err
		}
		requests, runs, streams = append(requests, r.request), append(runs, r.run), append(streams, r.stream)
	}

	clients := fmt.Sprintf("%d clients", w.Waiters)
	s.add(clients, "KiB of a waiting request", []float64{parked}, requests, ratioAtMost(1.3))
	s.add(clients, "KiB of its run in the worker", nil, runs, atMost(60))
	if w.Streams > 0 {
		s.add(fmt.Sprintf("%d streams", w.Streams), "KiB of an open stream", nil, streams, atMost(30))
	}
	return nil
}

// parked returns the memory of a request in a bare handler in KiB.
func (w *waiting) parked(ctx context.Context, s *loadEnv) (kib float64, err error) {
	server, _, err := s.floor(ctx, floor.Config{}, floor.Parked)
	if err != nil {
		return 0, err
	}

	p := server.Processes()[0]
	before, err := settledMemory(ctx, p)
	if err != nil {
		return 0, err
	}

	base := "http://" + server.Address
	clients, inner := errgroup.WithContext(ctx)
	err = gather(inner, clients, w.Waiters, func(n int) error {
		body := fmt.Appendf(nil, `{"target":"ag_parked","input":{"message":"message %06d"},"idempotencyKey":"key-%06d"}`, n, n)
		_, err := load.Request{Method: http.MethodPost, Path: floor.Path, Body: body}.Read(inner, base)
		return err
	})
	if err != nil {
		return 0, err
	}

	after, err := settledMemory(ctx, p)
	if err == nil {
		_, err = load.Request{Method: http.MethodPost, Path: floor.ReleasePath}.Read(ctx, base)
	}
	if err != nil {
		return 0, err
	}
	return kibEach(after-before, w.Waiters), errors.Join(clients.Wait(), server.Stop())
}

func kibEach(bytes int64, n int) float64 { return float64(bytes) / float64(n) / (1 << 10) }

// waitingRound is a fresh Parley and its clients.
type waitingRound struct {
	*waiting

	loadEnv  *loadEnv
	model    *model.Model
	parley   *parley.Parley
	nonce    string
	clients  *errgroup.Group
	watching atomic.Int64 // clients whose run has started

	request, run, stream float64 // KiB of each
}

func (r *waitingRound) measure(ctx context.Context, n int) (err error) {
	runs := fmt.Sprint(r.Waiters + r.Streams + warmClients) // so that every streamed run is executing
	config := parley.Config{Model: model.Name, Settings: map[string]string{"ORG_DISPATCH_WINDOW": runs, "WORKER_CONCURRENCY": runs}}
	maps.Copy(config.Settings, r.model.Settings())
	if r.parley, _, err = r.loadEnv.parley(ctx, fmt.Sprintf("parley_%d", n), config); err != nil {
		return err
	}
	if err := r.parley.RestartIngress(ctx); err != nil {
		return err
	}
	if err := r.warmUp(ctx); err != nil {
		return err
	}

	var inner context.Context
	r.clients, inner = errgroup.WithContext(ctx)
	if err := r.fill(inner); err != nil {
		r.model.Release()
		return errors.Join(err, r.parley.Err())
	}
	if n == 0 {
		if err := r.loadEnv.inspect(ctx, r.parley, "parley_0"); err != nil {
			return err
		}
	}

	began := time.Now()
	r.model.Release()
	if err := errors.Join(r.clients.Wait(), r.parley.Err()); err != nil {
		return err
	}

	progressf("waiting, round %d of %d: the last answer came %.1f s after the model's", n+1, r.Rounds, time.Since(began).Seconds())
	var messages []string
	for i := range r.Waiters {
		messages = append(messages, r.message("waits", i))
	}

	for i := range r.Streams {
		messages = append(messages, r.message("watches", i))
	}
	return errors.Join(r.model.Asked(messages), r.parley.Stop())
}

// fill starts all waiting clients, and measures the memory of each kind of request.
func (r *waitingRound) fill(ctx context.Context) error {
	ingress, worker := r.parley.Processes()[0], r.parley.Processes()[1]
	r.model.Hold()
	var memory []int64
	for _, step := range []struct {
		do      func(context.Context) error
		process *process.Process
	}{{nil, ingress}, {nil, worker}, {r.wait, ingress}, {nil, worker}, {r.watch, ingress}} {
		if step.do != nil {
			if err := step.do(ctx); err != nil {
				return err
			}
		}
		bytes, err := settledMemory(ctx, step.process)
		if err != nil {
			return err
		}
		memory = append(memory, bytes)
	}

	r.request, r.run = kibEach(memory[2]-memory[0], r.Waiters), kibEach(memory[3]-memory[1], r.Waiters)
	r.stream = kibEach(memory[4]-memory[2], max(r.Streams, 1))
	return nil
}

// message returns a client's message. It is unique and also serves as the client's session and key.
func (r *waitingRound) message(kind string, n int) string {
	return fmt.Sprintf("%s %s %d", r.nonce, kind, n)
}

// warmUp sends requests so that the ingress makes its one-time allocations.
func (r *waitingRound) warmUp(ctx context.Context) error {
	clients, ctx := errgroup.WithContext(ctx)
	err := gather(ctx, clients, warmClients, func(n int) error {
		message := r.message("warm-up", n)
		for range warmRequests {
			if err := r.ask(ctx, r.parley.Automation(r.parley.Agent, message, rand.Text()), message); err != nil {
				return err
			}
		}
		return r.listen(ctx, r.parley.Chat(r.parley.Agent, message, message, true), message, func() {})
	})
	return errors.Join(err, clients.Wait())
}

// ask sends a request that waits for a run, and checks the answer.
func (r *waitingRound) ask(ctx context.Context, q load.Request, message string) error {
	var run load.Run
	if err := q.Ask(ctx, r.parley.Base(), &run); err != nil {
		return err
	}
	return run.Check(message)
}

// listen reads a run's events and checks them.
func (r *waitingRound) listen(ctx context.Context, q load.Request, message string, started func()) error {
	t := &load.Transcript{Started: started}
	if err := q.Listen(ctx, r.parley.Base(), t); err != nil {
		return err
	}
	return t.Check(message)
}

// wait starts clients that wait for runs, and returns when the model has been called for all of
// them. Every other client uses chat.
func (r *waitingRound) wait(ctx context.Context) error {
	err := gather(ctx, r.clients, r.Waiters, func(n int) error {
		message := r.message("waits", n)
		if n%2 == 0 {
			return r.ask(ctx, r.parley.Automation(r.parley.Agent, message, message), message)
		}
		return r.ask(ctx, r.parley.Chat(r.parley.Agent, message, message, false), message)
	})
	if err != nil {
		return err
	}
	return r.awaitModel(ctx, r.Waiters)
}

// watch starts clients that stream runs, and returns when all runs have started. Every other client
// streams a run that it started earlier.
func (r *waitingRound) watch(ctx context.Context) error {
	err := gather(ctx, r.clients, r.Streams, func(n int) error {
		message := r.message("watches", n)
		request := r.parley.Chat(r.parley.Agent, message, message, true)
		if n%2 == 1 {
			var run load.Run
			if err := r.parley.ChatAsync(r.parley.Agent, message, message).Ask(ctx, r.parley.Base(), &run); err != nil {
				return err
			}
			request = r.parley.Events(run.ID)
		}
		return r.listen(ctx, request, message, func() { r.watching.Add(1) })
	})
	if err == nil {
		err = r.awaitModel(ctx, r.Waiters+r.Streams)
	}
	if err != nil {
		return err
	}
	return until(ctx, "all streams have begun", func() bool { return int(r.watching.Load()) == r.Streams })
}

// awaitModel waits until the model holds the answers of the given number of runs.
func (r *waitingRound) awaitModel(ctx context.Context, runs int) error {
	return until(ctx, "the model is called for all runs", func() bool { return r.model.Active() == runs })
}

const (
	sampleEvery = 50 * time.Millisecond
	sampleCount = 6           // that must agree within 1 %
	settleTime  = time.Second // after which the last sample is taken
)

// settledMemory returns a process's memory once it has stopped changing.
func settledMemory(ctx context.Context, p *process.Process) (int64, error) {
	var samples []int64
	for over := time.Now().Add(settleTime); ; {
		if err := lifecycle.Sleep(ctx, sampleEvery); err != nil {
			return 0, err
		}
		bytes, err := process.Memory(p.PID())
		if err != nil {
			return 0, errors.Join(err, p.Err())
		}
		samples = append(samples, bytes)
		last := samples[max(0, len(samples)-sampleCount):]
		steady := len(last) == sampleCount && slices.Max(last)-slices.Min(last) <= slices.Max(last)/100
		if steady || time.Now().After(over) {
			return bytes, nil
		}
	}
}
