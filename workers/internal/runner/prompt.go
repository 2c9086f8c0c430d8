package runner

import (
	"context"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
)

// systemPrompt returns the agent's system prompt with the values of its variables.
func (r *Runner) systemPrompt(ctx context.Context, a *attempt, cfg domain.Config, asked domain.Input) (string, error) {
	if !cfg.PromptVariables {
		return cfg.SystemPrompt, nil
	}

	// The time is that of the run's acceptance and not of the attempt, so that a retry has the same
	// prompt.
	values := domain.PromptValues{Now: a.claim.CreatedAt, SessionID: a.claim.SessionID, Message: asked.Message, Input: asked.Data}
	if domain.PromptUses(cfg.SystemPrompt) {
		// Only a prompt that uses the name costs a query.
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
