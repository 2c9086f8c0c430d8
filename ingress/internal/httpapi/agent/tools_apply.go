package agent

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// apply merges the tools that a request names into an agent's, tool by tool and option by option.
func (b *toolsBody) apply(t *domain.Tools, seal func(string) string, p *httpx.Problems) {
	if b.WebSearch.Set {
		t.WebSearch = removed(b.WebSearch.Null, func() *domain.Switch {
			return applySwitch(p, "tools.webSearch", b.WebSearch.Value, t.WebSearch)
		})
	}
	if b.CodeExecution.Set {
		t.CodeExecution = removed(b.CodeExecution.Null, func() *domain.CodeTool { return b.CodeExecution.Value.apply(p, t.CodeExecution) })
	}
	if b.Knowledge.Set {
		t.Knowledge = removed(b.Knowledge.Null, func() *domain.KnowledgeTool { return b.Knowledge.Value.apply(p, t.Knowledge) })
	}
	if b.HTTPRequest.Set {
		t.HTTPRequest = removed(b.HTTPRequest.Null, func() *domain.HTTPRequestTool { return b.HTTPRequest.Value.apply(p, t.HTTPRequest, seal) })
	}
	if b.MCP.Set {
		t.MCP = removed(b.MCP.Null, func() *domain.MCPTool { return b.MCP.Value.apply(p, t.MCP, seal) })
	}
	if b.Voice.Set {
		t.Voice = removed(b.Voice.Null, func() *domain.VoiceTool { return b.Voice.Value.apply(p, t.Voice) })
	}
}

// removed is a tool as a request changes it; nil by null.
func removed[T any](null bool, apply func() *T) *T {
	if null {
		return nil
	}
	return apply()
}

// before copies what a tool was, for the agent's own is not changed in place; an agent that did not
// have it must be told whether it is enabled.
func before[T any](p *httpx.Problems, path string, enabled httpx.Optional[bool], old *T) *T {
	if old == nil {
		if !enabled.Set {
			p.Add(path+".enabled", httpx.CodeRequired, "is required")
		}
		return new(T)
	}
	copied := *old
	return &copied
}

func applySwitch(p *httpx.Problems, path string, b switchBody, old *domain.Switch) *domain.Switch {
	t := before(p, path, b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	return t
}

func (b *codeBody) apply(p *httpx.Problems, old *domain.CodeTool) *domain.CodeTool {
	t := before(p, "tools.codeExecution", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	t.KeepFiles = b.KeepFiles.Or(t.KeepFiles)
	return t
}

func (b *knowledgeBody) apply(p *httpx.Problems, old *domain.KnowledgeTool) *domain.KnowledgeTool {
	t := before(p, "tools.knowledge", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if b.DocumentIDs.Set {
		t.DocumentIDs = orNone(b.DocumentIDs.Value)
	}
	if b.Metadata.Set {
		t.Metadata = orNone(b.Metadata.Value)
	}
	return t
}

// orNone is what an option is set to, none by null.
func orNone[T any](value *T) (out T) {
	if value != nil {
		out = *value
	}
	return out
}

func (b *voiceBody) apply(p *httpx.Problems, old *domain.VoiceTool) *domain.VoiceTool {
	t := before(p, "tools.voice", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Voice = b.Voice.Or(t.Voice)
	return t
}

func (b *httpBody) apply(p *httpx.Problems, old *domain.HTTPRequestTool, seal func(string) string) *domain.HTTPRequestTool {
	t := before(p, "tools.httpRequest", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if !b.Endpoints.Set {
		return t
	}
	known := map[string]secretsOf{}
	for _, e := range t.Endpoints {
		known[e.Name] = secretsOf{e.URL, e.Headers, e.SigningSecret}
	}
	t.Endpoints = make([]domain.Endpoint, len(b.Endpoints.Value))
	for i, e := range b.Endpoints.Value {
		at := httpx.Element("tools.httpRequest.endpoints", i)
		t.Endpoints[i] = domain.Endpoint{
			Name: e.Name, Description: e.Description, Method: e.Method, URL: e.URL, InputSchema: e.schema,
			// Whoever does not say that a call may be repeated has it made once.
			SideEffect:    e.SideEffect.Or(domain.SideEffectUnsafe),
			Headers:       known[e.Name].merge(p, at+".headers", e.URL, e.Headers, seal),
			SigningSecret: known[e.Name].signedBy(p, at+".signingSecret", e.URL, e.SigningSecret.Value, seal),
		}
	}
	return t
}

func (b *mcpBody) apply(p *httpx.Problems, old *domain.MCPTool, seal func(string) string) *domain.MCPTool {
	t := before(p, "tools.mcp", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if !b.Servers.Set {
		return t
	}
	known := map[string]secretsOf{}
	for _, s := range t.Servers {
		known[s.Name] = secretsOf{url: s.URL, headers: s.Headers}
	}
	t.Servers = make([]domain.MCPServer, len(b.Servers.Value))
	for i, s := range b.Servers.Value {
		t.Servers[i] = domain.MCPServer{
			Name: s.Name, URL: s.URL, SideEffect: s.SideEffect.Value,
			Headers: known[s.Name].merge(p, httpx.Element("tools.mcp.servers", i)+".headers", s.URL, s.Headers, seal),
		}
	}
	return t
}

// secretsOf is the sealed secrets of an entry as it was, and the address that they were given for.
type secretsOf struct {
	url     string
	headers map[string]string
	signing string
}

// merge seals new header values and keeps those sent back as "***".
func (s secretsOf) merge(p *httpx.Problems, at, address string, headers map[string]string, seal func(string) string) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; value != hidden {
			out[name] = seal(value)
			continue
		}
		kept, found := s.find(name)
		s.keep(p, at+"."+name, address, found)
		out[name] = kept
	}
	return out
}

// signedBy seals a new signing secret, or keeps the one sent back as "***".
func (s secretsOf) signedBy(p *httpx.Problems, at, address, secret string, seal func(string) string) string {
	switch secret {
	case "":
		return ""
	case hidden:
		s.keep(p, at, address, s.signing != "")
		return s.signing
	default:
		return seal(secret)
	}
}

// keep refuses to keep a secret that there is not, or elsewhere. A secret stays with the entry of its name and the
// origin it was given for: nobody who may change an address gets to read it there.
func (s secretsOf) keep(p *httpx.Problems, at, address string, found bool) {
	switch {
	case !found:
		p.Add(at, httpx.CodeInvalidValue, "no secret is set yet: \"***\" keeps an existing one")
	case Origin(s.url) != Origin(address):
		p.Add(at, httpx.CodeInvalidValue, "must be given again, because the origin of the address has changed")
	}
}

func (s secretsOf) find(name string) (string, bool) {
	for known, sealed := range s.headers {
		if strings.EqualFold(known, name) {
			return sealed, true
		}
	}
	return "", false
}

// Origin is the part of an address that says who gets the request.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
