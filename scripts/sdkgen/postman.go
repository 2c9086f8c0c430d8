package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parley/shared/yamldoc"
)

// The parts of a Postman collection (version 2.1) that sdkgen writes.
type (
	collection struct {
		Info     info       `json:"info"`
		Auth     auth       `json:"auth"`
		Event    []event    `json:"event"`
		Variable []variable `json:"variable"`
		Item     []folder   `json:"item"`
	}
	info struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Schema      string `json:"schema"`
	}
	auth struct {
		Type   string     `json:"type"`
		APIKey []variable `json:"apikey,omitempty"`
		Bearer []variable `json:"bearer,omitempty"`
	}
	event struct {
		Listen string `json:"listen"`
		Script script `json:"script"`
	}
	script struct {
		Type string   `json:"type"`
		Exec []string `json:"exec"`
	}
	variable struct {
		Key         string `json:"key"`
		Value       string `json:"value"`
		Type        string `json:"type,omitempty"`
		Description string `json:"description,omitempty"`
		Disabled    bool   `json:"disabled,omitempty"`
	}
	folder struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Item        []item `json:"item"`
	}
	item struct {
		Name     string    `json:"name"`
		Request  request   `json:"request"`
		Response []example `json:"response"`
	}
	request struct {
		Auth        *auth      `json:"auth,omitempty"` // nil: the authentication of the collection
		Method      string     `json:"method"`
		Header      []variable `json:"header"`
		Body        *body      `json:"body,omitempty"`
		URL         address    `json:"url"`
		Description string     `json:"description,omitempty"`
	}
	body struct {
		Mode    string      `json:"mode"`
		Raw     string      `json:"raw"`
		Options bodyOptions `json:"options"`
	}
	bodyOptions struct {
		Raw struct {
			Language string `json:"language"`
		} `json:"raw"`
	}
	address struct {
		Raw   string     `json:"raw"`
		Host  []string   `json:"host"`
		Path  []string   `json:"path"`
		Query []variable `json:"query,omitempty"`
	}
	example struct {
		Name            string     `json:"name"`
		Status          string     `json:"status"`
		Code            int        `json:"code"`
		PreviewLanguage string     `json:"_postman_previewlanguage"`
		Header          []variable `json:"header"`
		Body            string     `json:"body"`
	}
)

// identifiers matches the IDs that occur in examples. The table variables contains the Postman
// variable that replaces an ID, by the ID's prefix.
var (
	identifiers = regexp.MustCompile(`\b(ag|org|run|resp|doc|usr|key|file|ls|inv)_[0-7][0-9a-hjkmnp-tv-z]{25}\b|\b(src)_[0-9a-f]{64}\b`)
	variables   = []struct{ prefix, name, doc string }{
		{"ag", "agentId", "An agent."},
		{"org", "organizationId", "The organization to act in."},
		{"run", "runId", "A run."},
		{"resp", "responseId", "A run, by its response ID in `/v1/responses`."},
		{"doc", "documentId", "A document."},
		{"key", "keyId", "The ID of an API key."},
		{"file", "fileId", "A file that a run created."},
		{"src", "sourceId", "A source that an answer cites."},
		{"usr", "userId", "A member."},
		{"inv", "invitationId", "An invitation."},
		{"ls", "loginSessionId", "A login session."},
	}
)

// remember is a Postman script. After a request that creates a resource, it stores the resource's
// ID in a variable that later requests use.
const remember = `const names = %s;
const known = pm.collectionVariables;
let answer = null;
try { answer = pm.response.json(); } catch { /* no JSON, no id */ }
const id = typeof answer?.id === "string" ? answer.id : "";
const name = names[id.split("_")[0]];
if (name && pm.request.method === "POST" && id !== known.get(name)) {
  known.set(name + "Before", known.get(name));
  known.set(name, id);
}
if (name && pm.request.method === "DELETE" && answer.deleted && id === known.get(name)) known.set(name, known.get(name + "Before"));
const source = answer?.citations?.find?.((c) => c.sourceId)?.sourceId;
if (source) known.set("sourceId", source);
const file = answer?.toolCalls?.flatMap?.((call) => call.output?.files ?? [])[0]?.id;
if (file) known.set("fileId", file);
if (answer?.token?.startsWith?.("ps_")) known.set("sessionToken", answer.token);`

// postman generates the collection. It contains a folder for each tag and a request for each
// example in the document.
func postman(doc object) ([]byte, error) {
	made := collection{
		Info: info{
			Name: doc.At("info").Text("title"),
			Description: doc.At("info").Text("summary") + "\n\nSet the variables `baseUrl`, `apiKey` and `agentId` (one of your agents). " +
				"The collection remembers created resources: the next request that needs a run, a document or a key " +
				"uses the newest resource of that kind.\n\n" + notice,
			Schema: "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
		},
		Auth: auth{Type: "apikey", APIKey: []variable{
			{Key: "key", Value: "x-api-key"}, {Key: "value", Value: "{{apiKey}}"}, {Key: "in", Value: "header"},
		}},
		Event: []event{{Listen: "test", Script: script{Type: "text/javascript", Exec: rememberScript()}}},
		Variable: []variable{
			{Key: "baseUrl", Value: "http://127.0.0.1:8080", Type: "string", Description: "The service's URL."},
			{Key: "apiKey", Value: "", Type: "string", Description: "An API key, `ak_…`."},
			{Key: "sessionToken", Value: "", Type: "string", Description: "The token of a login session, `ps_…`; logging in sets it."},
		},
	}

	for _, tag := range doc.Objects("tags") {
		made.Item = append(made.Item, folder{Name: tag.Text("name"), Description: tag.Text("description"), Item: []item{}})
	}

	for _, o := range operationsFor(doc) {
		if err := addRequests(&made, doc, o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.id, err)
		}
	}

	made.Item = slices.DeleteFunc(made.Item, func(f folder) bool { return len(f.Item) == 0 })
	for _, f := range made.Item {
		f.sortRequests()
	}

	for _, v := range variables {
		made.Variable = append(made.Variable, variable{Key: v.name, Type: "string", Description: v.doc})
	}
	return indented(made)
}

// sortRequests puts requests that create resources first and requests that delete resources last,
// so that a folder can be run from top to bottom. It also makes the titles of requests unique.
func (f folder) sortRequests() {
	rank := func(it item) int {
		hasID := slices.ContainsFunc(it.Request.URL.Query, func(v variable) bool { return v.Key == "id" && !v.Disabled })
		switch {
		case it.Request.Method == http.MethodPost && !hasID:
			return 0
		case it.Request.Method == http.MethodDelete:
			return 2
		}
		return 1
	}

	slices.SortStableFunc(f.Item, func(a, b item) int { return rank(a) - rank(b) })
	count := map[string]int{}
	for _, it := range f.Item {
		count[it.Name]++
	}

	for i, it := range f.Item {
		if count[it.Name] > 1 {
			f.Item[i].Name += " " + strings.TrimPrefix(it.Request.URL.Raw, "{{baseUrl}}")
		}
	}
}

// rememberScript returns the lines of the script remember. The script contains the names of the
// variables by prefix.
func rememberScript() []string {
	var names []string
	for _, v := range variables {
		names = append(names, v.prefix+": "+strconv.Quote(v.name))
	}
	return strings.Split(fmt.Sprintf(remember, "{ "+strings.Join(names, ", ")+" }"), "\n")
}

// indented returns a value as indented JSON, in which HTML characters are not escaped.
func indented(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("writing the collection: %w", err)
	}
	return out.Bytes(), nil
}

// addRequests adds an operation's requests to the folders of its tags. It adds one request for each
// example, or a single request if there are no examples.
func addRequests(made *collection, doc object, o operation) error {
	shown := o.op.Objects("x-requests")
	if len(shown) == 0 {
		shown = []object{{{Key: "title", Value: o.op.Text("summary")}}}
	}

	for i, sample := range shown {
		tag := sample.Text("tag")
		if tag == "" && len(o.op.Texts("tags")) > 0 {
			tag = o.op.Texts("tags")[0]
		}
		at := slices.IndexFunc(made.Item, func(f folder) bool { return f.Name == tag })
		if at < 0 {
			return fmt.Errorf("the document has no tag %q", tag)
		}
		it, err := requestFor(doc, o, sample)
		if err != nil {
			return err
		}
		if i == 0 {
			if it.Response, err = examples(doc, o); err != nil {
				return err
			}
		}
		made.Item[at].Item = append(made.Item[at].Item, it)
	}
	return nil
}

// requestFor builds the request of a code sample. The request also contains the other parameters of
// the operation, which are disabled.
func requestFor(doc object, o operation, sample object) (item, error) {
	req := request{
		Auth: authFor(doc, o, sample), Method: o.method, Header: []variable{},
		Description: o.op.Text("summary") + "\n\n" + o.op.Text("description"),
	}
	if sample.Text("credential") == "demo" {
		req.Header = append(req.Header, variable{Key: "x-tenant-id", Value: "tenant_demo"})
	}

	for _, header := range sample.At("headers") {
		req.Header = append(req.Header, variable{Key: header.Key, Value: named(fmt.Sprint(header.Value))})
	}

	for _, pair := range sample.At("query") {
		req.URL.Query = append(req.URL.Query, variable{Key: pair.Key, Value: named(fmt.Sprint(pair.Value))})
	}

	if err := addParameters(doc, o, &req); err != nil {
		return item{}, err
	}
	if err := addBody(o, sample, &req); err != nil {
		return item{}, err
	}

	req.URL.locate(named(o.path), sample.At("path"))
	return item{Name: sample.Text("title"), Request: req, Response: []example{}}, nil
}

// named replaces the IDs in a text by Postman variables.
func named(s string) string {
	return identifiers.ReplaceAllStringFunc(s, func(id string) string {
		prefix, _, _ := strings.Cut(id, "_")
		for _, v := range variables {
			if v.prefix == prefix {
				return "{{" + v.name + "}}"
			}
		}
		return id
	})
}

// addParameters adds those parameters of the operation that the request lacks. Required parameters
// get a value, and other parameters are disabled.
func addParameters(doc object, o operation, req *request) error {
	r := reader{doc: doc}
	for _, parameter := range r.parameters(o) {
		made := variable{
			Key: parameter.Text("name"), Value: named(valueFor(doc, parameter)), Description: parameter.Text("description"),
			Disabled: parameter.Get("required") != true,
		}
		to := &req.URL.Query
		switch parameter.Text("in") {
		case "query":
		case "header":
			to = &req.Header
		default:
			continue
		}
		at := slices.IndexFunc(*to, func(v variable) bool { return strings.EqualFold(v.Key, made.Key) })
		if at < 0 {
			*to = append(*to, made)
		} else if (*to)[at].Description == "" {
			(*to)[at].Description = made.Description
		}
	}
	return r.fault
}

// valueFor returns a value for a parameter: its example, its default, or else a variable.
func valueFor(doc object, parameter object) string {
	schema := parameter.At("schema")
	if name, isRef := strings.CutPrefix(schema.Text("$ref"), "#/components/schemas/"); isRef {
		for _, v := range variables {
			if strings.EqualFold(v.name, name) {
				return "{{" + v.name + "}}"
			}
		}
	}

	resolved, err := doc.Resolve(schema)
	if err != nil {
		return "" // the generators of types report this error
	}

	for _, value := range []any{parameter.Get("example"), resolved.Get("default"), first(resolved.List("enum"))} {
		if value != nil {
			return fmt.Sprint(value)
		}
	}
	return ""
}

// first returns the first value of a list, or nil.
func first(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// addBody adds the example body that the sample names. It returns an error if the operation has no
// such example.
func addBody(o operation, sample object, req *request) error {
	name := sample.Text("body")
	if name == "" {
		return nil
	}

	value := o.op.At("requestBody", "content", "application/json", "examples", name)
	if !value.Has("value") {
		return fmt.Errorf("the request has no example body %q", name)
	}

	raw, err := yamldoc.JSON(value.Get("value"))
	if err != nil {
		return err
	}

	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("indenting: %w", err)
	}

	req.Header = append([]variable{{Key: "Content-Type", Value: "application/json"}}, req.Header...)
	req.Body = &body{Mode: "raw", Raw: named(out.String())}
	req.Body.Options.Raw.Language = "json"
	return nil
}

// locate sets the URL of a request. It replaces the parameters of the path by their values in the
// argument filled. Disabled query parameters are not part of the raw URL.
func (a *address) locate(path string, filled object) {
	for _, variable := range filled {
		path = strings.ReplaceAll(path, "{"+variable.Key+"}", named(fmt.Sprint(variable.Value)))
	}

	a.Host, a.Path = []string{"{{baseUrl}}"}, strings.Split(strings.TrimPrefix(path, "/"), "/")
	var query []string
	for _, pair := range a.Query {
		if !pair.Disabled {
			query = append(query, pair.Key+"="+escaped(pair.Value))
		}
	}

	a.Raw = "{{baseUrl}}" + path
	if len(query) > 0 {
		a.Raw += "?" + strings.Join(query, "&")
	}
}

// escaped escapes the value of a query parameter, unless it is a variable.
func escaped(value string) string {
	if strings.HasPrefix(value, "{{") {
		return value
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// authFor returns the authentication of a request. Nil selects the authentication of the
// collection, which is an API key.
func authFor(doc object, o operation, sample object) *auth {
	allowed := o.op.Objects("security")
	if !o.op.Has("security") {
		allowed = doc.Objects("security")
	}

	takes := func(scheme string) bool {
		return slices.ContainsFunc(allowed, func(s object) bool { return s.Has(scheme) })
	}

	credential := sample.Text("credential")
	switch {
	case credential == "sessionToken", credential == "" && !takes("apiKey") && takes("sessionToken"):
		return &auth{Type: "bearer", Bearer: []variable{{Key: "token", Value: "{{sessionToken}}"}}}
	case credential == "apiKey", credential == "" && takes("apiKey"):
		return nil
	}
	return &auth{Type: "noauth"}
}

// examples returns the examples of an operation's successful responses.
func examples(doc object, o operation) ([]example, error) {
	out := []example{}
	for status, response := range o.op.At("responses").Members() {
		code, err := strconv.Atoi(status)
		if err != nil || code >= http.StatusMultipleChoices {
			continue
		}
		resolved, err := doc.Resolve(response)
		if err != nil {
			return nil, err
		}
		content := resolved.At("content", "application/json")
		shown := slices.Clone(content.At("examples"))
		if content.Has("example") {
			only := object{{Key: "summary", Value: http.StatusText(code)}, {Key: "value", Value: content.Get("example")}}
			shown = append(shown, yamldoc.Item{Value: only})
		}
		for _, one := range shown.Members() {
			raw, err := yamldoc.JSON(one.Get("value"))
			if err != nil {
				return nil, err
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, raw, "", "  "); err != nil {
				return nil, fmt.Errorf("indenting: %w", err)
			}
			out = append(out, example{
				Name: one.Text("summary"), Status: http.StatusText(code), Code: code, PreviewLanguage: "json",
				Header: []variable{{Key: "Content-Type", Value: "application/json"}}, Body: pretty.String(),
			})
		}
	}
	return out, nil
}
