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

// setStep is the number under which the journal keeps a run's tool set, before its first step.
const setStep = 0

// remoteSpecs gives the tools that others decide on: as they were when the run started, whatever attempt this is.
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
	raw, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("encoding tool set: %w", err)
	}
	held, err := t.journal.Journal(ctx, run.Held, setStep, [][]byte{raw})
	switch {
	case err != nil:
		return nil, unreachable(fmt.Errorf("recording tool set: %w", err))
	case !held:
		return nil, unreachable(tool.ErrStale)
	}
	return readSpecs(raw, tools)
}

// list asks a tool worker. Without an answer the run goes on without these tools, and is told so.
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

// readSpecs takes the tools that are of the agent's servers. What a call of one may do is the organization's word, whoever
// has listed it.
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

// absent names the servers that none of the tools is of.
func absent(servers []domain.MCPServer, specs []tool.Spec) []string {
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
