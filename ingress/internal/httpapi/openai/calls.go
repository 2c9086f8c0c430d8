package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/rundb"
)

// maxRounds is the maximum number of runs that nameRounds looks up for a history, beginning with
// the newest. Older runs are so far back that their calls rarely fit into the prompt.
const maxRounds = 64

// nameRounds finds the runs that ended with the tool calls in the submission's history, and adds
// their ids to the history. A run may also have called tools of its agent, of which the client
// knows nothing. Because of the run's id, these calls also become part of the history. The ids come
// from the client, so an id counts only if the run belongs to the submission's principal and
// target. A round without such a run stays as the client sent it.
func (h *Handler) nameRounds(ctx context.Context, s *dispatch.Submission) error {
	// Begin with the newest round, because only maxRounds runs are looked up.
	named := map[string][]*domain.CallRound{}

	// A run can be named by several rounds, and is read once.
	var runs []string
	for i := range slices.Backward(s.History) {
		for j := range slices.Backward(s.History[i].Rounds) {
			round := &s.History[i].Rounds[j]
			runID := domain.RunOfClientCall(round.Calls[0].ToolCallID)
			if round.RunID != "" || !id.Valid(id.Run, runID) || len(runs) == maxRounds {
				continue
			}
			if named[runID] == nil {
				runs = append(runs, runID)
			}
			named[runID] = append(named[runID], round)
		}
	}

	if len(runs) > 0 {
		// Use only runs of the same caller and of the same agent or template.
		answers, err := h.SessionsDB.Answers(ctx, s.Caller.OrganizationID, s.Principal, runs, 0)
		if err != nil {
			return err
		}
		for _, a := range answers {
			for _, round := range named[a.RunID] {
				if a.TargetID == s.Target() {
					round.RunID = a.RunID
				}
			}
		}
	}

	return h.describeCalls(ctx, s)
}

// describeCalls adds the names and arguments of calls that the request refers to only by their ids.
// The error is an invalid input if the run of such a call is unknown or has not made the call.
func (h *Handler) describeCalls(ctx context.Context, s *dispatch.Submission) error {
	for i := range s.History {
		for j := range s.History[i].Rounds {
			round := &s.History[i].Rounds[j]

			// Most requests repeat the calls completely, so their runs need not be read.
			if !slices.ContainsFunc(round.Calls, func(c domain.ClientCall) bool { return c.Name == "" }) {
				continue
			}

			var made []domain.ToolCall
			if round.RunID != "" {
				run, err := h.finished(ctx, s, round.RunID)
				if err != nil {
					return err
				}
				made = run.ClientCalls()
			}

			for k, call := range round.Calls {
				at := slices.IndexFunc(made, func(m domain.ToolCall) bool { return m.ID == call.ToolCallID })
				if call.Name == "" && at < 0 {
					return apierr.Invalid("input", openaiapi.CodeNoItem, openaiapi.NoItem)
				}
				if call.Name == "" {
					round.Calls[k].Name, round.Calls[k].Input = made[at].Name, made[at].Input
				}
			}
		}
	}
	return nil
}

// finished returns a run of the submission's principal. If the run has finished, it returns the
// whole run. For an unfinished run, it returns the stored columns only. The error is not_found for
// a run of another principal.
func (h *Handler) finished(ctx context.Context, s *dispatch.Submission, runID string) (run domain.Run, err error) {
	stored, err := h.RunsDB.RunByID(ctx, s.Caller.OrganizationID, s.Principal, runID)
	if err != nil {
		return run, err
	}

	raw, err := stored.Result()
	if err != nil || raw == nil {
		return stored.Run, err
	}

	if err := json.Unmarshal(raw, &run); err != nil {
		return run, fmt.Errorf("reading result: %w", err)
	}
	return run, nil
}

// takeResults handles a request that contains the results of tool calls, but not the calls
// themselves, which were part of an earlier response. It adds the earlier message, its calls and
// the results to the history. If the request contains no message, the new run answers the earlier
// message again, with the results. results must not be empty. All results must belong to the run of
// the first result. This run must belong to the session and target of the submission, and becomes
// s.Previous.
func (h *Handler) takeResults(ctx context.Context, s *dispatch.Submission, results []openaiapi.Result) error {
	unknown := apierr.Invalid(results[0].Field, "invalid_value",
		"no earlier call has this id; send its function_call item too, or set previous_response_id")

	runID := domain.RunOfClientCall(results[0].ToolCallID)
	if !id.Valid(id.Run, runID) {
		return unknown
	}

	run, err := h.finished(ctx, s, runID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return unknown
	case err != nil:
		return err
	case s.SessionID == "" || run.SessionID != s.SessionID || (&rundb.StoredRun{Run: run}).Target() != s.Target():
		return unknown
	}

	round, err := answeredRound(&run, results)
	if err != nil {
		return err
	}

	raw, err := h.RunsDB.Input(ctx, s.Caller.OrganizationID, run.ID)
	if err != nil {
		return err
	}

	var in domain.Input
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("reading input of run: %w", err)
	}

	// The run may itself have begun with results, so its input has earlier rounds of the same
	// message.
	_, open := in.OpenRounds()
	whole := domain.Exchange{Rounds: append(open, round)}

	if s.Message == "" {
		s.Message, s.Previous = in.Message, &run.ID
		s.History = []domain.Exchange{whole}
		return nil
	}

	whole.Message, s.Previous = cmp.Or(in.Message, openaiapi.AttachedText), &run.ID
	s.History = append([]domain.Exchange{whole}, s.History...)
	return nil
}

// answeredRound returns the calls with which a run ended, with their results. It returns an error
// unless there is exactly one result for each call, and no other result. The results are in the
// order of the calls.
func answeredRound(run *domain.Run, results []openaiapi.Result) (round domain.CallRound, err error) {
	round.RunID = run.ID
	if run.Message != nil {
		round.Text = *run.Message
	}

	for _, call := range run.ClientCalls() {
		at := slices.IndexFunc(results, func(r openaiapi.Result) bool { return r.ToolCallID == call.ID })
		if at < 0 {
			return round, missingResult(call.ID, call.Name)
		}
		round.Calls = append(round.Calls, domain.ClientCall{ToolCallID: call.ID, Name: call.Name, Input: call.Input})
		round.Results = append(round.Results, results[at].ClientResult)
	}

	// Each result must belong to a call. If two results have the same id, the second is an error.
	for i, r := range results {
		repeated := slices.IndexFunc(results, func(o openaiapi.Result) bool { return o.ToolCallID == r.ToolCallID }) != i
		if repeated || !slices.ContainsFunc(round.Calls, func(c domain.ClientCall) bool { return c.ToolCallID == r.ToolCallID }) {
			return round, apierr.Invalid(r.Field, "invalid_value", "no call with this id waits for a result")
		}
	}
	return round, nil
}

// missingResult returns the error for a request that continues a response, but lacks the result of
// one of the calls in that response. The error has the path input, because the missing item has no
// path.
func missingResult(callID, name string) error {
	return apierr.Invalid("input", "invalid_value", "the result of the call %s of the tool %q is missing", callID, name)
}

// unansweredCall checks the run that a request without results continues. It returns an error if
// the run ended with calls of tools of the client, whose results are therefore missing. A client
// must send the results of all calls before the conversation can continue, as with OpenAI's API.
func unansweredCall(run *rundb.StoredRun) error {
	// A large result is not read. It is treated as a result without calls of the client's tools.
	raw, _ := run.Result()

	// Search the text first, because decoding every result would be slower.
	if !bytes.Contains(raw, []byte(`"finishReason":"tool_calls"`)) {
		return nil
	}

	var ended domain.Run
	if err := json.Unmarshal(raw, &ended); err != nil {
		return fmt.Errorf("reading result: %w", err)
	}

	for _, call := range ended.ClientCalls() {
		return missingResult(call.ID, call.Name)
	}
	return nil
}

// sentResults returns the tool results in a request as parts of the request's fingerprint. The
// fingerprint distinguishes requests with the same idempotency key.
func sentResults(results []openaiapi.Result) (sent []string) {
	for _, r := range results {
		sent = append(sent, "result", r.ToolCallID, string(r.Output))
	}
	return sent
}
