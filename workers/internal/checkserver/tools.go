package checkserver

import (
	"context"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/workers/internal/tool"
)

// toolTime is the time limit of a probe of a tool's connection.
const toolTime = 8 * time.Second

// Search is the configured search provider.
type Search interface {
	Provider() string
	// Check sends one query to the search provider and returns a short description of the result.
	Check(ctx context.Context) (string, error)
}

// Servers opens sessions with MCP servers.
type Servers interface {
	// Check opens a session with an MCP server of the agent, lists the server's tools, and returns
	// a short description of the result. Only the organization, the agent and the configuration are
	// set in req.
	Check(ctx context.Context, req tool.Request, server domain.MCPServer) (string, error)
}

// Hosts opens connections to hosts without sending requests.
type Hosts interface {
	Connect(ctx context.Context, origin string, timeout time.Duration) error
}

// NewTools creates a server that checks the connections of an agent's enabled tools: to the search
// provider, to each MCP server, and to the host of each endpoint.
func NewTools(search Search, servers Servers, hosts Hosts, deps Deps) *Server {
	check := func(ctx context.Context, a Agent) (contract.CheckReply, error) {
		var all []probe
		if t := a.Config.Tools.WebSearch; t != nil && t.Enabled {
			all = append(all, probe{kind: domain.CheckWebSearch, names: []string{search.Provider()}, time: toolTime, try: search.Check})
		}
		all = append(all, serverProbes(servers, a)...)
		all = append(all, endpointProbes(hosts, a.Config.Tools.HTTPRequest)...)
		return contract.CheckReply{Checks: runProbes(ctx, all)}, nil
	}
	return &Server{kind: contract.KindCheckTools, check: check, deps: deps, log: deps.Log}
}

// serverProbes returns a probe for each of the agent's MCP servers, or none if the tool is
// disabled.
func serverProbes(servers Servers, a Agent) (all []probe) {
	t := a.Config.Tools.MCP
	if t == nil || !t.Enabled {
		return nil
	}
	req := tool.Request{OrganizationID: a.OrganizationID, TargetID: a.ID, Config: a.Config}
	for _, server := range t.Servers {
		try := func(ctx context.Context) (string, error) { return servers.Check(ctx, req, server) }
		all = append(all, probe{kind: domain.CheckMCP, names: []string{server.Name}, time: toolTime, try: try})
	}
	return all
}

// endpointProbes returns a probe for each origin of the endpoints. A probe sends no request,
// because a request could have a side effect.
func endpointProbes(hosts Hosts, t *domain.HTTPRequestTool) (all []probe) {
	if t == nil || !t.Enabled {
		return nil
	}
	byOrigin := map[string]int{}
	for _, e := range t.Endpoints {
		template, err := endpoint.Parse(e.URL)
		if err != nil {
			all = append(all, probe{kind: domain.CheckHTTPRequest, names: []string{e.Name}, time: toolTime, try: invalidURL})
			continue
		}

		origin := template.Origin()
		// All endpoints of an origin share one connection.
		if at, known := byOrigin[origin]; known {
			all[at].names = append(all[at].names, e.Name)
			continue
		}
		byOrigin[origin] = len(all)
		all = append(all, probe{
			kind: domain.CheckHTTPRequest, names: []string{e.Name}, time: toolTime,
			try: func(ctx context.Context) (string, error) {
				return "connected to the host; no request was sent", hosts.Connect(ctx, origin, toolTime)
			},
		})
	}
	return all
}

// invalidURL is the probe of an endpoint whose URL is invalid. It always fails.
func invalidURL(context.Context) (string, error) {
	return "", &tool.Error{Message: "The endpoint's URL is not valid."}
}
