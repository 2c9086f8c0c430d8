package openai

import (
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"parley/shared/domain"
)

// setSettings sets the model settings, except the output limit. A setting that is nil is omitted,
// so that the server's default applies. The caller must set p.Tools first.
func setSettings(p *sdk.ChatCompletionNewParams, s domain.ModelSettings) {
	if s.Temperature != nil {
		p.Temperature = param.NewOpt(*s.Temperature)
	}
	if s.TopP != nil {
		p.TopP = param.NewOpt(*s.TopP)
	}
	if s.ReasoningEffort != nil {
		p.ReasoningEffort = shared.ReasoningEffort(*s.ReasoningEffort)
	}
	if s.Seed != nil {
		p.Seed = param.NewOpt(*s.Seed)
	}
	if len(s.Stop) > 0 {
		p.Stop.OfStringArray = s.Stop
	}

	// Servers reject the parameter parallel_tool_calls if there are no tools. Some models reject
	// this parameter even if it has its default value, true.
	if s.ParallelToolCalls != nil && !*s.ParallelToolCalls && len(p.Tools) > 0 {
		p.ParallelToolCalls = param.NewOpt(false)
	}
}
