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

// Reasons why a server has no tools, if the server itself did not give a reason.
const (
	noTools     = "The server offers no tools that the agent can use."
	notListed   = "The server's tools could not be listed."
	firstListed = "The server's tools could not be listed when the run started."
)

// remoteSpecs returns the tools of the agent's MCP servers. The returned function reason returns
// why the given server has no tools. The first attempt lists and records the tools. Later attempts
// use the recorded list, which contains no reasons.
func (t *Tools) remoteSpecs(ctx context.Context, run Run, tools domain.MCPTool) (
	specs []tool.Spec, reason func(server string) string, err error,
) {
	// The tools must not change between attempts, because the prompt contains earlier calls of
	// these tools.
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

	// Record even an empty list, so that later attempts have the same tools.
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

// list asks a tool worker for the tools of the agent's MCP servers. If this fails, the run
// continues without these tools, and a note in the prompt names the servers. The returned function
// reason returns why the given server has no tools.
func (t *Tools) list(ctx context.Context, run Run) (specs []contract.ToolSpec, reason func(server string) string, err error) {
	failed := func(string) string { return notListed }
	answer, err := t.ask(ctx, run, contract.ToolMCP, contract.ToolRequest{Operation: contract.OperationList})
	switch {
	// If the run has ended, do not report this as a failure of the servers.
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

// readSpecs decodes the recorded list and returns the tools of the servers that the agent still
// has. The tools' side effects come from the organization's configuration and not from the list.
func readSpecs(raw []byte, tools domain.MCPTool) ([]tool.Spec, error) {
	var listed []contract.ToolSpec
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Errorf("reading tool set: %w", err)
	}

	specs := make([]tool.Spec, 0, len(listed))
	for _, s := range listed {
		// Skip a tool if the configuration no longer contains its server.
		if effect, found := tools.SideEffectFor(s.Name); found {
			specs = append(specs, tool.Spec{Name: s.Name, Description: s.Description, Schema: s.Schema, SideEffect: effect})
		}
	}
	return specs, nil
}

// absentServers returns a warning for each server that has no tool in specs.
func absentServers(servers []domain.MCPServer, specs []tool.Spec, reason func(server string) string) []domain.RunWarning {
	var absent []domain.RunWarning
	for _, server := range servers {
		found := false
		for _, s := range specs {
			// A tool's name begins with the name of its server; see mcp.Name.
			found = found || strings.HasPrefix(s.Name, server.Name+"_")
		}
		if !found {
			absent = append(absent, domain.RunWarning{Kind: domain.CheckMCP, Name: server.Name, Message: reason(server.Name)})
		}
	}
	return absent
}
