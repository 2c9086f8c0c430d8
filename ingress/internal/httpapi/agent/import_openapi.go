package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapiimport"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	// MaxImport is the maximum size of an import's body in bytes.
	MaxImport    = 2 << 20
	maxOperation = 2_048 // maximum number of characters in an operation's name
)

// importBody is the body of an import: an OpenAPI document and the operations to import. Without
// the field serverUrl, the servers in the document are used.
type importBody struct {
	// Document as an object or as a string.
	Document json.RawMessage `json:"document" required:"true"`
	// Names of the operations; missing: all.
	Operations httpx.Optional[[]string] `json:"operations"`
	// Replaces the servers in the document.
	ServerURL httpx.Optional[string] `json:"serverUrl"`
	// Headers for all imported endpoints; the values are secrets.
	Headers map[string]string `json:"headers"`
	// Approval of calls of the HTTP tool; missing: unchanged.
	Approval httpx.Removable[domain.Approval] `json:"approval"`
	// Version that the agent must have.
	Version httpx.Optional[int] `json:"version"`
	text    []byte              // the document as text; set by Check
}

// skippedView is an operation that was not imported, and the reason. The reason is a phrase for
// people.
type skippedView struct {
	Operation string `json:"operation"`
	Reason    string `json:"reason"`
}

// importView is the response to an import. Neither list is ever null. An endpoint in imported is
// new or has replaced an endpoint of the same name.
type importView struct {
	// The agent after the import.
	Agent shownAgent `json:"agent"`
	// Names of the endpoints.
	Imported []string      `json:"imported"`
	Skipped  []skippedView `json:"skipped"`
}

// Check checks the form of the body and sets text. convert checks the document itself.
func (b *importBody) Check(p *httpx.Problems) {
	b.checkDocument(p)
	if b.Operations.Set {
		checkOperations(p, b.Operations.Value)
	}
	if b.ServerURL.Set {
		httpx.CheckURL(p, "serverUrl", b.ServerURL.Value)
	}

	checkHeaders(p, "headers", b.Headers)
	checkApproval(p, "approval", b.Approval)
	if b.Version.Set && b.Version.Value < 1 {
		p.Add("version", httpx.CodeInvalidValue, "must be 1 or more")
	}
}

// checkDocument accepts a document as an object or as a string. A string may contain YAML or JSON.
// It sets b.text, which stays nil after a problem.
func (b *importBody) checkDocument(p *httpx.Problems) {
	if len(b.Document) == 0 {
		return // already reported
	}

	var text string
	switch err := json.Unmarshal(b.Document, &text); {
	case b.Document[0] == '{':
		b.text = b.Document
	case err != nil || b.Document[0] != '"':
		p.Add("document", httpx.CodeInvalidType, "must be an object, or a string with JSON or YAML")
	case text == "":
		p.Add("document", httpx.CodeTooShort, "must not be empty")
	default:
		b.text = []byte(text)
	}
}

// checkOperations checks the names of the operations to import. An empty list is a problem, because
// it could mean none or all. convert checks later whether the document contains the operations.
func checkOperations(p *httpx.Problems, operations []string) {
	const path = "operations"
	if len(operations) == 0 {
		p.Add(path, httpx.CodeTooShort, "must not be empty; omit it to import all operations")
	}

	p.Count(path, len(operations), maxEndpoints)
	for i, name := range operations[:min(len(operations), maxEndpoints)] {
		p.Text(httpx.Element(path, i), name, 1, maxOperation)
		if slices.Contains(operations[:i], name) {
			p.Add(httpx.Element(path, i), httpx.CodeDuplicate, "is given twice")
		}
	}
}

// errUnchanged makes an update end without a change.
var errUnchanged = errors.New("unchanged")

// importOpenAPI handles POST /api/agents?id=&action=import-openapi: it converts the operations of
// an OpenAPI document to endpoints of an agent. Either all convertible operations are imported or,
// after an error, none. If no operation can be converted, the agent stays unchanged and the status
// is 200. Existing endpoints with the same names are replaced. Other endpoints stay.
func (h *Handler) importOpenAPI(c *gin.Context) error {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		return err
	}

	// The id appears in the log line of the request even if the import fails.
	httpx.SetLogIDs(c, agentID, "", "")

	// The limit is higher than for other bodies, because documents of large APIs are long.
	body, err := httpx.BindUpTo[importBody](c, MaxImport)
	if err != nil {
		return err
	}

	condition, err := httpx.ReadPrecondition(c.Request.Header)
	if err != nil {
		return err
	}

	// Reject an outdated request before the conversion, which can take long.
	org := httpx.Caller(c).OrganizationID
	if err := h.checkVersion(c.Request.Context(), org, agentID, &body, condition); err != nil {
		return err
	}

	endpoints, skipped, err := h.convert(c.Request.Context(), org, &body)
	if err == nil {
		err = body.checkOrigins(endpoints)
	}
	if err != nil {
		return err
	}

	agent, err := h.storeEndpoints(c.Request.Context(), org, agentID, &body, condition, endpoints)
	if err != nil {
		return err
	}

	view := importView{Agent: h.shown(agent), Imported: make([]string, len(endpoints)), Skipped: skipped}
	for i, e := range endpoints {
		view.Imported[i] = e.Name
	}
	httpx.WriteVersion(c, http.StatusOK, agent.Version, checkState(agent.LastCheck), view)
	return nil
}

// storeEndpoints adds converted endpoints to an agent, and returns the agent. Without endpoints, it
// returns the agent as it is.
func (h *Handler) storeEndpoints(
	ctx context.Context, org, agentID string, body *importBody, condition httpx.Precondition, endpoints []domain.Endpoint,
) (domain.Agent, error) {
	var previous domain.Agent
	agent, err := h.AgentsDB.UpdateAgent(ctx, org, agentID, body.Version.Or(0), func(agent *domain.Agent) error {
		if err := condition.Check(agent.Version); err != nil {
			return err
		}

		// Without endpoints, no new version is needed.
		if previous = *agent; len(endpoints) == 0 {
			return errUnchanged
		}
		found := &httpx.Problems{}
		body.apply(agent, endpoints, h.sealer(org, agentID), found)
		if err := h.checkSize(agent, found); err != nil {
			return err
		}
		return found.Err()
	})
	if errors.Is(err, errUnchanged) {
		return previous, nil // nothing was written
	}
	return agent, err
}

// convert converts the document of a body; see conversions for its limits.
func (h *Handler) convert(ctx context.Context, org string, body *importBody) ([]domain.Endpoint, []skippedView, error) {
	leave, err := h.conversions.enter(ctx, org)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	return body.convert()
}

// checkVersion returns an error if the request requires another version of the agent. This check
// comes before the expensive conversion of the document. The update repeats the check, because the
// agent may change in the meantime. Both checks return the errors precondition_failed and
// version_conflict.
func (h *Handler) checkVersion(ctx context.Context, org, agentID string, body *importBody, condition httpx.Precondition) error {
	// The function always returns an error, so the transaction changes nothing.
	_, err := h.AgentsDB.UpdateAgent(ctx, org, agentID, body.Version.Or(0), func(agent *domain.Agent) error {
		if err := condition.Check(agent.Version); err != nil {
			return err
		}
		return errUnchanged
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// apply adds endpoints to the agent and replaces existing endpoints that have the same names. It
// also enables the tool. Problems are reported for an agent with too many endpoints, and for
// headers "***" without a stored secret.
func (b *importBody) apply(agent *domain.Agent, endpoints []domain.Endpoint, seal func(string) string, p *httpx.Problems) {
	t := domain.HTTPRequestTool{}
	if agent.Tools.HTTPRequest != nil {
		t = *agent.Tools.HTTPRequest
	}

	// The caller keeps a copy of the agent that shares this list, so change only a clone.
	t.Enabled, t.Approval, t.Endpoints = true, b.Approval.Or(t.Approval), slices.Clone(t.Endpoints)
	for _, e := range endpoints {
		at := slices.IndexFunc(t.Endpoints, func(old domain.Endpoint) bool { return old.Name == e.Name })
		if at < 0 {
			at = len(t.Endpoints)
			t.Endpoints = append(t.Endpoints, domain.Endpoint{})
		}
		t.Endpoints[at] = b.withSecrets(e, t.Endpoints[at], seal, p)
	}

	if n := len(t.Endpoints); n > maxEndpoints {
		p.Add("operations", httpx.CodeTooLong, "endpoint limit of the agent exceeded (%d of %d); import fewer operations", n, maxEndpoints)
	}

	agent.Tools.HTTPRequest = &t
}

// withSecrets returns the endpoint e with its secrets. e replaces the endpoint old. The headers
// come from the request or, if the request has none, from old. The signing secret comes from old. A
// secret of old is kept only if both endpoints have the same origin. Problems of the headers are
// added to p under the path headers.
func (b *importBody) withSecrets(e, old domain.Endpoint, seal func(string) string, p *httpx.Problems) domain.Endpoint {
	same := Origin(e.URL) == Origin(old.URL)
	if same {
		e.SigningSecret = old.SigningSecret
	}

	switch {
	case b.Headers != nil:
		e.Headers = entrySecrets{url: old.URL, headers: old.Headers}.merge(p, "headers", e.URL, b.Headers, seal)
	case same:
		e.Headers = old.Headers
	}

	return e
}

// checkOrigins rejects an import that would send the headers to several servers. The headers are
// secrets for one server, and a document must not cause them to be sent to another server. Without
// headers, any servers are permitted. The message names at most 5 servers.
func (b *importBody) checkOrigins(endpoints []domain.Endpoint) error {
	if len(b.Headers) == 0 {
		return nil
	}

	var origins []string
	for _, e := range endpoints {
		if o := Origin(e.URL); !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
	}

	if len(origins) < 2 {
		return nil
	}

	const shown = 5
	named := strings.Join(origins[:min(len(origins), shown)], ", ")
	if more := len(origins) - shown; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}

	found := &httpx.Problems{}
	found.Add("headers", httpx.CodeInvalidValue, "would be sent to %d servers: %s; import them separately, or set serverUrl",
		len(origins), named)
	return found.Err()
}

// checkSize adds a problem to p if the agent after the import would be too large for the body of a
// PUT. Otherwise a client could read the agent but not send it back. The size is that of the
// response, in which secrets are hidden. The returned error is an internal error.
func (h *Handler) checkSize(agent *domain.Agent, p *httpx.Problems) error {
	const spare = 256 // bytes reserved for fields that can become longer with each version
	raw, err := json.Marshal(agent)
	if err != nil {
		return fmt.Errorf("rendering agent: %w", err)
	}

	var copied domain.Agent // shown hides secrets in place
	if err := json.Unmarshal(raw, &copied); err != nil {
		return fmt.Errorf("copying agent: %w", err)
	}
	if raw, err = json.Marshal(h.shown(copied)); err != nil {
		return fmt.Errorf("rendering agent: %w", err)
	}
	if n := len(raw); n > httpx.MaxBody-spare {
		p.Add("operations", httpx.CodeTooLong,
			"size limit of the agent exceeded (%d of %d bytes); import fewer operations", n, httpx.MaxBody-spare)
	}
	return nil
}

// convert converts the document's operations to endpoints. The second result lists the operations
// that cannot be converted or have no usable endpoint, with the reasons. The error lists problems
// of the document, or of the names of operations.
func (b *importBody) convert() ([]domain.Endpoint, []skippedView, error) {
	// An error of type Invalid contains problems that the caller can fix; other errors are faults
	// of the service.
	made, left, err := openapiimport.Convert(b.text, openapiimport.Options{Operations: b.Operations.Value, ServerURL: b.ServerURL.Value})
	if invalid, ok := errors.AsType[*openapiimport.Invalid](err); ok {
		found := &httpx.Problems{}
		for _, p := range invalid.Problems {
			found.Add(p.Field, p.Code, "%s", p.Message)
		}
		return nil, nil, found.Err()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("importing document: %w", err)
	}

	skipped := make([]skippedView, 0, len(left))
	for _, s := range left {
		skipped = append(skipped, skippedView(s))
	}

	endpoints := make([]domain.Endpoint, 0, len(made))

	// The conversion follows the document. The rules for endpoints of an agent are stricter, so
	// check them too.
	for _, e := range made {
		if reason := rejectReason(e); reason != "" {
			skipped = append(skipped, skippedView{Operation: e.Name, Reason: reason})
			continue
		}
		endpoints = append(endpoints, e)
	}

	return endpoints, skipped, nil
}

// rejectReason returns the reason why a PUT would reject the endpoint, or "" if a PUT would accept
// it. The reason consists of the field's name and the message of the first problem.
func rejectReason(e domain.Endpoint) string {
	body := endpointBody{Name: e.Name, Description: e.Description, Method: e.Method, URL: e.URL}
	if e.InputSchema != nil {
		raw, err := json.Marshal(e.InputSchema)
		if err != nil {
			return "its inputSchema cannot be encoded as JSON"
		}
		body.InputSchema = raw
	}

	found := &httpx.Problems{}
	body.Check(found, "it", map[string]bool{})
	if len(found.List) == 0 {
		return ""
	}

	first := found.List[0]
	return strings.TrimPrefix(first.Field, "it.") + " " + first.Message
}
