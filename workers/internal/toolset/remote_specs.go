package toolset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// Reasons for a server without tools that do not come from the server.
const (
	noTools     = "The server offers no tools that the agent can use."
	notListed   = "The server's tools could not be listed."
	firstListed = "The server's tools could not be listed when the run started."
)

// remoteSpecs returns the tools of the agent's MCP servers. reason returns why a server has none. The
// first attempt lists and records the tools; later attempts use the recorded list, which
// contains no reasons.
func (t *Tools) remoteSpecs(ctx context.Context, run Run, tools domain.MCPTool) (
	specs []tool.Spec, reason func(server string) string, err error,
) {
	// The tools must not change between attempts: the model's earlier calls depend on them.
	if !run.First {
		kept, err := t.journal.ToolSet(ctx, run.OrganizationID, run.RunID)
		if err != nil {
			return nil, nil, unreachable(fmt.Errorf("reading tool set: %w", err))
		}
		if kept != nil {
			specs, err = readSpecs(kept, tools)
			return specs, func(string) string { return firstListed }, err
		}
	}

	listed, reason, err := t.list(ctx, run)
	if err != nil {
		return nil, nil, err
	}

	// The list is recorded even if it is empty, so that later attempts have the same tools.
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding tool set: %w", err)
	}

	held, err := t.journal.KeepToolSet(ctx, run.Held, raw)
	switch {
	case err != nil:
		return nil, nil, unreachable(fmt.Errorf("recording tool set: %w", err))
	case !held:
		return nil, nil, unreachable(tool.ErrStale)
	}
	specs, err = readSpecs(raw, tools)
	return specs, reason, err
}

// list asks a tool worker for the tools of the agent's MCP servers. If that fails, the run
// continues without these tools, and the prompt names the servers. reason returns why a server has
// no tools.
func (t *Tools) list(ctx context.Context, run Run) (specs []contract.ToolSpec, reason func(server string) string, err error) {
	failed := func(string) string { return notListed }
	answer, err := t.ask(ctx, run, contract.ToolMCP, contract.ToolRequest{Operation: contract.OperationList})
	switch {
	// The end of the run must not be mistaken for a failure of the servers.
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("listing tools: %w", context.Cause(ctx))
	case err != nil:
		run.Log.Warn().Err(err).Msg("cannot list the tools of MCP servers; the run continues without them")
		return nil, failed, nil
	case answer.Failure != nil:
		run.Log.Warn().Str("reason", answer.Failure.Message).Msg("cannot list the tools of MCP servers; the run continues without them")
		return nil, failed, nil
	}
	return answer.Tools, func(server string) string {
		at := slices.IndexFunc(answer.Absent, func(a contract.AbsentServer) bool { return a.Name == server })
		if at < 0 {
			return noTools
		}
		return answer.Absent[at].Reason
	}, nil
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
		// A server that the configuration no longer contains is skipped.
		if effect, found := tools.SideEffectFor(s.Name); found {
			specs = append(specs, tool.Spec{Name: s.Name, Description: s.Description, Schema: s.Schema, SideEffect: effect})
		}
	}
	return specs, nil
}

// absentServers returns a warning for each server to which no tool in specs belongs.
func absentServers(servers []domain.MCPServer, specs []tool.Spec, reason func(server string) string) []domain.RunWarning {
	var absent []domain.RunWarning
	for _, server := range servers {
		found := false
		for _, s := range specs {
			// The name of a tool begins with the name of its server; see mcp.Name.
			found = found || strings.HasPrefix(s.Name, server.Name+"_")
		}
		if !found {
			absent = append(absent, domain.RunWarning{Kind: domain.CheckMCP, Name: server.Name, Message: reason(server.Name)})
		}
	}
	return absent
}
