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

// maxHistory is the maximum number of a session's earlier turns that an attempt reads.
// agentloop.Fit then selects the turns that fit into the model's context.
const maxHistory = 200

// runAttempt runs one attempt, from the claimed run to its output. The output is not nil. The error
// is that of the agent loop, or an *agentloop.Error if the run cannot begin.
//
// Thousands of attempts wait for their models, and each keeps its stack. The garbage collector
// halves a stack only while less than a quarter of it is used. Large values are therefore passed by
// pointer here.
func (r *Runner) runAttempt(ctx context.Context, a *attempt) (*agentloop.Output, error) {
	// If several workers were lost while they executed a run, the run itself may be the cause, so
	// it must not be given to another worker.
	if a.claim.Deaths >= lease.MaxDeaths {
		return &agentloop.Output{}, &agentloop.Error{Code: executiondb.WorkerLost.Code, Message: executiondb.WorkerLost.Message}
	}
	// The agent's permissions may have changed while the run was queued.
	if !a.claim.CallerAllowed {
		return &agentloop.Output{}, &agentloop.Error{Code: "caller_not_allowed", Message: "The agent no longer allows this kind of caller."}
	}

	// The memory stays reserved until the attempt ends, because the agent loop refers to the input
	// and the history.
	turns, room, err := r.load(ctx, a)
	if err != nil {
		return &agentloop.Output{}, err
	}
	defer r.inputs.leave(room)

	in, err := r.input(ctx, a, turns)
	defer func() { r.images.leave(a.imageRoom) }()
	if err != nil {
		return &agentloop.Output{}, err
	}
	r.keepHistory(a, room, in.History)
	out, err := r.loop.Run(ctx, *in, journal{r.records, a}, a.events.loop)
	return &out, err
}

// load reads the parts of a run that its claim does not contain: a large input, and the earlier
// turns of its session. If these parts are large, load first waits until there is memory for all of
// them. The caller must release the result room with the method leave. If no memory was reserved,
// room is nil.
func (r *Runner) load(ctx context.Context, a *attempt) (turns []sessiondb.Turn, room *inputTurn, err error) {
	// Only a later run of a session has a history.
	c, large := a.claim, 0
	if c.Seq > 1 {
		if turns, large, err = r.sessions.ShortHistory(ctx, c.OrganizationID, c.SessionRef, c.Seq, maxHistory); err != nil {
			return nil, nil, retryable(err)
		}
	}

	// Small data is already in memory and needs no reservation.
	if large+c.LargeInput == 0 {
		return turns, nil, nil
	}

	// The claim contains the sizes, so the memory can be reserved before the data is read.
	if room, err = r.inputs.enter(ctx, c.OrganizationID, large+c.LargeInput); err != nil {
		return nil, nil, err
	}

	if c.LargeInput > 0 {
		a.claim.RawInput, err = r.records.RunInput(ctx, c.OrganizationID, c.RunID)
	}
	if large > 0 && err == nil {
		turns, err = r.sessions.History(ctx, c.OrganizationID, c.SessionRef, c.Seq, maxHistory)
	}
	if err != nil {
		r.inputs.leave(room)
		return nil, nil, retryable(err)
	}
	return turns, room, nil
}

// keepHistory reduces the reservation of memory in the argument room to the size of the large input
// and of the turns that fit into the model's context. This argument may be nil.
func (r *Runner) keepHistory(a *attempt, room *inputTurn, kept []agentloop.Turn) {
	bytes := a.claim.LargeInput
	for _, turn := range kept {
		for _, m := range turn.Messages {
			bytes += m.Size()
		}
	}
	r.inputs.shrink(room, bytes)
}

// input builds the agent loop's input. The argument turns contains the session's earlier turns.
// input also sets those fields of the attempt that become part of the finished run.
//
// Errors of the store are retryable. Errors of the settings, such as a missing model, have the
// codes of package agentloop.
func (r *Runner) input(ctx context.Context, a *attempt, turns []sessiondb.Turn) (*agentloop.Input, error) {
	asked, err := a.claim.Input()
	if err != nil {
		return nil, err
	}
	a.attachments = asked.Attachments
	// The run's row pins the version, so all attempts of a run use the same configuration.
	cfg, err := r.configs.Get(ctx, a.claim.OrganizationID, a.claim.TargetID(), a.claim.ConfigVersion)
	if err != nil {
		return nil, retryable(err)
	}

	// Each model is wrapped separately, because the price of a call depends on its model.
	first, fallbacks := modelsFor(a.claim, cfg)
	a.models = 1 + len(fallbacks)
	runBudget := r.newRunBudget(a)
	model, err := r.models.ResolveAll(first, fallbacks, runBudget.model)
	if err != nil {
		return nil, agentloop.Classify(err)
	}

	// The first attempt asks the MCP servers for their tools, and later attempts use the same set.
	// So a retry finds every tool that is named in a journaled call.
	run := toolset.Run{
		Held: a.claim.Held(), TargetID: a.claim.TargetID(), ConfigVersion: a.claim.ConfigVersion, Deadline: a.deadline(),
		First: a.claim.Attempts == 1, Code: runBudget.code, Log: a.log,
	}
	tools, err := r.tools.For(ctx, run, cfg.Tools)
	if err != nil {
		return nil, asRetry(err)
	}

	// A run that fails later reports these fields, too, so they are set first.
	a.warnings, a.appendSources, a.settings = tools.Absent, cfg.AppendSources, asked.Settings.Over(cfg.Answer.ModelSettings)
	prompt, err := r.systemPrompt(ctx, a, cfg, asked)
	if err != nil {
		return nil, err
	}
	in := &agentloop.Input{
		Organization: a.claim.OrganizationID,
		Settings:     a.settings,
		System:       prompt + absentNote(tools.Absent) + furtherNote(asked.Instructions),
		Message:      asked.Message, Data: asked.Data, Model: model, Tools: tools.Registry, Limits: r.cfg.Limits, Price: r.cfg.Price,
	}

	if in.Contract, err = contractFor(asked, cfg); err != nil {
		return nil, err
	}
	if in.Client, err = r.clientTools(a, asked.ClientTools, tools.Registry); err != nil {
		return nil, err
	}

	// The history is selected last: its budget depends on the prompt and the tools.
	err = r.addHistory(ctx, a, run, in, turns, &asked)
	return in, err
}

// systemPrompt returns the agent's system prompt with its variables replaced by their values. It
// fails with the code context_too_long if the result is too long.
func (r *Runner) systemPrompt(ctx context.Context, a *attempt, cfg domain.Config, asked domain.Input) (string, error) {
	if !cfg.PromptVariables {
		return cfg.SystemPrompt, nil
	}

	// The prompt contains the time at which the run was accepted, so that a retry has the same
	// prompt.
	values := domain.PromptValues{Now: a.claim.CreatedAt, SessionID: a.claim.SessionID, Message: asked.Message, Input: asked.Data}
	if domain.PromptUses(cfg.SystemPrompt) {
		// Read the organization's name only if the prompt uses it, to save the query.
		name, err := r.records.OrganizationName(ctx, a.claim.OrganizationID)
		if err != nil {
			return "", retryable(err)
		}
		values.Organization = name
	}

	prompt, err := domain.FillPrompt(cfg.SystemPrompt, values)
	if err != nil {
		return "", &agentloop.Error{Code: agentloop.CodeContextTooLong, Message: domain.LongPromptMessage, Err: err}
	}
	return prompt, nil
}

// addHistory adds the attachments to the input, and the earlier turns that fit into the model's
// context. It sets in.OmittedTurns to the number of turns that do not fit.
func (r *Runner) addHistory(
	ctx context.Context, a *attempt, run toolset.Run, in *agentloop.Input, turns []sessiondb.Turn, asked *domain.Input,
) error {
	past, err := r.history(ctx, a, turns, asked)
	if err != nil {
		return err
	}
	earlier, err := earlierAttachments(turns, past.own)
	if err != nil {
		return err
	}
	if a.imageRoom, err = r.attach(ctx, a, run, in, asked.Attachments, earlier, past.turns); err != nil {
		return err
	}

	in.Rounds = past.rounds
	in.History, in.OmittedTurns = agentloop.Fit(past.turns, agentloop.HistoryBudget(*in))
	in.History = slices.Clone(in.History) // copy the list, so that the memory of the omitted turns can be freed
	return nil
}

// contractFor returns the schema that the answer must match: the schema of the request or, if the
// request has none, the schema of the agent. It returns nil if the answer is free text. It fails if
// the schema is not supported.
func contractFor(asked domain.Input, cfg domain.Config) (*agentloop.Contract, error) {
	raw := cfg.Answer.OutputSchema
	if asked.Output != nil {
		raw = asked.Output.Schema
	}
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // no contract is not an error
	}
	return agentloop.NewContract(json.RawMessage(raw))
}

// modelsFor returns the models in the order in which the attempt tries them. After a model has
// failed, the next attempt begins with the next model. Within an attempt, no fallback is possible
// after a model has begun its answer.
func modelsFor(claim executiondb.Claimed, cfg domain.Config) (first string, fallbacks []string) {
	// Copy the list, because the rotation below must not change the cached configuration.
	names := append([]string{cfg.Model}, cfg.FallbackModels...)
	var last domain.RunError
	if json.Unmarshal(claim.LastError.V, &last) == nil && strings.HasPrefix(last.Code, "model_") {
		n := (claim.Attempts - 1) % len(names)
		names = append(names[n:], names[:n]...)
	}
	return names[0], names[1:]
}

// absentNote returns a note for the model that says which MCP servers' tools are unavailable in this
// run.
func absentNote(servers []domain.RunWarning) string {
	if len(servers) == 0 {
		return ""
	}
	names := make([]string, len(servers))
	for i, server := range servers {
		names[i] = server.Name
	}
	return "\n\nThese servers offer no tools at the moment: " + strings.Join(names, ", ") + ". Mention this where it matters."
}

// furtherNote returns the caller's instructions, to be appended to the agent's system prompt.
func furtherNote(instructions string) string {
	if instructions == "" {
		return ""
	}
	return "\n\nAdditional instructions from the caller:\n" + instructions
}

// asRetry marks an error as retryable, unless it is a tool error that is not retryable.
func asRetry(err error) error {
	var failed *tool.Error
	if errors.As(err, &failed) && !failed.Retryable {
		return err
	}
	return retryable(err)
}

// codeUnavailable is the error code for the failure of a dependency, such as the database.
const codeUnavailable = "unavailable"

// retryable returns a retryable error with which the run is requeued. err is the error of a
// dependency, such as the database.
func retryable(err error) error {
	return &agentloop.Error{Code: codeUnavailable, Message: "The service could not read the run's data.", Retryable: true, Err: err}
}

// journal reads and records a run's steps. It implements agentloop.Journal for one attempt. The
// fence rejects the writes of an attempt that has lost its run.
type journal struct {
	records Records
	a       *attempt
}

// Load returns the steps that earlier attempts recorded. In a later attempt, it also publishes an
// event with the number of these steps.
func (j journal) Load(ctx context.Context) ([]agentloop.Step, error) {
	// A first attempt has no steps, so the query is skipped.
	if j.a.claim.Attempts == 1 {
		return nil, nil
	}
	raw, err := j.records.Steps(ctx, j.a.claim.OrganizationID, j.a.claim.RunID)
	if err != nil {
		return nil, retryable(err)
	}
	steps, err := decodeSteps(raw)
	if err != nil {
		return nil, err
	}

	// After this event, the agent loop publishes the events of the recorded steps again.
	j.a.events.restarted(len(steps))
	return steps, nil
}

// Record saves one step. It returns errTaken if the run no longer belongs to this worker.
func (j journal) Record(ctx context.Context, step agentloop.Step) error {
	raw, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("encoding step: %w", err)
	}

	// The store rejects a step of an attempt that has lost its run. The agent loop then stops,
	// because another attempt may be repeating the step.
	kept, err := j.records.Journal(ctx, j.a.claim.Held(), step.Seq, raw)
	for n := 1; pg.IsLocked(err) && ctx.Err() == nil; n++ { // the row is locked: repeating the write costs less than repeating the step
		_ = lifecycle.Sleep(ctx, lockedBackoff(n))
		kept, err = j.records.Journal(ctx, j.a.claim.Held(), step.Seq, raw)
	}
	if err != nil {
		return retryable(err)
	}
	if !kept {
		return errTaken
	}
	return nil
}
