package openai

import (
	"context"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/store/sessiondb"
)

const (
	maxReferences  = 1_000   // maximum number of runs whose answers are read for one request; older answers would not fit into a prompt
	maxAnswerBytes = 1 << 20 // maximum total size, in bytes, of the answers that are read for one request
)

// resolveReferences reads the answers to which the request refers by id. If the submission's
// session contains one of them, the submission continues the run of that answer. resolveReferences
// also sets the message and the history of s. The error is an invalid input for an answer that does
// not exist or belongs to another principal.
func (h *Handler) resolveReferences(ctx context.Context, s *dispatch.Submission, request *openaiapi.ResponseAsk) error {
	answers, err := h.SessionsDB.Answers(ctx, s.Caller.OrganizationID, s.Principal, referredRuns(request.References), maxAnswerBytes)
	if err != nil {
		return err
	}

	found := make(map[string]sessiondb.Answer, len(answers))
	for _, a := range answers {
		found[a.RunID] = a
	}

	// Older references are not looked up. They have no answer below, so they become no messages.
	for _, r := range request.References[max(0, len(request.References)-maxReferences):] {
		if _, known := found[r.RunID]; !known {
			return apierr.Invalid(r.Field, openaiapi.CodeNoItem, openaiapi.NoItem)
		}
	}

	request.Resolve(func(runID string) (string, bool) {
		answer, known := found[runID]
		if known && s.SessionID != "" && answer.SessionID == s.SessionID && answer.TargetID == s.Target() {
			if request.Previous == "" {
				s.Previous = &answer.RunID
			}
			return "", false
		}
		if !known || answer.Text == nil {
			return "", false
		}
		return *answer.Text, true
	})
	s.Message, s.History = request.Conversation.Message, request.Conversation.History
	return nil
}

// referredRuns returns the ids of the runs in the last maxReferences references, without
// duplicates. The order is that of the references.
func referredRuns(references []openaiapi.Reference) []string {
	runs, seen := []string{}, map[string]bool{}
	for _, r := range references[max(0, len(references)-maxReferences):] {
		if !seen[r.RunID] {
			seen[r.RunID] = true
			runs = append(runs, r.RunID)
		}
	}
	return runs
}
