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

	Every time.Duration `default:"20ms" help:"Time between two of an answer's 50 pieces. With 100ms, two cores can serve 2,000 clients."`
}

// Measure compares Parley with the floor.
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

	return s.compare(ctx, &comparison{
		closedLoop: closedLoop{Clients: a.Clients, Rounds: a.Rounds, Seconds: 1}, unit: "answer", latency: "first piece",
		streams: load.StreamClients{Each: a.Each, Spread: model.AnswerTime(a.Every)},
		stream:  [2]load.StreamSpec{bare.Chat(model.Answer), p.Streams(p.Agent, model.Answer)},
		sides:   [2]side{{"floor", load.Spec{}, "floor", &bare.Group}, {"parley", load.Spec{}, "parley", &p.Group}},
		goal: func(_ int, measure string) *goal {
			switch measure {
			case "first piece p50 ms":
				return addsAtMost(20)
			case "first piece p99 ms":
				return addsAtMost(250)
			case "answer CPU µs":
				return ratioAtMost(1.5)
			}
			return nil
		},
	})
}
