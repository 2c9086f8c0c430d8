package toolset

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// remoteSpecs returns the tools of the agent's MCP servers. The first attempt lists and records
// them; later attempts use the recorded list.
func (t *Tools) remoteSpecs(ctx context.Context, run Run, tools domain.MCPTool) ([]tool.Spec, error) {
	if !run.First {
		kept, err := t.journal.ToolSet(ctx, run.OrganizationID, run.RunID)
		if err != nil {
			return nil, unreachable(fmt.Errorf("reading tool set: %w", err))
		}
		if kept != nil {
			return readSpecs(kept, tools)
		}
	}

	specs, err := t.list(ctx, run)
	if err != nil {
		return nil, err
	}

	// The list is recorded even if it is empty, so that later attempts have the same tools.
	raw, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("encoding tool set: %w", err)
	}

	held, err := t.journal.KeepToolSet(ctx, run.Held, raw)
	switch {
	case err != nil:
		return nil, unreachable(fmt.Errorf("recording tool set: %w", err))
	case !held:
		return nil, unreachable(tool.ErrStale)
	}
	return readSpecs(raw, tools)
}

// list asks a tool worker for the tools of the agent's MCP servers. If that fails, the run
// continues without these tools, and the prompt names the servers.
func (t *Tools) list(ctx context.Context, run Run) ([]contract.ToolSpec, error) {
	answer, err := t.ask(ctx, run, contract.ToolMCP, contract.ToolRequest{Operation: contract.OperationList})
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("listing tools: %w", context.Cause(ctx))
	case err != nil:
		run.Log.Warn().Err(err).Msg("cannot list the tools of MCP servers; the run continues without them")
		return nil, nil
	case answer.Failure != nil:
		run.Log.Warn().Str("reason", answer.Failure.Message).Msg("cannot list the tools of MCP servers; the run continues without them")
		return nil, nil
	}
	return answer.Tools, nil
}

// readSpecs decodes the recorded list and returns the tools that belong to the agent's servers. The
// organization's configuration determines their side effects, not the list.
func readSpecs(raw []byte, tools domain.MCPTool) ([]tool.Spec, error) {
	var listed []contract.ToolSpec
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Errorf("reading tool set: %w", err)
	}

	specs := make([]tool.Spec, 0, len(listed))
	for _, s := range listed {
		if effect, found := tools.SideEffectFor(s.Name); found {
			specs = append(specs, tool.Spec{Name: s.Name, Description: s.Description, Schema: s.Schema, SideEffect: effect})
		}
	}
	return specs, nil
}

// absentServers returns the names of the servers to which no tool in specs belongs.
func absentServers(servers []domain.MCPServer, specs []tool.Spec) []string {
	var names []string
	for _, server := range servers {
		found := false
		for _, s := range specs {
			found = found || strings.HasPrefix(s.Name, server.Name+"_")
		}
		if !found {
			names = append(names, server.Name)
		}
	}
	return names
}
