package abuse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
)

const (
	replayEvery   = 8 * time.Millisecond // interval between two requests of the attack
	replayCallers = 32                   // number of connections of the attack
	replayKey     = "replayed"
)

// replay repeats a run-automation request with the person's API key. The service responds with the
// stored result, and replay returns the beginning of the response.
func (p *person) replay(ctx context.Context, message string) api.Answer {
	body := map[string]any{"target": p.agent, "input": map[string]any{"message": message}, "idempotencyKey": replayKey}
	req, err := api.NewRequest(ctx, http.MethodPost, p.url+"/api/internal/run-automation", p.byKey(), body)
	if err != nil {
		return api.Answer{Err: err}
	}
	res, err := p.http.Do(req)
	if err != nil {
		return api.Answer{Err: err}
	}
	defer res.Body.Close()

	begins, err := io.ReadAll(io.LimitReader(res.Body, 500))
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return api.Answer{Status: res.StatusCode, Header: res.Header, Body: begins, Err: err}
}

// replays is a probe that repeats the request of a finished automation.
func (p *person) replays(every time.Duration) probe {
	return probe{name: "replay", every: every, send: func(ctx context.Context, _ int) error {
		a := p.replay(ctx, "small")
		if err := a.Check(http.StatusOK); err != nil {
			return err
		}
		if !a.IsReplay() {
			return fmt.Errorf("the response is not a replay")
		}
		return nil
	}}
}

// replayFloods is an attack that repeatedly requests the result of one run on many connections.
func replayFloods(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home, flood := s.signUp(t, victimAddress).withKey(t).withAgent(t), s.signUp(t, s.stranger()).withKey(t).withAgent(t)
	home.replay(t.Context(), "small").Want(t, http.StatusOK)
	large := strings.Repeat("\U0001F4A3", largeCharacters) // 4 bytes per character; the run object contains the text twice
	flood.replay(t.Context(), large).Want(t, http.StatusOK)
	var sent tally
	v := &victim{probes: []probe{home.replays(pace(40 * time.Millisecond)), home.lists(pace(60 * time.Millisecond))}}
	s.judge(t, formPlan(plan{rounds: 3, each: 1200 * time.Millisecond, again: refill}), v, attack{
		run: func(ctx context.Context) {
			paced(ctx, replayEvery, replayCallers, func(ctx context.Context, _ int) { sent.add(ctx, "replay", flood.replay(ctx, large)) })
		},
		sent: &sent, shows: map[string]int{"replay 200": 200},
	})
}
