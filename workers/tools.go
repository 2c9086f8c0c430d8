package workers

import (
	"errors"
	"fmt"

	"parley/shared/outbound"
	"parley/shared/secrets"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/httprequest"
	"parley/workers/internal/tool/mcp"
	"parley/workers/internal/tool/websearch"
	"parley/workers/internal/toolserver"
)

// setUpTools makes the tool worker's part: the tools, and the one client by which they reach what lies outside.
func (w *Workers) setUpTools() error {
	client, err := outbound.New(outbound.Config{Allow: w.cfg.OutboundAllow, OwnPorts: w.cfg.OwnPorts})
	if err != nil {
		return fmt.Errorf("reading OUTBOUND_ALLOW: %w", err)
	}
	box, err := secrets.NewBox(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	signer, err := secrets.NewSigner(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}
	open := func(sealed, org, target string) (string, error) {
		return box.Open(sealed, secrets.AgentHeaders(org, target))
	}
	search, err := websearch.New(websearch.Config{
		SearxngURL: w.cfg.SearxngURL, BraveAPIKey: w.cfg.BraveAPIKey, TavilyAPIKey: w.cfg.TavilyAPIKey, WikipediaURL: w.cfg.WikipediaURL,
	}, client)
	if err != nil {
		return fmt.Errorf("setting up web search: %w", err)
	}
	backends := []tool.Backend{search, httprequest.New(client, open), mcp.New(client, open)}
	if w.setUpSandbox(); w.code != nil {
		backends = append(backends, w.code.tool(w.cfg.Sandbox))
	}
	w.tools, err = toolserver.New(toolserver.Config{
		Concurrency: w.cfg.ToolConcurrency, FilesPerOrganization: w.cfg.FilesPerOrganization,
	}, toolserver.Deps{
		Bus: w.deps.Bus, Records: w.deps.Store, Files: w.deps.Store, Ledger: w.deps.Store, Verifier: signer,
		Backends: backends, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// setUpSandbox opens the sandbox that is set. Where it does not work, this process runs no code, and says so: other tools are
// not to suffer for it, and there is nothing weaker to run code in.
func (w *Workers) setUpSandbox() {
	w.code, w.noCode = openCodeRunner(w.cfg.Sandbox, func(err error) {
		w.deps.Log.Error().Err(err).Str("sandbox", w.cfg.SandboxKind).Msg("no sandbox can be kept ready")
	})
	switch {
	case errors.Is(w.noCode, errSandboxOff):
		w.deps.Log.Info().Msg("codeExecution is not served: SANDBOX is off")
	case w.noCode != nil:
		w.deps.Log.Error().Err(w.noCode).Str("sandbox", w.cfg.SandboxKind).Msg("codeExecution is not served: the sandbox does not work here")
	default:
		w.deps.Log.Info().Str("sandbox", w.code.backend.Name()).Int("concurrency", sandboxSlots(w.cfg.Sandbox)).
			Strs("notes", w.code.backend.Notes()).Msg("sandbox ready")
	}
}
