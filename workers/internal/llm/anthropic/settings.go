package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"parley/shared/domain"
)

// setSettings sets the model settings, except the output limit and the choice of tools. The
// protocol has no seed.
func (m *Model) setSettings(p *sdk.MessageNewParams, s domain.ModelSettings) {
	// Models with adaptive thinking accept only the default temperature.
	if s.Temperature != nil && !m.size.adaptive {
		p.Temperature = param.NewOpt(*s.Temperature)
	}
	if s.TopP != nil && *s.TopP < 1 { // a topP of 1 has no effect, and many models reject topP together with a temperature
		p.TopP = param.NewOpt(*s.TopP)
	}
	if s.ReasoningEffort != nil {
		p.OutputConfig.Effort = sdk.OutputConfigEffort(*s.ReasoningEffort)
	}
	p.StopSequences = s.Stop
}
