package toolset

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/schema"
	"parley/shared/store/lease"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/codeexec"
	"parley/workers/internal/tool/httprequest"
	"parley/workers/internal/tool/knowledge"
	"parley/workers/internal/tool/websearch"
)

// Caller sends requests to tool workers.
type Caller interface {
	// Call sends a request and returns the encoded reply. Its errors include bus.ErrToolRefused,
	// bus.ErrToolsAway, bus.ErrNoToolWorker and bus.ErrToolTooLarge.
	Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error)
}

// Signer signs capabilities.
type Signer interface {
	// Sign returns a capability with the claims. The capability is valid only together with the
	// body.
	Sign(claims, body []byte) string
}

// Ledger is the effect ledger. It stores the state of each call that has side effects or needs
// approval.
type Ledger interface {
	// PrepareEffect inserts an entry for a call, or returns the entry from an earlier attempt. If
	// ask is true, a new entry waits for a person's decision. PrepareEffect returns false if the
	// run no longer belongs to this worker.
	PrepareEffect(ctx context.Context, held lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error)

	// VoidEffect sets a call's entry to void. It returns false if a tool worker has already taken
	// the call, or if another worker has taken over the run.
	VoidEffect(ctx context.Context, held lease.Held, callID string) (bool, error)
}

// Journal stores the tool set of a run.
type Journal interface {
	// ToolSet returns the recorded tool set, or nil if none was recorded.
	ToolSet(ctx context.Context, org, runID string) ([]byte, error)

	// KeepToolSet records the tool set. If the run no longer belongs to this worker, KeepToolSet
	// writes nothing and returns false.
	KeepToolSet(ctx context.Context, held lease.Held, tools []byte) (bool, error)
}

// Code describes the sandboxes in which the agents' code runs.
type Code struct {
	Limits sandbox.Limits // limits for the descriptions that models receive; a limit of 0 is not mentioned
	// CallTime is the time limit of a call, including the wait for a sandbox. If it is 0, the limit
	// is two minutes.
	CallTime time.Duration
}

// Tools creates tool sets. It is safe for concurrent use.
type Tools struct {
	caller  Caller
	signer  Signer
	ledger  Ledger
	journal Journal
	code    Code
}

// New creates Tools.
func New(caller Caller, signer Signer, ledger Ledger, journal Journal, code Code) *Tools {
	code.CallTime = cmp.Or(code.CallTime, 2*time.Minute)
	return &Tools{caller: caller, signer: signer, ledger: ledger, journal: journal, code: code}
}

// callTime returns the time limit of a call to a tool of the given kind.
func (t *Tools) callTime(kind string) time.Duration {
	switch kind {
	// A search that takes longer has very probably failed.
	case contract.ToolWebSearch, contract.ToolKnowledge:
		return 30 * time.Second
	// This limit is longer than the limit of the HTTP request, so that the outcome of the request
	// can still arrive.
	case contract.ToolHTTPRequest:
		return time.Minute
	case contract.ToolCodeExecution:
		return t.code.CallTime
	default:
		return 2 * time.Minute
	}
}

// Run describes the run for which a tool set is created.
type Run struct {
	lease.Held
	TargetID      string
	ConfigVersion int
	Deadline      time.Time // the run's deadline on this process's clock
	First         bool      // true in the run's first attempt
	// Code, if not nil, reserves run time before each call that runs code. If it returns an error,
	// the attempt ends. Otherwise the caller must call done with the time that the call has taken.
	Code func(ctx context.Context) (done func(took time.Duration), err error)
	Log  zerolog.Logger
}

// Set contains the tools of a run.
type Set struct {
	Registry *tool.Registry // nil if the agent has no tools
	// Absent contains a warning for each MCP server that had no tools when the run started. The
	// warning includes the reason if it is known.
	Absent []domain.RunWarning
}

// For returns the tools that are enabled in the configuration of a run.
func (t *Tools) For(ctx context.Context, run Run, tools domain.Tools) (Set, error) {
	// If two tools have the same name, only the first tool is added. Built-in tools come first.
	b := builder{tools: t, run: run, taken: map[string]bool{}}
	if enabled(tools.WebSearch) {
		b.add(contract.ToolWebSearch, tools.WebSearch.Approval, websearch.Spec())
	}
	if tools.CodeExecution != nil && tools.CodeExecution.Enabled {
		b.add(contract.ToolCodeExecution, tools.CodeExecution.Approval, t.codeSpec(tools))
	}
	if tools.Knowledge != nil && tools.Knowledge.Enabled {
		b.add(contract.ToolKnowledge, tools.Knowledge.Approval, knowledge.Spec())
	}
	if tools.HTTPRequest != nil && tools.HTTPRequest.Enabled {
		b.add(contract.ToolHTTPRequest, tools.HTTPRequest.Approval, httprequest.Specs(*tools.HTTPRequest)...)
	}

	var set Set

	// The tools of MCP servers must be requested from the servers, which may take some time.
	if tools.MCP != nil && tools.MCP.Enabled && len(tools.MCP.Servers) > 0 {
		specs, absent, err := t.remoteSpecs(ctx, run, *tools.MCP)
		if err != nil {
			return set, err
		}
		b.add(contract.ToolMCP, tools.MCP.Approval, specs...)
		set.Absent = absentServers(tools.MCP.Servers, specs, absent)
	}

	if len(b.list) == 0 {
		return set, nil
	}
	var err error
	set.Registry, err = tool.NewRegistry(b.list...)
	return set, err
}

// codeSpec returns the description of codeExecution. If the agent also has the tool knowledge, its
// code may read the documents.
func (t *Tools) codeSpec(tools domain.Tools) tool.Spec {
	return codeexec.Spec(*tools.CodeExecution, t.code.Limits, tools.Knowledge != nil && tools.Knowledge.Enabled)
}

// enabled reports whether a tool is configured and enabled.
func enabled(s *domain.Switch) bool { return s != nil && s.Enabled }

// builder collects the tools of a run.
type builder struct {
	tools *Tools
	run   Run
	list  []tool.Tool
	// taken contains the names that are in use. Names must be unique among all kinds of tools.
	taken map[string]bool
}

// add adds tools. It skips a tool if its name is in use or its schema is invalid, because one
// invalid tool must not disable the others.
func (b *builder) add(kind string, approval domain.Approval, specs ...tool.Spec) {
	for _, spec := range specs {
		compiled, err := schema.Compile(spec.Schema)
		if err != nil || b.taken[spec.Name] {
			b.run.Log.Warn().Err(err).Str("tool", spec.Name).Msg("tool omitted: its name is in use, or its schema is invalid")
			continue
		}
		b.taken[spec.Name] = true

		// A call that waits for a person ends the attempt, so no other call may run at the same
		// time.
		needsApproval := approval.Asks(spec.SideEffect)
		spec.Alone = spec.Alone || needsApproval
		b.list = append(b.list, &remoteTool{tools: b.tools, run: b.run, kind: kind, spec: spec, schema: compiled, needsApproval: needsApproval})
	}
}
