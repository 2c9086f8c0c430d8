package dispatch

import (
	"context"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// codeInvalidValue is the code of a setting that the agent or its model does not accept.
const codeInvalidValue = "invalid_value"

// SettingNames contains the names of model settings in a protocol other than Parley's. A nil
// *SettingNames means Parley's own names.
type SettingNames struct {
	// Fields maps a setting to its name in the request. A setting that is not in the map keeps
	// Parley's name.
	Fields      map[domain.Setting]string
	Unsupported string // error code for a setting that the agent or its model does not accept with any value
}

// fields returns the field problems for settings, with the names of the settings in the request's
// protocol.
func (n *SettingNames) fields(faults []domain.SettingFault) (out []apierr.Field) {
	for _, f := range faults {
		field := apierr.Field{Field: string(f.Setting), Code: codeInvalidValue, Message: f.Message}
		if n != nil {
			if name, ok := n.Fields[f.Setting]; ok {
				field.Field = name
			}
			if f.Unsupported {
				field.Code = n.Unsupported
			}
		}
		out = append(out, field)
	}
	return out
}

// checkSettings checks the model settings of a request. It returns an error if the agent does not
// let requests change a setting, or if one of the agent's models does not accept a setting. If the
// agent does not exist, it returns nil, because a later step reports the missing agent.
func (r *Submitter) checkSettings(ctx context.Context, s *Submission) error {
	asked := s.Options.Settings
	if asked == nil {
		return nil
	}

	// Requests may change every setting of a template, so only its model limits them.
	var agent domain.Agent
	var err error
	if s.AgentID != "" {
		agent, err = r.store.Agents.Agent(ctx, s.Caller.OrganizationID, s.AgentID)
	} else {
		var template domain.Template
		template, err = r.store.Agents.Template(ctx, s.TemplateID)
		agent.Model = template.Model
	}
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return nil
	case err != nil:
		return err
	}

	// First report the settings that the agent does not let requests change. These settings are not
	// checked against the models, so that each of them is reported only once.
	var found []domain.SettingFault
	changed := map[domain.Setting]bool{}
	for _, name := range asked.Names() {
		changed[name] = true
		if !agent.MayOverride(name) {
			changed[name] = false
			found = append(found, domain.SettingFault{
				Setting: name, Message: "cannot be changed by requests to this agent", Unsupported: true,
			})
		}
	}

	// The agent's own settings were checked when it was saved.
	for _, fault := range r.Models.Faults(agent.Model, agent.FallbackModels, asked.Over(agent.ModelSettings)) {
		switch {
		case changed[fault.Setting]:
			found = append(found, fault)
		case changed[fault.With]: // the agent's setting conflicts with a setting of the request; the error names the latter
			found = append(found, domain.SettingFault{Setting: fault.With, Message: fault.WithMessage})
		}
	}
	return apierr.InvalidFields(s.SettingNames.fields(found))
}
