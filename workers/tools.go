package workers

import (
	"errors"
	"fmt"

	"parley/shared/secrets"
	"parley/shared/store/sealdb"
	"parley/workers/internal/checkserver"
	"parley/workers/internal/embedserver"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/attachment"
	"parley/workers/internal/tool/httprequest"
	"parley/workers/internal/tool/knowledge"
	"parley/workers/internal/tool/mcp"
	"parley/workers/internal/tool/websearch"
	"parley/workers/internal/toolserver"
)

// setUpTools sets up the tools, and the server that executes tool calls. It also sets up the
// servers for search, pages, embeddings and checks, which ingresses call.
func (w *Workers) setUpTools() error {
	client := w.outbound
	signer, err := secrets.NewSigner(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}

	// The secrets of tools are decrypted only in this process, and only for the request that needs
	// them.
	open := func(sealed, org, target string) (string, error) {
		return w.sealed.OpenText(sealdb.KindTool, org, target, sealed)
	}

	search, err := websearch.New(websearch.Config{
		SearxngURL: w.cfg.SearxngURL, BraveAPIKey: w.cfg.BraveAPIKey, TavilyAPIKey: w.cfg.TavilyAPIKey, WikipediaURL: w.cfg.WikipediaURL,
	}, client)
	if err != nil {
		return fmt.Errorf("setting up web search: %w", err)
	}

	documents, err := w.setUpSearch(signer)
	if err != nil {
		return fmt.Errorf("setting up the document search: %w", err)
	}

	if err := w.setUpPages(signer); err != nil {
		return fmt.Errorf("setting up pictures of document pages: %w", err)
	}

	// The checks of connections to MCP servers use this backend, too.
	servers := mcp.New(client, open)
	backends := []tool.Backend{search, httprequest.New(client, open), servers, knowledge.New(documents)}
	backends = append(backends, attachment.New(w.attachmentReader(), w.deps.Store.Blobs, 0))
	// Without a sandbox, this process does not offer codeExecution. Other workers then execute its
	// calls.
	if code := w.isolation.code; code != nil {
		backends = append(backends, code.tool(w.cfg.Sandbox))
	}

	prices, err := llm.ParsePrices(w.cfg.ModelPrices)
	if err != nil {
		return fmt.Errorf("reading MODEL_PRICES: %w", err)
	}
	w.deps.Store.Budgets.SetCurrency(w.cfg.Currency())
	w.embeddings = embedserver.New(embedserver.Deps{
		Bus: w.deps.Bus, Embedder: w.embedder, Budgets: w.deps.Store.Budgets, Price: prices.Cost, Verifier: signer,
		Tracer: w.deps.Tracer, Log: w.deps.Log,
	})
	w.toolChecks = checkserver.NewTools(search, servers, client, w.checkDeps(signer))
	st := w.deps.Store
	w.tools, err = toolserver.New(toolserver.Config{
		Concurrency: w.cfg.ToolConcurrency, FilesPerOrganization: w.cfg.FilesPerOrganization,
	}, toolserver.Deps{
		Bus: w.deps.Bus, Records: st.Executions, Sources: st.Blobs, Files: st.Blobs, Documents: st.Knowledge, Ledger: st.Executions,
		Verifier: signer, Backends: backends, Tracer: w.deps.Tracer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// checkDeps returns the dependencies of the server that checks the connections of agents.
func (w *Workers) checkDeps(signer *secrets.Signer) checkserver.Deps {
	return checkserver.Deps{
		Bus: w.deps.Bus, Records: w.deps.Store.Executions, Verifier: signer, Tracer: w.deps.Tracer, Log: w.deps.Log,
	}
}

// warm returns the number of sandboxes that this process keeps ready.
func (w *Workers) warm() int {
	if w.cfg.ColdSandboxes {
		return 0
	}
	return warmSandboxes(w.cfg.Sandbox)
}

// setUpSandbox opens the configured sandbox. If the sandbox does not work, this process logs the
// reason, and neither runs code nor reads documents. This process never uses a weaker sandbox
// instead. Other tools still work. If the operator has disabled the sandbox, the process logs an
// informational line instead of an error.
func (w *Workers) setUpSandbox() {
	kind := w.cfg.SandboxKind
	w.isolation = openIsolation(w.cfg.Sandbox, w.has(RoleTool), w.warm(), func(err error) {
		w.deps.Log.Error().Err(err).Str("sandbox", kind).Msg("cannot keep a sandbox ready")
	})
	switch s := w.isolation; {
	case errors.Is(s.none, errSandboxOff):
		w.deps.Log.Info().Msg("codeExecution and document reading are disabled: SANDBOX is off")
	case s.none != nil:
		w.deps.Log.Error().Err(s.none).Str("sandbox", kind).
			Msg("codeExecution and document reading are unavailable: the sandbox does not work")
	case s.noCode != nil:
		w.deps.Log.Error().Err(s.noCode).Str("sandbox", kind).Msg("codeExecution is unavailable: the interpreter does not work in the sandbox")
	default:
		w.deps.Log.Info().Str("sandbox", s.backend.Name()).Int("concurrency", sandboxSlots(w.cfg.Sandbox)).
			Strs("notes", s.backend.Notes()).Msg("sandbox ready")
	}
}
