package agent

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// apply merges the request's tools into t, the agent's tools, tool by tool and option by option.
// Null removes a tool. seal encrypts secrets. Problems are added to p. After a problem, t must not
// be stored.
func (b *toolsBody) apply(t *domain.Tools, seal func(string) string, p *httpx.Problems) {
	if b.WebSearch.Set {
		t.WebSearch = setTool(b.WebSearch.Null, func() *domain.Switch {
			return applySwitch(p, "tools.webSearch", b.WebSearch.Value, t.WebSearch)
		})
	}

	if b.CodeExecution.Set {
		t.CodeExecution = setTool(b.CodeExecution.Null, func() *domain.CodeTool { return b.CodeExecution.Value.apply(p, t.CodeExecution) })
	}
	if b.Knowledge.Set {
		t.Knowledge = setTool(b.Knowledge.Null, func() *domain.KnowledgeTool { return b.Knowledge.Value.apply(p, t.Knowledge) })
	}
	if b.HTTPRequest.Set {
		t.HTTPRequest = setTool(b.HTTPRequest.Null, func() *domain.HTTPRequestTool { return b.HTTPRequest.Value.apply(p, t.HTTPRequest, seal) })
	}
	if b.MCP.Set {
		t.MCP = setTool(b.MCP.Null, func() *domain.MCPTool { return b.MCP.Value.apply(p, t.MCP, seal) })
	}
	if b.Voice.Set {
		t.Voice = setTool(b.Voice.Null, func() *domain.VoiceTool { return b.Voice.Value.apply(p, t.Voice) })
	}
}

// setTool returns a tool after the request's changes. If null is true, the request removes the
// tool, and setTool returns nil. apply is called only if the tool stays.
func setTool[T any](null bool, apply func() *T) *T {
	if null {
		return nil
	}
	return apply()
}

// previous returns a copy of the agent's tool before the change, or an empty tool if the agent does
// not have it yet. If the agent does not have the tool and the request does not set enabled,
// previous adds a problem. The copy is shallow and shares the agent's lists, so apply methods
// replace lists and never change them.
func previous[T any](p *httpx.Problems, path string, enabled httpx.Optional[bool], old *T) *T {
	if old == nil {
		if !enabled.Set {
			p.Add(path+".enabled", httpx.CodeRequired, "is required")
		}
		return new(T)
	}
	copied := *old
	return &copied
}

// applySwitch returns a tool that has no options, after the request's changes. path is the path of
// the tool, for problems.
func applySwitch(p *httpx.Problems, path string, b switchBody, old *domain.Switch) *domain.Switch {
	t := previous(p, path, b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	return t
}

// apply returns the code tool after the request's changes.
func (b *codeBody) apply(p *httpx.Problems, old *domain.CodeTool) *domain.CodeTool {
	t := previous(p, "tools.codeExecution", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	t.KeepFiles = b.KeepFiles.Or(t.KeepFiles)
	return t
}

// apply returns the knowledge tool after the request's changes. Null removes a restriction.
func (b *knowledgeBody) apply(p *httpx.Problems, old *domain.KnowledgeTool) *domain.KnowledgeTool {
	t := previous(p, "tools.knowledge", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if b.DocumentIDs.Set {
		t.DocumentIDs = valueOrZero(b.DocumentIDs.Value)
	}
	if b.Metadata.Set {
		t.Metadata = valueOrZero(b.Metadata.Value)
	}
	return t
}

// valueOrZero returns the value of an option, or the zero value if the request has null. The result
// shares the value's memory.
func valueOrZero[T any](value *T) (out T) {
	if value != nil {
		out = *value
	}
	return out
}

// apply returns the voice tool after the request's changes. A voice of null or "" is the default
// voice.
func (b *voiceBody) apply(p *httpx.Problems, old *domain.VoiceTool) *domain.VoiceTool {
	t := previous(p, "tools.voice", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Voice = b.Voice.Or(t.Voice)
	return t
}

// apply returns the HTTP tool after the request's changes. The request's endpoints replace all
// previous endpoints and keep the secrets of endpoints with the same names; see entrySecrets.
// Without the field endpoints, the endpoints stay. An endpoint that is not in the list is removed
// together with its secrets.
func (b *httpBody) apply(p *httpx.Problems, old *domain.HTTPRequestTool, seal func(string) string) *domain.HTTPRequestTool {
	t := previous(p, "tools.httpRequest", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if !b.Endpoints.Set {
		return t
	}

	known := map[string]entrySecrets{}
	for _, e := range t.Endpoints {
		known[e.Name] = entrySecrets{e.URL, e.Headers, e.SigningSecret}
	}

	t.Endpoints = make([]domain.Endpoint, len(b.Endpoints.Value))
	for i, e := range b.Endpoints.Value {
		at := httpx.Element("tools.httpRequest.endpoints", i)
		t.Endpoints[i] = domain.Endpoint{
			Name: e.Name, Description: e.Description, Method: e.Method, URL: e.URL, InputSchema: e.schema,
			// Unless the request says otherwise, a call of a new endpoint must not be repeated.
			SideEffect:    e.SideEffect.Or(domain.SideEffectUnsafe),
			Headers:       known[e.Name].merge(p, at+".headers", e.URL, e.Headers, seal),
			SigningSecret: known[e.Name].signingSecret(p, at+".signingSecret", e.URL, e.SigningSecret.Value, seal),
		}
	}

	return t
}

// apply returns the MCP tool after the request's changes. The request's servers replace all
// previous servers and keep the secrets of servers with the same names; see entrySecrets. Without
// the field servers, the servers stay. A missing side effect stays empty.
func (b *mcpBody) apply(p *httpx.Problems, old *domain.MCPTool, seal func(string) string) *domain.MCPTool {
	t := previous(p, "tools.mcp", b.Enabled, old)
	t.Enabled = b.Enabled.Or(t.Enabled)
	t.Approval = b.Approval.Or(t.Approval)
	if !b.Servers.Set {
		return t
	}

	known := map[string]entrySecrets{}
	for _, s := range t.Servers {
		known[s.Name] = entrySecrets{url: s.URL, headers: s.Headers}
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

// entrySecrets contains the encrypted secrets of an endpoint or MCP server before the change, and
// the URL for which they were set. The zero value has no secrets; it stands for an entry that is
// new.
type entrySecrets struct {
	url     string
	headers map[string]string
	signing string
}

// merge returns the encrypted values of the headers in a request. It encrypts new values. For the
// value "***" it returns the stored value. Headers that are not in the request are removed. The
// result is nil if the request has no headers. address is the URL of the entry after the change. at
// is the path of the headers.
func (s entrySecrets) merge(p *httpx.Problems, at, address string, headers map[string]string, seal func(string) string) map[string]string {
	if len(headers) == 0 {
		return nil
	}

	// In sorted order, the same request always results in the same problems.
	out := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; value != hidden {
			out[name] = seal(value)
			continue
		}
		kept, found := s.find(name)
		s.checkKeep(p, at+"."+name, address, found)
		out[name] = kept
	}

	return out
}

// signingSecret returns the encrypted signing secret. It encrypts a new secret. For the value "***"
// it returns the stored secret. An empty secret removes the stored secret. address and at are as in
// merge.
func (s entrySecrets) signingSecret(p *httpx.Problems, at, address, secret string, seal func(string) string) string {
	switch secret {
	case "":
		return ""
	case hidden:
		s.checkKeep(p, at, address, s.signing != "")
		return s.signing
	default:
		return seal(secret)
	}
}

// checkKeep adds a problem if a request keeps a secret ("***") that is not stored or was set for
// another origin. Otherwise a person who may change the URL could have the secret sent to another
// server. found is whether a secret is stored. at is the path of the problem.
func (s entrySecrets) checkKeep(p *httpx.Problems, at, address string, found bool) {
	switch {
	case !found:
		p.Add(at, httpx.CodeInvalidValue, "\"***\" keeps the stored secret, but no secret is stored yet")
	case Origin(s.url) != Origin(address):
		p.Add(at, httpx.CodeInvalidValue, "must be given again, because the origin of the URL has changed")
	}
}

// find returns the encrypted value of a header. Header names are compared ignoring case. There are
// at most maxHeaders headers, so a search without an index suffices.
func (s entrySecrets) find(name string) (string, bool) {
	for known, sealed := range s.headers {
		if strings.EqualFold(known, name) {
			return sealed, true
		}
	}
	return "", false
}

// Origin returns the scheme and host of a URL in lower case, or "" if the URL is malformed. Two
// URLs with the same origin belong to the same server. Unlike browsers, it does not remove the
// default port, so http://a and http://a:80 differ.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
