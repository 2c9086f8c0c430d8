package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store/sessiondb"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// clientTools returns the tools that the client executes itself, or nil if there are none. It fails
// if one of them has the same name as a tool of the agent. This is not checked when the request
// arrives, because the names of MCP servers' tools are not known before the run.
func (r *Runner) clientTools(a *attempt, asked *domain.ClientTools, own *tool.Registry) (*agentloop.ClientTools, error) {
	if asked == nil {
		return nil, nil //nolint:nilnil // no tools are not an error
	}

	out := &agentloop.ClientTools{Choice: asked.Choice, IDPrefix: domain.ClientCallPrefix(a.claim.RunID)}
	for _, t := range asked.Tools {
		if _, taken := own.Lookup(t.Name); taken {
			return nil, &agentloop.Error{
				Code:    agentloop.CodeToolNameTaken,
				Message: fmt.Sprintf("The request's tool %s has the same name as one of the agent's own tools.", t.Name),
			}
		}
		out.Specs = append(out.Specs, llm.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	if !asked.Return {
		out.Results = func(ctx context.Context, calls []domain.ClientCall) ([]domain.ClientResult, bool, error) {
			return r.clientResults(ctx, a, calls)
		}
	}
	return out, nil
}

// clientResults records the calls in the effect ledger, where they wait for the client's results.
// It returns the results that have arrived, and whether all results have arrived. A second call
// after the run was parked records nothing twice.
func (r *Runner) clientResults(ctx context.Context, a *attempt, calls []domain.ClientCall) ([]domain.ClientResult, bool, error) {
	results, known := make([]domain.ClientResult, len(calls)), true
	for i, call := range calls {
		effect, held, err := r.clients.PrepareEffect(ctx, a.claim.Held(), domain.Effect{
			CallID: call.ToolCallID, Name: call.Name, Input: call.Input, SideEffect: domain.SideEffectUnsafe,
			Key: contract.EffectKey(a.claim.RunID, call.ToolCallID),
		}, true)
		switch {
		case err != nil:
			return nil, false, retryable(err)
		case !held:
			return nil, false, errTaken
		case effect.State != domain.EffectDone:
			known = false
			continue
		}
		if err := json.Unmarshal(effect.Outcome, &results[i]); err != nil {
			return nil, false, fmt.Errorf("reading result of call %s: %w", call.ToolCallID, err)
		}
	}
	failpoint.Here(failpoint.EffectAfter)
	return results, known, nil
}

// history contains the messages that come before and after the run's message in the prompt.
type history struct {
	turns  []agentloop.Turn // the exchanges before the message, oldest first
	own    []int            // for each of the session's turns, its index in the field turns; negative if the turn is not in this field
	rounds []llm.Message    // the calls to the client's tools, and their results, that follow the message
}

// history returns the messages that the run continues. A request may supply a history: the history
// of an earlier request precedes that request's turn, and the history of the current request comes
// last. The argument turns contains the session's earlier turns. Turns without an answer are
// omitted, and turns whose calls and results are part of a later exchange, because this exchange
// repeats the turn's message and text. It does not repeat the message's attachments, so turns with
// attachments are kept.
func (r *Runner) history(ctx context.Context, a *attempt, turns []sessiondb.Turn, asked *domain.Input) (*history, error) {
	brought := make([]domain.Input, len(turns))
	for i, t := range turns {
		supplied, err := t.Brought()
		if err != nil {
			return nil, err
		}
		brought[i].History = supplied
	}
	repeated := repeatedRuns(turns, brought, asked)

	var exchanges []domain.Exchange
	own := make([]int, len(turns))
	for i, t := range turns {
		earlier, open := brought[i].OpenRounds()
		exchanges = append(exchanges, earlier...)
		own[i] = -1
		if t.Answer != "" && (t.Files != nil || !repeated[t.RunID]) {
			own[i] = len(exchanges)
			exchanges = append(exchanges, domain.Exchange{Message: t.Message, Rounds: open, Answer: t.Answer})
		}
	}
	earlier, open := asked.OpenRounds()
	exchanges = append(exchanges, earlier...)
	steps, err := r.namedSteps(ctx, a, append(exchanges, domain.Exchange{Rounds: open}))
	if err != nil {
		return nil, err
	}

	past := make([]agentloop.Turn, len(exchanges))
	for i, e := range exchanges {
		past[i] = suppliedTurn(e, steps)
	}
	return &history{turns: past, own: own, rounds: roundMessages(open, steps)}, nil
}

// repeatedRuns returns the runs whose calls of client tools are part of a later exchange: of the
// run's own input, or of the input of a turn. The argument brought contains the history in each
// turn's input. The calls that follow the message of a turn without an answer do not count, because
// that turn is omitted.
func repeatedRuns(turns []sessiondb.Turn, brought []domain.Input, asked *domain.Input) map[string]bool {
	repeated := map[string]bool{}
	add := func(exchanges []domain.Exchange) {
		for _, e := range exchanges {
			for _, round := range e.Rounds {
				if round.RunID != "" {
					repeated[round.RunID] = true
				}
			}
		}
	}

	add(asked.History)
	for i, t := range turns {
		earlier, open := brought[i].OpenRounds()
		add(earlier)
		if t.Answer != "" {
			add([]domain.Exchange{{Rounds: open}})
		}
	}
	return repeated
}

// suppliedTurn converts an exchange to a turn of the agent loop's history.
func suppliedTurn(e domain.Exchange, steps map[string][]agentloop.Step) agentloop.Turn {
	if len(e.Rounds) == 0 {
		return agentloop.PlainTurn(e.Message, e.Answer)
	}
	messages := append([]llm.Message{{Role: llm.RoleUser, Text: e.Message}}, roundMessages(e.Rounds, steps)...)
	if e.Answer != "" {
		messages = append(messages, llm.Message{Role: llm.RoleAssistant, Text: e.Answer})
	}
	return agentloop.Turn{Messages: messages}
}

// roundMessages returns the messages of the rounds, each of which consists of calls to the client's
// tools and their results. The argument steps contains the journal of each run that a round names.
func roundMessages(rounds []domain.CallRound, steps map[string][]agentloop.Step) (messages []llm.Message) {
	for _, round := range rounds {
		messages = append(messages, agentloop.RoundMessages(round, steps[round.RunID])...)
	}
	return messages
}

// namedBytes is the maximum total size of the journals that are read to restore the calls of client
// tools in a history.
const namedBytes = 4 << 20

// namedSteps reads the journals of the runs whose calls and results are part of the exchanges. It
// returns the steps in a map whose keys are run ids. The map lacks runs that do not exist any more.
func (r *Runner) namedSteps(ctx context.Context, a *attempt, exchanges []domain.Exchange) (map[string][]agentloop.Step, error) {
	var runs []string
	for _, e := range exchanges {
		for _, round := range e.Rounds {
			if round.RunID != "" {
				runs = append(runs, round.RunID)
			}
		}
	}
	if len(runs) == 0 {
		return nil, nil //nolint:nilnil // a nil map is empty
	}

	raw, err := r.clients.Journals(ctx, a.claim.OrganizationID, runs, namedBytes)
	if err != nil {
		return nil, retryable(err)
	}
	steps := make(map[string][]agentloop.Step, len(raw))
	for runID, journal := range raw {
		if steps[runID], err = decodeSteps(journal); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// decodeSteps decodes the recorded steps of one run.
func decodeSteps(raw [][]byte) ([]agentloop.Step, error) {
	steps := make([]agentloop.Step, len(raw))
	for i, b := range raw {
		if err := json.Unmarshal(b, &steps[i]); err != nil {
			return nil, fmt.Errorf("reading step %d: %w", i+1, err)
		}
	}
	return steps, nil
}
