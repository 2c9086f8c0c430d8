package toolserver

import (
	"encoding/json"
	"errors"
	"fmt"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
)

var (
	// These errors appear only in logs. A caller does not learn why its capability was refused.
	errExpired   = errors.New("the capability has expired")
	errKind      = errors.New("the capability is for another kind of tool")
	errNotBound  = errors.New("the capability has no run, organization or agent")
	errOperation = errors.New("the operation is unknown or not allowed for this call")
	errOtherCall = errors.New("the request does not match the capability")
)

// verify decodes a call and its capability. It fails unless a process of this service has signed
// both together and the capability permits the call.
func (s *Server) verify(kind string, m bus.ToolMessage) (contract.Capability, contract.ToolRequest, error) {
	var c contract.Capability
	var r contract.ToolRequest
	claims, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return c, r, fmt.Errorf("verifying capability: %w", err)
	}
	if err := contract.ReadClaims(claims, &c); err != nil {
		return c, r, fmt.Errorf("reading capability: %w", err)
	}
	if err := json.Unmarshal(m.Body, &r); err != nil { // unknown fields are ignored, because a later release may send more fields
		return c, r, fmt.Errorf("reading request: %w", err)
	}
	return c, r, allows(c, r, kind)
}

// allows returns an error if the capability does not permit the request.
func allows(c contract.Capability, r contract.ToolRequest, kind string) error {
	switch {
	// The check tolerates a small difference between the clocks of two hosts.
	case contract.Expired(c.Expires):
		return errExpired
	case c.Kind != kind:
		return errKind
	// A capability that lacks any of these fields would not be limited to a single run.
	case c.OrganizationID == "" || c.RunID == "" || c.TargetID == "" || c.ConfigVersion < 1 || c.Fence < 1:
		return errNotBound
	// The effect key is derived from the ids, so a caller cannot use the key of another call.
	case r.CallID != c.CallID || r.EffectKey != "" && r.EffectKey != contract.EffectKey(c.RunID, c.CallID):
		return errOtherCall
	// A call needs an id. A request for a list of tools must have no effect key.
	case r.Operation == contract.OperationCall && c.CallID != "", r.Operation == contract.OperationList && r.EffectKey == "":
		return nil
	default:
		return errOperation
	}
}

// enabled reports whether a configuration enables tools of the given kind.
func enabled(kind string, tools domain.Tools) bool {
	switch kind {
	case contract.ToolWebSearch:
		return tools.WebSearch != nil && tools.WebSearch.Enabled
	case contract.ToolCodeExecution:
		return tools.CodeExecution != nil && tools.CodeExecution.Enabled
	case contract.ToolHTTPRequest:
		return tools.HTTPRequest != nil && tools.HTTPRequest.Enabled
	case contract.ToolMCP:
		return tools.MCP != nil && tools.MCP.Enabled
	case contract.ToolKnowledge:
		return tools.Knowledge != nil && tools.Knowledge.Enabled
	case contract.ToolAttachment:
		return true // these calls are always enabled, because they read only the run's own files
	default:
		return false
	}
}

// repeatable reports whether, according to the configuration, calls of a tool have no side effect.
// Only such calls may be made without the effect ledger. The request's own statement is not
// trusted. A tool that is missing in the configuration is not repeatable.
func repeatable(kind, name string, tools domain.Tools) bool {
	switch kind {
	case contract.ToolWebSearch, contract.ToolKnowledge, contract.ToolAttachment:
		return true
	case contract.ToolCodeExecution:
		return true // code has no effect outside of the sandbox, and a repeated call starts with the same files
	case contract.ToolHTTPRequest:
		known := false
		// Several endpoints may have the same name. The tool is repeatable only if none of them has
		// a side effect.
		for _, e := range tools.HTTPRequest.Endpoints {
			if e.Name == name && e.SideEffect != domain.SideEffectNone {
				return false
			}
			known = known || e.Name == name
		}
		return known
	case contract.ToolMCP:
		effect, known := tools.MCP.SideEffectFor(name)
		return known && effect == domain.SideEffectNone
	default:
		return false
	}
}

// specs converts descriptions of tools to the format of the bus.
func specs(listed []tool.Spec) []contract.ToolSpec {
	out := make([]contract.ToolSpec, len(listed))
	for n, s := range listed {
		out[n] = contract.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema, SideEffect: s.SideEffect}
	}
	return out
}
