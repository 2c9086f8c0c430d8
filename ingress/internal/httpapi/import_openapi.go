package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/openapiimport"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	importMost    = 2 << 20 // bytes of a body that has a document
	operationMost = 2_048   // characters of an operation's name
)

// importBody is a document, and what of it an agent is to use.
type importBody struct {
	Document   json.RawMessage            `json:"document" need:"yes"`
	Operations optional[[]string]         `json:"operations"`
	ServerURL  optional[string]           `json:"serverUrl"`
	Headers    map[string]string          `json:"headers"`
	Approval   removable[domain.Approval] `json:"approval"`
	Version    optional[int]              `json:"version"`
	text       []byte                     // of the document, as check read it
}

// skippedView is an operation that was not imported.
type skippedView struct {
	Operation string `json:"operation"`
	Reason    string `json:"reason"`
}

type importView struct {
	Agent    domain.Agent  `json:"agent"`
	Imported []string      `json:"imported"`
	Skipped  []skippedView `json:"skipped"`
}

func (b *importBody) Check(p *problems) {
	b.checkDocument(p)
	if b.Operations.Set {
		checkOperations(p, b.Operations.Value)
	}
	if b.ServerURL.Set {
		checkURL(p, "serverUrl", b.ServerURL.Value)
	}
	checkHeaders(p, "headers", b.Headers)
	checkApproval(p, "approval", b.Approval)
	if b.Version.Set && b.Version.Value < 1 {
		p.add("version", codeInvalidValue, "must be 1 or more")
	}
}

// checkDocument takes a document as an object, or as a text.
func (b *importBody) checkDocument(p *problems) {
	if len(b.Document) == 0 {
		return // which was found before
	}
	var text string
	switch err := json.Unmarshal(b.Document, &text); {
	case b.Document[0] == '{':
		b.text = b.Document
	case err != nil || b.Document[0] != '"':
		p.add("document", codeInvalidType, "must be an object, or a text in JSON or YAML")
	case text == "":
		p.add("document", codeTooShort, "must not be empty")
	default:
		b.text = []byte(text)
	}
}

func checkOperations(p *problems, operations []string) {
	const path = "operations"
	if len(operations) == 0 {
		p.add(path, codeTooShort, "must not be empty: left out it means all")
	}
	p.count(path, len(operations), endpointsMost)
	for i, name := range operations[:min(len(operations), endpointsMost)] {
		p.text(element(path, i), name, 1, operationMost)
		if slices.Contains(operations[:i], name) {
			p.add(element(path, i), codeDuplicate, "is given twice")
		}
	}
}

// errNothing says that a document has no operation to import: the agent stays as it is.
var errNothing = errors.New("nothing to import")

// importOpenAPI is POST /api/agents?id=&action=import-openapi: the operations of a document become endpoints of an
// agent, all of them or none.
func (a *api) importOpenAPI(c *gin.Context) {
	agentID, err := requiredID(c, id.Agent)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, agentID, "", "")
	body, err := bindUpTo[importBody](c, importMost)
	if err != nil {
		fail(c, err)
		return
	}
	condition, err := preconditionOf(c.Request.Header)
	if err != nil {
		fail(c, err)
		return
	}
	endpoints, skipped, err := body.convert()
	if err == nil {
		err = body.checkOrigins(endpoints)
	}
	if err != nil {
		fail(c, err)
		return
	}
	org := caller(c).OrganizationID
	var before domain.Agent
	agent, err := a.Store.UpdateAgent(c.Request.Context(), org, agentID, body.Version.or(0), func(agent *domain.Agent) error {
		if err := condition.check(agent.Version); err != nil {
			return err
		}
		if before = *agent; len(endpoints) == 0 {
			return errNothing
		}
		found := &problems{}
		body.apply(agent, endpoints, a.sealer(org, agentID), found)
		if err := a.checkSize(agent, found); err != nil {
			return err
		}
		return found.err()
	})
	switch {
	case errors.Is(err, errNothing):
		agent = before
	case err != nil:
		fail(c, err)
		return
	}
	view := importView{Agent: a.shown(agent), Imported: make([]string, len(endpoints)), Skipped: skipped}
	for i, e := range endpoints {
		view.Imported[i] = e.Name
	}
	writeVersion(c, http.StatusOK, agent.Version, view)
}

// apply adds endpoints to an agent's, in the place of those of the same names.
func (b *importBody) apply(agent *domain.Agent, endpoints []domain.Endpoint, seal func(string) string, p *problems) {
	t := domain.HTTPRequestTool{}
	if agent.Tools.HTTPRequest != nil {
		t = *agent.Tools.HTTPRequest
	}
	t.Enabled, t.Approval, t.Endpoints = true, b.Approval.or(t.Approval), slices.Clone(t.Endpoints)
	for _, e := range endpoints {
		at := slices.IndexFunc(t.Endpoints, func(old domain.Endpoint) bool { return old.Name == e.Name })
		if at < 0 {
			at = len(t.Endpoints)
			t.Endpoints = append(t.Endpoints, domain.Endpoint{})
		}
		t.Endpoints[at] = b.secured(e, t.Endpoints[at], seal, p)
	}
	if n := len(t.Endpoints); n > endpointsMost {
		p.add("operations", codeTooLong, "the agent would have %d endpoints and may have %d: name those that it needs", n, endpointsMost)
	}
	agent.Tools.HTTPRequest = &t
}

// secured gives an endpoint the headers of the request, or the secrets of the one that it replaces, if they go to the
// same origin.
func (b *importBody) secured(e, old domain.Endpoint, seal func(string) string, p *problems) domain.Endpoint {
	same := origin(e.URL) == origin(old.URL)
	if same {
		e.SigningSecret = old.SigningSecret
	}
	switch {
	case b.Headers != nil:
		e.Headers = secretsOf{url: old.URL, headers: old.Headers}.merge(p, "headers", e.URL, b.Headers, seal)
	case same:
		e.Headers = old.Headers
	}
	return e
}

// checkOrigins refuses to send headers, which are secrets meant for one server, to several because a document says so.
func (b *importBody) checkOrigins(endpoints []domain.Endpoint) error {
	if len(b.Headers) == 0 {
		return nil
	}
	var origins []string
	for _, e := range endpoints {
		if o := origin(e.URL); !slices.Contains(origins, o) {
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
	found := &problems{}
	found.add("headers", codeInvalidValue, "would go to %d servers: %s; import the operations of each by themselves, or give serverUrl",
		len(origins), named)
	return found.err()
}

// checkSize refuses agents that could be read and not be sent back.
func (a *api) checkSize(agent *domain.Agent, p *problems) error {
	const spare = 256 // for what changes with each version
	raw, err := json.Marshal(agent)
	if err != nil {
		return fmt.Errorf("rendering agent: %w", err)
	}
	var copied domain.Agent // for showing hides secrets in place
	if err := json.Unmarshal(raw, &copied); err != nil {
		return fmt.Errorf("copying agent: %w", err)
	}
	if raw, err = json.Marshal(a.shown(copied)); err != nil {
		return fmt.Errorf("rendering agent: %w", err)
	}
	if n := len(raw); n > maxBody-spare {
		p.add("operations", codeTooLong, "the agent would have %d bytes and may have %d: name those that it needs", n, maxBody-spare)
	}
	return nil
}

// convert makes endpoints of the document's operations, and lists those that cannot be made into any.
func (b *importBody) convert() ([]domain.Endpoint, []skippedView, error) {
	made, left, err := openapiimport.Convert(b.text, openapiimport.Options{Operations: b.Operations.Value, ServerURL: b.ServerURL.Value})
	if invalid, ok := errors.AsType[*openapiimport.Invalid](err); ok {
		found := &problems{}
		for _, p := range invalid.Problems {
			found.add(p.Field, p.Code, "%s", p.Message)
		}
		return nil, nil, found.err()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("importing document: %w", err)
	}
	skipped := make([]skippedView, 0, len(left))
	for _, s := range left {
		skipped = append(skipped, skippedView(s))
	}
	endpoints := make([]domain.Endpoint, 0, len(made))
	for _, e := range made {
		if reason := unfit(e); reason != "" {
			skipped = append(skipped, skippedView{Operation: e.Name, Reason: reason})
			continue
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, skipped, nil
}

// unfit says why an endpoint would be refused if it were sent in an agent's body, as whoever reads the agent may do;
// "" when it would not.
func unfit(e domain.Endpoint) string {
	body := endpointBody{Name: e.Name, Description: e.Description, Method: e.Method, URL: e.URL}
	if e.InputSchema != nil {
		raw, err := json.Marshal(e.InputSchema)
		if err != nil {
			return "its inputSchema cannot be rendered"
		}
		body.InputSchema = raw
	}
	found := &problems{}
	body.Check(found, "it", map[string]bool{})
	if len(found.list) == 0 {
		return ""
	}
	first := found.list[0]
	return strings.TrimPrefix(first.Field, "it.") + " " + first.Message
}
