package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/sessiondb"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/tool"
	"parley/workers/internal/toolset"
)

// historyMax bounds how many earlier turns of a session are read; what of them fits the model is chosen after.
const historyMax = 200

// try makes one attempt: everything between the claim and the result.
func (r *Runner) try(ctx context.Context, a *attempt) (agentloop.Output, error) {
	if a.claim.Deaths >= lease.MaxDeaths {
		return agentloop.Output{}, &agentloop.Error{Code: executiondb.WorkerLost.Code, Message: executiondb.WorkerLost.Message}
	}
	if !a.claim.CallerAllowed {
		return agentloop.Output{}, &agentloop.Error{Code: "caller_not_allowed", Message: "the agent no longer allows this kind of caller"}
	}
	turns, room, err := r.load(ctx, a)
	if err != nil {
		return agentloop.Output{}, err
	}
	defer r.inputs.leave(room)
	in, err := r.input(ctx, a, turns)
	if err != nil {
		return agentloop.Output{}, err
	}
	r.keepHistory(a, room, in.History)
	return r.loop.Run(ctx, in, journal{r.records, a}, a.events.loop)
}

// input gathers what the loop starts from. turns are the session's earlier ones.
func (r *Runner) input(ctx context.Context, a *attempt, turns []sessiondb.Turn) (agentloop.Input, error) {
	asked, err := a.claim.Input()
	if err != nil {
		return agentloop.Input{}, err
	}
	cfg, err := r.configs.Get(ctx, a.claim.OrganizationID, a.claim.TargetID(), a.claim.ConfigVersion)
	if err != nil {
		return agentloop.Input{}, retryable(err)
	}
	first, fallbacks := modelsFor(a.claim, cfg)
	spending := r.spending(a)
	model, err := r.models.ResolveAll(first, fallbacks, spending.model)
	if err != nil {
		return agentloop.Input{}, agentloop.Classify(err)
	}
	tools, err := r.tools.For(ctx, toolset.Run{
		Held: a.claim.Held(), TargetID: a.claim.TargetID(), ConfigVersion: a.claim.ConfigVersion, Deadline: a.deadline(),
		First: a.claim.Attempts == 1, Code: spending.code, Log: a.log,
	}, cfg.Tools)
	if err != nil {
		return agentloop.Input{}, asRetry(err)
	}
	in := agentloop.Input{
		System:  cfg.SystemPrompt + absentNote(tools.Absent) + furtherNote(asked.Instructions),
		Message: asked.Message, Data: asked.Data, Model: model, Tools: tools.Registry, Limits: r.cfg.Limits, Price: r.cfg.Price,
	}
	history, err := historyFor(turns, asked)
	if err != nil {
		return agentloop.Input{}, err
	}
	in.History, in.OmittedTurns = agentloop.Fit(history, agentloop.HistoryBudget(in))
	in.History = slices.Clone(in.History) // releases the turns that do not fit
	return in, nil
}

// historyFor gives what came before the message, oldest first: the session's earlier turns, each behind what its request
// brought along, and what this request brings along itself.
func historyFor(turns []sessiondb.Turn, asked domain.Input) ([]agentloop.Turn, error) {
	history := make([]agentloop.Turn, 0, len(turns))
	for _, t := range turns {
		brought, err := t.Brought()
		if err != nil {
			return nil, err
		}
		history = append(history, plainTurns(brought)...)
		history = append(history, agentloop.PlainTurn(t.Message, t.Answer))
	}
	return append(history, plainTurns(asked.History)...), nil
}

func plainTurns(exchanges []domain.Exchange) []agentloop.Turn {
	turns := make([]agentloop.Turn, len(exchanges))
	for i, e := range exchanges {
		turns[i] = agentloop.PlainTurn(e.Message, e.Answer)
	}
	return turns
}

// modelsFor gives the models to try, in their order. Each attempt that follows a model's failure begins with the next one: a
// model that breaks off in the middle of its answer cannot be fallen back from within the attempt.
func modelsFor(claim executiondb.Claimed, cfg domain.Config) (first string, fallbacks []string) {
	names := append([]string{cfg.Model}, cfg.FallbackModels...)
	var last domain.RunError
	if json.Unmarshal(claim.LastError.V, &last) == nil && strings.HasPrefix(last.Code, "model_") {
		n := (claim.Attempts - 1) % len(names)
		names = append(names[n:], names[:n]...)
	}
	return names[0], names[1:]
}

// absentNote says which tools an agent lacks in this run.
func absentNote(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return "\n\nThese servers offer no tools at the moment: " + strings.Join(servers, ", ") + ". Say so where it matters."
}

// furtherNote appends what the caller instructs the agent to what the agent's owner did.
func furtherNote(instructions string) string {
	if instructions == "" {
		return ""
	}
	return "\n\nFurther instructions of the caller:\n" + instructions
}

// asRetry passes on what ended an attempt, and takes what is not classified as passing.
func asRetry(err error) error {
	var failed *tool.Error
	if errors.As(err, &failed) && !failed.Retryable {
		return err
	}
	return retryable(err)
}

// retryable marks a failure of our own servers: the run goes back to the queue.
func retryable(err error) error {
	return &agentloop.Error{Code: "unavailable", Message: "the service could not read the run's data", Retryable: true, Err: err}
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
	for n := 1; pg.IsLocked(err) && ctx.Err() == nil; n++ { // what the step cost is not thrown away for a lock
		_ = lifecycle.Sleep(ctx, lockedBackoff(n))
		kept, err = j.records.Journal(ctx, j.a.claim.Held(), step.Seq, [][]byte{raw})
	}
	if err != nil {
		return retryable(err)
	}
	if !kept {
		return errTaken
	}
	return nil
}
