package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/shared/store"
	"parley/workers/internal/agentloop"
)

// historyMax bounds how many earlier turns of a session are read; what of them fits the model is chosen after.
const historyMax = 200

// try makes one attempt: everything between the claim and the result.
func (r *Runner) try(ctx context.Context, a *attempt) (agentloop.Output, error) {
	if a.claim.Deaths >= store.MaxDeaths {
		return agentloop.Output{}, &agentloop.Error{Code: store.WorkerLost.Code, Message: store.WorkerLost.Message}
	}
	if !a.claim.CallerAllowed {
		return agentloop.Output{}, &agentloop.Error{Code: "caller_not_allowed", Message: "the agent no longer allows this kind of caller"}
	}
	in, err := r.input(ctx, a)
	if err != nil {
		return agentloop.Output{}, err
	}
	return r.loop.Run(ctx, in, journal{r.records, a}, a.events.loop)
}

// input gathers what the loop starts from.
func (r *Runner) input(ctx context.Context, a *attempt) (agentloop.Input, error) {
	asked, err := a.claim.Input()
	if err != nil {
		return agentloop.Input{}, err
	}
	cfg, err := r.configs.get(ctx, a.claim.OrganizationID, a.claim.TargetID(), a.claim.ConfigVersion)
	if err != nil {
		return agentloop.Input{}, retryable(err)
	}
	model, err := r.models.Resolve(cfg.Model)
	if err != nil {
		return agentloop.Input{}, agentloop.Classify(err)
	}
	in := agentloop.Input{System: cfg.SystemPrompt, Message: asked.Message, Data: asked.Data, Model: model}
	if a.claim.Seq == 1 {
		return in, nil
	}
	turns, err := r.records.History(ctx, a.claim.OrganizationID, a.claim.SessionRef, a.claim.Seq, historyMax)
	if err != nil {
		return agentloop.Input{}, retryable(err)
	}
	history := make([]agentloop.Turn, len(turns))
	for i, t := range turns {
		history[i] = agentloop.PlainTurn(t.Message, t.Answer)
	}
	in.History, in.OmittedTurns = agentloop.Fit(history, agentloop.HistoryBudget(in))
	return in, nil
}

// retryable marks a failure of our own servers: the run goes back to the queue.
func retryable(err error) error {
	return &agentloop.Error{Code: "unavailable", Message: "the service could not read what the run needs", Retryable: true, Err: err}
}

// journal keeps a run's steps under its fence.
type journal struct {
	records Records
	a       *attempt
}

// Load reads the steps that earlier attempts recorded, and tells that the run goes on from there.
func (j journal) Load(ctx context.Context) ([]agentloop.Step, error) {
	if j.a.claim.Attempts == 1 {
		return nil, nil
	}
	raw, err := j.records.Steps(ctx, j.a.claim.OrganizationID, j.a.claim.RunID)
	if err != nil {
		return nil, retryable(err)
	}
	steps := make([]agentloop.Step, len(raw))
	for i, b := range raw {
		if err := json.Unmarshal(b, &steps[i]); err != nil {
			return nil, fmt.Errorf("reading step %d: %w", i+1, err)
		}
	}
	j.a.events.restarted(len(steps))
	return steps, nil
}

// Record writes one step; errTaken when the run is no longer this worker's.
func (j journal) Record(ctx context.Context, step agentloop.Step) error {
	raw, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("encoding step: %w", err)
	}
	kept, err := j.records.Journal(ctx, j.a.claim.Held(), step.Seq, [][]byte{raw})
	if err != nil {
		return retryable(err)
	}
	if !kept {
		return errTaken
	}
	return nil
}
