package runner

import (
	"context"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
)

// systemPrompt returns the agent's system prompt with its variables replaced by their values.
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
