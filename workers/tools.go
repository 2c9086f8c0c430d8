package workers

import (
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
	w.tools, err = toolserver.New(toolserver.Config{Concurrency: w.cfg.ToolConcurrency}, toolserver.Deps{
		Bus: w.deps.Bus, Records: w.deps.Store, Ledger: w.deps.Store, Verifier: signer,
		Backends: []tool.Backend{search, httprequest.New(client, open), mcp.New(client, open)},
		Metrics:  w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}
