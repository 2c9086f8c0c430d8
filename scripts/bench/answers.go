package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

// answers measures the throughput, latency and cost of streamed chats. The model streams an answer
// of 50 pieces in 1.1 s. Parley has its default settings, and all clients belong to one
// organization. Three sides are compared:
//
//	direct   client ──▶ model
//	floor    client ──▶ gin ──▶ NATS ──▶ worker ──▶ model; the pieces return over core NATS
//	parley   client ──▶ ingress ──▶ NATS, PostgreSQL ──▶ worker ──▶ model
type answers struct {
	Clients []int `default:"64,512,2000" help:"Numbers of clients, each with one answer at a time."`
	Each    int   `default:"5" help:"Answers that a client reads in a round, one after another; the first one is not measured."`
	Rounds  int   `default:"3" help:"Number of rounds for each side and each number of clients."`

	Every time.Duration `default:"20ms" help:"Time between two of an answer's 50 pieces. With 100ms, two cores can serve 2,000 clients."`
}

// answerSide is one of the three sides of the comparison: direct, floor or parley. The side direct
// has no processes of its own, because the model runs in this process.
type answerSide struct {
	name      string
	spec      load.StreamSpec
	processes *process.Group // processes that serve the side's requests
	roles     []string       // roles whose CPU time counts
}

// Measure measures the throughput, latency and cost of the three sides in turn.
func (a *answers) Measure(ctx context.Context, s *loadEnv) error {
	if a.Each < 2 {
		return errors.New("--each must be at least 2")
	}
	provider := keep(s, model.StartPaced(a.Every))
	bare, p, _, err := s.both(ctx, floor.Config{Model: provider.Address()},
		parley.Config{Model: model.OpenAI + model.Paced, Settings: provider.Settings()}, floor.ChatIngress, floor.ChatWorker)
	if err != nil {
		return err
	}

	sides := []answerSide{
		{"direct", directChat(provider), new(process.Group), nil},
		{"floor", bare.Chat(model.Answer), &bare.Group, []string{"ingress", "worker", "nats"}},
		{"parley", p.Streams(p.Agent, model.Answer), &p.Group, []string{"ingress", "worker", "nats", "postgres"}},
	}
	for _, clients := range a.Clients {
		rounds := make([][]values, len(sides))
		for n := range a.Rounds {
			for i, side := range sides {
				got, err := a.round(ctx, s, side, clients)
				if err != nil {
					return errors.Join(fmt.Errorf("%s with %d clients: %w", side.name, clients, err), bare.Err(), p.Err())
				}
				rounds[i] = append(rounds[i], got)
				progressf("answers, %d clients, round %d of %d: %-6s %5.0f answers/s, first piece p50 %.0f ms, p99 %.0f ms, CPU %.2f ms",
					clients, n+1, a.Rounds, side.name, got["answers/s"], got["first piece p50 ms"], got["first piece p99 ms"], got["answer CPU ms"])
			}
		}
		a.report(s, clients, rounds)
	}
	return nil
}

// directChat returns a load.StreamSpec for requests that go directly to the model.
func directChat(provider *model.PacedProvider) load.StreamSpec {
	return load.StreamSpec{
		Address: provider.Address(), Path: "/v1/chat/completions",
		Body:  `{"model":"` + model.Paced + `","stream":true,"messages":[{"role":"user","content":"` + load.Message + `"}]}`,
		Field: "content", Answer: model.Answer, End: "data: [DONE]",
	}
}

// round sends the requests of one round to one side and returns the measured values. Values of
// roles without a process are missing.
func (a *answers) round(ctx context.Context, s *loadEnv, side answerSide, clients int) (values, error) {
	if err := s.servers.Checkpoint(ctx); err != nil {
		return nil, err
	}
	before, err := s.cpu(side.processes)
	if err != nil {
		return nil, err
	}

	began, peak := time.Now(), startPeak(ctx, side.processes)
	streamed, err := load.ReadStreams(ctx, side.spec,
		load.StreamClients{Clients: clients, Each: a.Each, Spread: model.AnswerTime(a.Every)})
	elapsed, memory := time.Since(began), peak()
	if err != nil {
		return nil, err
	}
	after, err := s.cpu(side.processes)
	if err != nil {
		return nil, err
	}

	got := values{
		"answers/s":          float64(streamed.Answered) / elapsed.Seconds(),
		"first piece p50 ms": load.Millis(streamed.FirstPiece, 50), "first piece p99 ms": load.Millis(streamed.FirstPiece, 99),
	}
	for role, bytes := range memory {
		got[role+" MiB"] = float64(bytes) / (1 << 20)
	}
	for _, role := range side.roles {
		millis := (after[role] - before[role]).Seconds() * 1e3 / float64(streamed.Answered)
		got["answer CPU ms, "+role] = millis
		got["answer CPU ms"] += millis
	}
	return got, nil
}

// peakEvery is the interval at which memory is sampled.
const peakEvery = 200 * time.Millisecond

// startPeak samples the memory of a group's processes until the caller calls the returned function
// stop, which returns each role's largest sample in bytes.
func startPeak(ctx context.Context, group *process.Group) (stop func() map[string]int64) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan map[string]int64)
	go func() {
		peak := map[string]int64{}
		for lifecycle.Sleep(ctx, peakEvery) == nil {
			for _, p := range group.Processes() {
				if bytes, err := process.Memory(p.PID()); err == nil { // without /proc there is no value
					peak[role(p.Name)] = max(peak[role(p.Name)], bytes)
				}
			}
		}
		result <- peak
	}()
	return func() map[string]int64 {
		cancel()
		return <-result
	}
}

// report adds the rows for one number of clients to the report. rounds contains the values of
// direct, floor and parley.
func (*answers) report(s *loadEnv, clients int, rounds [][]values) {
	goals := map[string]*goal{
		"first piece p50 ms": addsAtMost(20), "first piece p99 ms": addsAtMost(250), "answer CPU ms": ratioAtMost(1.5),
	}
	for _, measure := range []string{
		"first piece p50 ms", "first piece p99 ms", "answers/s", "answer CPU ms", "answer CPU ms, ingress", "answer CPU ms, worker",
		"answer CPU ms, nats", "answer CPU ms, postgres", "worker MiB", "ingress MiB",
	} {
		direct, floor, ours := column(rounds[0], measure), column(rounds[1], measure), column(rounds[2], measure)
		if len(ours) == 0 {
			continue // this system has no /proc
		}
		row := s.add(fmt.Sprintf("%d clients", clients), measure, floor, ours, goals[measure])
		if len(direct) > 0 {
			f := newFigure(direct)
			row.Direct = &f
		}
	}
}
