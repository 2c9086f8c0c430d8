package dispatch

import (
	"context"
	"strconv"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

// checkToolNames returns an error if a tool of the client has the same name as a tool of the agent.
// The names of MCP servers' tools are checked later, when the run starts, because they are not
// known here. The field in the error is that of the tool in the request. If the agent does not
// exist, the error is not_found.
func (r *Submitter) checkToolNames(ctx context.Context, s *Submission) error {
	if s.Options.ClientTools == nil {
		return nil
	}

	var tools domain.Tools
	if s.AgentID != "" {
		agent, err := r.store.Agents.Agent(ctx, s.Caller.OrganizationID, s.AgentID)
		if err != nil {
			return err
		}
		tools = agent.Tools
	} else {
		template, err := r.store.Agents.Template(ctx, s.TemplateID)
		if err != nil {
			return err
		}
		tools = template.Tools
	}

	own := ownToolNames(tools)
	for i, t := range s.Options.ClientTools.Tools {
		if own[t.Name] {
			return apierr.Invalid("tools["+strconv.Itoa(i)+"]"+s.ToolField+".name", "conflict",
				"is already the name of one of the agent's own tools: %s", t.Name)
		}
	}
	return nil
}

// ownToolNames returns the names of an agent's tools, except those of MCP servers. The value is
// false for a tool that is off.
func ownToolNames(tools domain.Tools) map[string]bool {
	own := map[string]bool{
		contract.ToolWebSearch:     tools.WebSearch != nil && tools.WebSearch.Enabled,
		contract.ToolCodeExecution: tools.CodeExecution != nil && tools.CodeExecution.Enabled,
		contract.ToolKnowledge:     tools.Knowledge != nil && tools.Knowledge.Enabled,
	}
	if tools.HTTPRequest != nil && tools.HTTPRequest.Enabled {
		for _, e := range tools.HTTPRequest.Endpoints {
			own[e.Name] = true
		}
	}
	return own
}
