package agent

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/id"
	"parley/shared/schema"
)

// Maximum sizes of the tools' settings, in characters and entries.
const (
	// Endpoints of an agent's HTTP tool.
	maxEndpoints = 32
	// MCP servers of an agent.
	maxServers = 16
	// Documents to which an agent's searches are restricted.
	maxDocuments = 1_000
	// Headers of an endpoint or MCP server.
	maxHeaders = 32
	// Value of a header, in bytes.
	maxHeaderValue = 4_096
	// Description of an endpoint.
	maxToolDescription = 1_000
	// Input schema of an endpoint.
	maxSchema = 16 << 10 // bytes
	// Name of a voice.
	maxVoice = 64
)

// hidden replaces a secret in responses. In a request body it means that the secret stays
// unchanged. Responses never contain a secret, not even in part.
const hidden = "***"

// toolsBody contains the tools in a request. Tools and options that are missing stay unchanged.
// Null removes a tool with all its options.
type toolsBody struct {
	WebSearch     httpx.Removable[switchBody]    `json:"webSearch"`
	CodeExecution httpx.Removable[codeBody]      `json:"codeExecution"`
	Knowledge     httpx.Removable[knowledgeBody] `json:"knowledge"`
	HTTPRequest   httpx.Removable[httpBody]      `json:"httpRequest"`
	MCP           httpx.Removable[mcpBody]       `json:"mcp"`
	Voice         httpx.Removable[voiceBody]     `json:"voice"`
}

// switchBody is a tool without options. The field enabled is required for a tool that the agent
// does not have yet.
type switchBody struct {
	// Whether the agent may use the tool.
	Enabled httpx.Optional[bool] `json:"enabled"`
	// Which calls a person must approve; null: none.
	Approval httpx.Removable[domain.Approval] `json:"approval"`
}

// codeBody is the tool for code execution.
type codeBody struct {
	Enabled   httpx.Optional[bool]             `json:"enabled"`
	Approval  httpx.Removable[domain.Approval] `json:"approval"`
	KeepFiles httpx.Optional[bool]             `json:"keepFiles"`
}

// knowledgeBody is the tool for document search. Both restrictions apply together.
type knowledgeBody struct {
	Enabled     httpx.Optional[bool]               `json:"enabled"`
	Approval    httpx.Removable[domain.Approval]   `json:"approval"`
	DocumentIDs httpx.Optional[*[]string]          `json:"documentIds"` // null: all
	Metadata    httpx.Optional[*map[string]string] `json:"metadata"`    // null: any
}

// httpBody is the HTTP tool, which sends requests to endpoints. The list replaces all endpoints of
// the agent.
type httpBody struct {
	Enabled   httpx.Optional[bool]             `json:"enabled"`
	Approval  httpx.Removable[domain.Approval] `json:"approval"`
	Endpoints httpx.Optional[[]endpointBody]   `json:"endpoints"`
}

// endpointBody is an endpoint of the HTTP tool. The endpoint appears to the model as a tool with
// the endpoint's name. The value "***" of a header or of the signing secret keeps the stored value.
type endpointBody struct {
	// Name of the function that the model calls; unique among the endpoints.
	Name string `json:"name" required:"true"`
	// Text for the model.
	Description string `json:"description"`
	Method      string `json:"method" required:"true"`
	// Address, which may contain variables such as {id}.
	URL string `json:"url" required:"true"`
	// Headers of each request; the values are secrets.
	Headers map[string]string `json:"headers"`
	// JSON Schema of the arguments; missing: the variables of the URL.
	InputSchema json.RawMessage `json:"inputSchema"`
	// Effect of a call; missing: unsafe.
	SideEffect httpx.Optional[domain.SideEffect] `json:"sideEffect"`
	// Secret with which requests are signed; missing or "": none.
	SigningSecret httpx.Optional[string] `json:"signingSecret"`
	schema        any                    // InputSchema in decoded form; set by Check
}

// mcpBody is the MCP tool, which calls the tools of MCP servers. The list replaces all servers of
// the agent.
type mcpBody struct {
	Enabled  httpx.Optional[bool]             `json:"enabled"`
	Approval httpx.Removable[domain.Approval] `json:"approval"`
	Servers  httpx.Optional[[]serverBody]     `json:"servers"`
}

// serverBody is an MCP server. Each tool of the server becomes a tool of the agent.
type serverBody struct {
	// Name of the server; unique among the servers.
	Name    string            `json:"name" required:"true"`
	URL     string            `json:"url" required:"true"`
	Headers map[string]string `json:"headers"`
	// Effect of the server's tools.
	SideEffect httpx.Optional[domain.SideEffect] `json:"sideEffect"`
}

// voiceBody is the voice tool, with which people can speak with the agent.
type voiceBody struct {
	Enabled httpx.Optional[bool]    `json:"enabled"`
	Voice   httpx.Removable[string] `json:"voice"`
}

var (
	toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) // the function names that model providers accept

	methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead}
	// Headers that the HTTP client sets itself. With other values, the request could fail or
	// contain a hidden second request.
	ownHeaders = []string{
		"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect", "proxy-connection",
		"idempotency-key",
	}
)

// Check checks the tools independently of the agent's previous state. Missing tools have zero
// values, whose checks find nothing. Problems have the paths of the fields in the body.
func (b *toolsBody) Check(p *httpx.Problems) {
	checkApproval(p, "tools.webSearch.approval", b.WebSearch.Value.Approval)
	checkApproval(p, "tools.codeExecution.approval", b.CodeExecution.Value.Approval)
	checkApproval(p, "tools.knowledge.approval", b.Knowledge.Value.Approval)
	checkApproval(p, "tools.httpRequest.approval", b.HTTPRequest.Value.Approval)
	checkApproval(p, "tools.mcp.approval", b.MCP.Value.Approval)
	b.Knowledge.Value.Check(p)
	b.HTTPRequest.Value.Check(p)
	b.MCP.Value.Check(p)
	p.Text("tools.voice.voice", b.Voice.Value.Voice.Value, 0, maxVoice)
	p.Visible("tools.voice.voice", b.Voice.Value.Voice.Value)
}

// checkApproval checks the option that determines which calls need a person's approval. Null and a
// missing value are valid.
func checkApproval(p *httpx.Problems, at string, approval httpx.Removable[domain.Approval]) {
	if approval.Null {
		return
	}
	switch approval.Or(domain.ApprovalNever) {
	case domain.ApprovalNever, domain.ApprovalUnsafe, domain.ApprovalAlways:
	default:
		p.Add(at, httpx.CodeInvalidValue, "must be never, unsafe or always")
	}
}

// checkSideEffect checks the option that determines whether a call may be repeated. A missing value
// is valid. Each kind of tool has its own default.
func checkSideEffect(p *httpx.Problems, at string, effect httpx.Optional[domain.SideEffect]) {
	switch effect.Or(domain.SideEffectNone) {
	case domain.SideEffectNone, domain.SideEffectIdempotent, domain.SideEffectUnsafe:
	default:
		p.Add(at, httpx.CodeInvalidValue, "must be none, idempotent or unsafe")
	}
}

// Check checks the list of documents and the metadata that restrict an agent's searches. It does
// not check that the documents exist; see checkToolDocuments.
func (b *knowledgeBody) Check(p *httpx.Problems) {
	if ids := b.DocumentIDs.Value; ids != nil {
		checkDocumentIDs(p, "tools.knowledge.documentIds", *ids)
	}
	if metadata := b.Metadata.Value; metadata != nil {
		const path = "tools.knowledge.metadata"
		if len(*metadata) == 0 {
			p.Add(path, httpx.CodeTooShort, "must not be empty; null means documents with any metadata")
		}
		httpx.CheckMetadata(p, path, *metadata)
	}
}

// checkDocumentIDs checks the list of documents to which an agent's searches are restricted. It
// rejects an empty list, which could come from a caller that has found no documents. Such a list
// must not mean all documents.
func checkDocumentIDs(p *httpx.Problems, path string, ids []string) {
	if len(ids) == 0 {
		p.Add(path, httpx.CodeTooShort, "must not be empty; null means all documents")
	}

	p.Count(path, len(ids), maxDocuments)
	seen := map[string]bool{}

	for i, doc := range ids {
		at := httpx.Element(path, i)
		if !id.Valid(id.Document, doc) {
			p.Add(at, httpx.CodeInvalidValue, "must be the id of a document")
		}
		if seen[doc] {
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
		seen[doc] = true
	}
}

// Check checks the endpoints. Their names must be unique. The path of a problem contains the
// endpoint's position in the list.
func (b *httpBody) Check(p *httpx.Problems) {
	const path = "tools.httpRequest.endpoints"
	p.Count(path, len(b.Endpoints.Value), maxEndpoints)
	seen := map[string]bool{}
	for i := range b.Endpoints.Value {
		b.Endpoints.Value[i].Check(p, httpx.Element(path, i), seen)
	}
}

// Check checks one endpoint. seen contains the names of the endpoints before it. Problems are added
// under the path at. Check sets b.schema, and adds the name to seen.
func (b *endpointBody) Check(p *httpx.Problems, at string, seen map[string]bool) {
	checkToolName(p, at+".name", b.Name, seen)

	// The model would otherwise have two tools of the same name.
	if slices.Contains(domain.ToolNames, b.Name) {
		p.Add(at+".name", httpx.CodeConflict, "is the name of a built-in tool")
	} else if b.Name == domain.AnswerTool {
		p.Add(at+".name", httpx.CodeInvalidValue, "is reserved: choose another name")
	}

	p.Prose(at+".description", b.Description, maxToolDescription)
	if !slices.Contains(methods, b.Method) {
		p.Add(at+".method", httpx.CodeInvalidValue, "must be one of %s", strings.Join(methods, ", "))
	}

	httpx.CheckURL(p, at+".url", b.URL)
	checkHeaders(p, at+".headers", b.Headers)
	b.checkSchema(p, at+".inputSchema")
	b.checkTemplate(p, at)
	checkSideEffect(p, at+".sideEffect", b.SideEffect)
	if secret := b.SigningSecret; secret.Set && secret.Value != hidden {
		if err := endpoint.CheckSecret(secret.Value); err != nil {
			p.Add(at+".signingSecret", httpx.CodeInvalidValue, "%s", err) // the error does not contain the secret
		}
	}
}

// checkSchema checks that the schema can be used to validate the arguments of calls. The schema
// must be an object of at most maxSchema bytes, because it is a part of each request to the model.
// checkSchema sets b.schema if the schema can be read.
func (b *endpointBody) checkSchema(p *httpx.Problems, at string) {
	if b.InputSchema == nil {
		return
	}

	var read map[string]any
	if err := json.Unmarshal(b.InputSchema, &read); err != nil || read == nil {
		p.Add(at, httpx.CodeInvalidValue, "must be a JSON Schema: an object, with numbers that fit into 64 bits")
		return
	}
	if n := len(b.InputSchema); n > maxSchema {
		p.Add(at, httpx.CodeTooLong, "must have at most %d bytes, not %d", maxSchema, n)
		return
	}
	if read["type"] != "object" {
		p.Add(at+".type", httpx.CodeInvalidValue, `must be "object", because arguments have names`)
	} else if _, err := schema.Compile(b.InputSchema); err != nil {
		p.Add(at, httpx.CodeInvalidValue, "cannot be used as a JSON Schema: %s", errors.Unwrap(err)) // without the context of the error
	}

	b.schema = read
}

// checkTemplate checks a URL with variables. The values of the variables are the arguments of
// calls, so no variable may be in the part of the URL that names the server. The schema must define
// each variable. checkTemplate must be called after checkSchema. If the URL or the schema has a
// problem, it checks nothing more.
func (b *endpointBody) checkTemplate(p *httpx.Problems, at string) {
	if p.Has(at + ".url") {
		return
	}

	template, err := endpoint.Parse(b.URL)
	if err != nil {
		p.Add(at+".url", httpx.CodeInvalidValue, "%s", err)
		return
	}

	read, present := b.schema.(map[string]any)
	if !present || p.Has(at+".inputSchema") {
		return // without a schema, the arguments of a call are the URL's variables
	}

	properties, _ := read["properties"].(map[string]any)
	path, query := template.Variables()
	for _, name := range slices.Concat(path, query) {
		if _, known := properties[name]; !known {
			p.Add(at+".inputSchema.properties."+name, httpx.CodeRequired, "is required, because the address has the variable {%s}", name)
		}
	}
}

// Check checks the servers. Their names must be unique. The headers may contain "***", which apply
// replaces with the stored values.
func (b *mcpBody) Check(p *httpx.Problems) {
	const path = "tools.mcp.servers"
	p.Count(path, len(b.Servers.Value), maxServers)
	seen := map[string]bool{}
	for i, s := range b.Servers.Value {
		at := httpx.Element(path, i)
		checkToolName(p, at+".name", s.Name, seen)
		httpx.CheckURL(p, at+".url", s.URL)
		checkHeaders(p, at+".headers", s.Headers)
		checkSideEffect(p, at+".sideEffect", s.SideEffect)
	}
}

// checkToolName checks a tool's name, which must not be in seen, and adds it to seen. A name that
// is not valid is also added to seen, which does no harm.
func checkToolName(p *httpx.Problems, at, name string, seen map[string]bool) {
	switch {
	case !toolName.MatchString(name):
		p.Add(at, httpx.CodeInvalidValue, "must be 1 to 64 letters, digits, underscores and hyphens")
	case seen[name]:
		p.Add(at, httpx.CodeDuplicate, "repeats the name of an earlier entry")
	}
	seen[name] = true
}

// checkHeaders checks the names and values of headers that the service sends with requests. Their
// values are secrets, so no message contains a value. The value "***" is valid.
func checkHeaders(p *httpx.Problems, at string, headers map[string]string) {
	p.Count(at, len(headers), maxHeaders)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) { // in sorted order, the same request always gets the same response
		value, lower, here := headers[name], strings.ToLower(name), at+"."+name
		switch {
		case !httpx.HeaderName.MatchString(name):
			p.Add(at, httpx.CodeInvalidValue, "contains an invalid header name")
		case slices.Contains(ownHeaders, lower):
			p.Add(here, httpx.CodeInvalidValue, "cannot be set, because the service sets this header")
		case seen[lower]:
			p.Add(here, httpx.CodeDuplicate, "is given twice: header names are case-insensitive")
		case value == "":
			p.Add(here, httpx.CodeTooShort, "must not be empty")
		case len(value) > maxHeaderValue:
			p.Add(here, httpx.CodeTooLong, "must have at most %d bytes", maxHeaderValue)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			p.Add(here, httpx.CodeInvalidValue, "must not contain line breaks or control characters")
		}
		seen[lower] = true
	}
}
