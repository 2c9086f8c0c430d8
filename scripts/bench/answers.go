package main

import (
	"context"
	"errors"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// answers measures the throughput, latency and cost of streamed chats. The model streams an answer
// of 50 pieces in 1.1 s. Parley has its default settings, and all clients belong to one
// organization:
//
//	floor    client ──▶ gin ──▶ NATS ──▶ worker ──▶ model; the pieces return over core NATS
//	parley   client ──▶ ingress ──▶ NATS, PostgreSQL ──▶ worker ──▶ model
type answers struct {
	Clients []int `default:"64,512,2000" help:"Numbers of clients, each with one answer at a time."`
	Each    int   `default:"5" help:"Answers that a client reads in a round, one after another; the first one is not measured."`
	Rounds  int   `default:"3" help:"Number of rounds for each side and each number of clients."`

	Every time.Duration `default:"20ms" help:"Time between two of an answer's 50 pieces."`
}

// Measure compares Parley with the floor.
func (a *answers) Measure(ctx context.Context, s *loadEnv) error {
	loop := closedLoop{Clients: a.Clients, Rounds: a.Rounds, Seconds: 1}
	return s.compareAnswers(ctx, loop, a.Each, a.Every, func(_ int, measure string) *goal {
		switch measure {
		case "first piece p50 ms":
			return addsAtMost(20)
		case "first piece p99 ms":
			return addsAtMost(250)
		case "answer CPU µs":
			return ratioAtMost(1.5)
		}
		return nil
	})
}

// streams measures whether many open streams get their pieces as fast as in the floor, while the
// model sends no more pieces than two cores can deliver.
type streams struct {
	Clients []int `default:"2000" help:"Numbers of clients, each with one stream at a time."`
	Each    int   `default:"3" help:"Answers that a client reads in a round, one after another; the first one is not measured."`
	Rounds  int   `default:"3" help:"Number of rounds for each side and each number of clients."`

	Every time.Duration `default:"100ms" help:"Time between two of an answer's 50 pieces."`
}

// Measure compares Parley with the floor.
func (a *streams) Measure(ctx context.Context, s *loadEnv) error {
	loop := closedLoop{Clients: a.Clients, Rounds: a.Rounds, Seconds: 1}
	return s.compareAnswers(ctx, loop, a.Each, a.Every, only("answers/s", 1, ratioAtLeast(0.9)))
}

// compareAnswers compares the streamed answers of Parley and of the floor. Each client reads the
// given number of answers in a round, and the model sends a piece in each interval every.
func (s *loadEnv) compareAnswers(
	ctx context.Context, loop closedLoop, each int, every time.Duration, goal func(clients int, measure string) *goal,
) error {
	if each < 2 {
		return errors.New("--each must be at least 2")
	}
	provider := keep(s, model.StartPaced(every))
	bare, p, _, err := s.both(ctx, floor.Config{Model: provider.Address()},
		parley.Config{Model: model.OpenAI + model.Paced, Settings: provider.Settings()}, floor.ChatIngress, floor.ChatWorker)
	if err != nil {
		return err
	}

	return s.compare(ctx, &comparison{
		closedLoop: loop, unit: "answer", latency: "first piece", goal: goal,
		streams: load.StreamClients{Each: each, Spread: model.AnswerTime(every)},
		stream:  [2]load.StreamSpec{bare.Chat(model.Answer), p.Streams(p.Agent, model.Answer)},
		sides:   [2]side{{"floor", load.Spec{}, "floor", &bare.Group}, {"parley", load.Spec{}, "parley", &p.Group}},
	})
}
