package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/agent"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/knowledge"
	"parley/shared/domain"
)

// Every path responds to an unsupported method with 405 and a list of the supported methods.
func TestEveryOtherMethodIsRefused(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	m, err := newMetrics(nil)
	must(t, err)
	have := map[string][]string{}
	for _, r := range withHead(append(a.api.routes(), a.api.pages(m)...)) {
		if !slices.Contains(have[r.Path], r.Method) {
			have[r.Path] = append(have[r.Path], r.Method)
		}
	}
	ada := a.person("ada")
	n := 0
	for path, methods := range have {
		slices.Sort(methods)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "INVENT", "get", "PROPFIND"} {
			if slices.Contains(methods, method) {
				continue
			}
			for _, headers := range [][]string{nil, {ada.auth}} {
				n++
				code := "method_not_allowed"
				if method == http.MethodHead { // HEAD responses have no body
					code = ""
				}
				got := a.from(method, path, "", headers...).want(t, method+" "+path, 405, code)
				allow := strings.Split(got.header.Get("Allow"), ", ")
				slices.Sort(allow)
				if !slices.Equal(allow, methods) {
					t.Errorf("%s %s: Allow %q, want %q", method, path, allow, methods)
				}
			}
		}
	}
	t.Logf("%d methods of %d paths", n, len(have))
}

// bodyRow is a row of the access table whose request has a body, together with a caller who may
// send it.
type bodyRow struct {
	accessRow
	*matrix
	caller credential
}

// bodyRows returns all rows that have a JSON body.
func bodyRows(t *testing.T) []bodyRow {
	t.Helper()
	m := newMatrix(t, newRunEnv(t))
	var rows []bodyRow
	for _, r := range accessTable {
		if r.body == "" || r.raw() {
			continue
		}
		caller := login("owner", m.home.owner, m.home, domain.RoleOwner, m.home.owner.auth)
		if r.who == forSystem || r.who == forKey {
			caller = orgKey("organization's key", m.home, m.home.key)
		}
		rows = append(rows, bodyRow{r, m, caller})
	}
	return rows
}

func (r bodyRow) name() string { return r.method + " " + r.path + "?" + r.query + " " + r.body }

// good returns a target and a body that are valid for the row. The target contains an id that
// belongs to the caller.
func (r bodyRow) good() (target, body string) {
	var at string
	switch name := r.kind(); {
	case name == "":
	case r.who == forPage:
		at = r.pageTargets(name, &r.caller)[0].id
	default:
		at = r.ownTarget(&r.accessRow, name, &r.caller).id
	}
	fill := func(s string) string {
		s = strings.NewReplacer("$word", "word", "$okey", r.home.keyID, "$fresh", r.fresh(), "$email", r.caller.who.email).Replace(s)
		return placeholder.ReplaceAllLiteralString(s, at)
	}
	return r.path + "?" + fill(r.query), fill(r.body)
}

func (r bodyRow) sent(target, body string) answer {
	headers := []string{"Prefer: respond-async"}
	if r.who == forPage {
		headers = append(headers, "Origin: "+widgetPage)
	}
	if r.who != forAnyone && r.who != forLink {
		headers = append(headers, r.caller.headers...)
	}
	return r.from(r.method, target, body, headers...)
}

// openObjects lists fields whose value is an object with arbitrary members.
var openObjects = []string{"input", "headers", "inputSchema", "filter", "document", "metadata", "payload"}

// open reports whether the row's body has the format of another protocol. Such bodies may contain
// unknown fields.
func (r bodyRow) open() bool { return strings.HasPrefix(r.path, "/v1/") }

// maximum returns the maximum size of a row's body.
func (r bodyRow) maximum() int {
	if strings.HasPrefix(r.query, "action=import-openapi") {
		return agent.MaxImport
	}
	if r.path == "/api/knowledge" {
		return knowledge.MaxDocumentBody
	}
	if r.open() && r.path != secretsPath || strings.HasPrefix(r.query, "action=chat") || strings.HasPrefix(r.query, "action=tool-results") || r.path == "/api/internal/run-automation" {
		return httpx.MaxMessageBody
	}
	return httpx.MaxBody
}

var (
	firstMember = regexp.MustCompile(`\{\s*"((?:[^"\\]|\\.)*)"\s*:`)
	stringValue = regexp.MustCompile(`:\s*"(?:[^"\\]|\\.)*"`)
	anyName     = regexp.MustCompile(`"([a-z])([A-Za-z]*)"\s*:`)
)

// likeValue maps the first byte of a JSON value to another value of the same type.
var likeValue = map[byte]string{'"': `"x"`, '{': `{}`, '[': `[]`, 't': "true", 'f': "false", 'n': "null"}

// faultyBodies returns variants of a valid body, each with one mistake. The key is the expected
// problem.
func faultyBodies(body string) map[string]string {
	out := map[string]string{
		body + "{}": httpx.CodeInvalidJSON, body + " x": httpx.CodeInvalidJSON, body + ",": httpx.CodeInvalidJSON, body + "\x00": httpx.CodeInvalidJSON, body + body: httpx.CodeInvalidJSON,
		"\ufeff" + body: httpx.CodeInvalidJSON, "\xff" + body: httpx.CodeInvalidJSON, " ": httpx.CodeInvalidJSON, "null": httpx.CodeInvalidType, "[" + body + "]": httpx.CodeInvalidType,
		`"x"`: httpx.CodeInvalidType, "1": httpx.CodeInvalidType, "true": httpx.CodeInvalidType, "[]": httpx.CodeInvalidType, "undefined": httpx.CodeInvalidJSON, "{": httpx.CodeInvalidJSON,
		strings.TrimSuffix(body, "}") + ",}":                       httpx.CodeInvalidJSON,
		strings.TrimSuffix(body, "}") + "/**/}":                    httpx.CodeInvalidJSON,
		`{"zz":` + strings.Repeat("[", 100) + `,` + body[1:]:       httpx.CodeTooDeep,
		`{"zz":` + strings.Repeat(`{"a":`, 50_00) + `,` + body[1:]: httpx.CodeTooDeep,
		`{"zz":"` + "\x01" + `",` + body[1:]:                       httpx.CodeInvalidJSON,
		`{"zz":"\ud8",` + body[1:]:                                 httpx.CodeInvalidJSON,
		`{"zz":01,` + body[1:]:                                     httpx.CodeInvalidJSON,
		`{"zz":NaN,` + body[1:]:                                    httpx.CodeInvalidJSON,
		`{'zz':1,` + body[1:]:                                      httpx.CodeInvalidJSON,
		"{\"zz\":\"\xc3\",\"z\":\"\xa9\"," + body[1:]:              httpx.CodeInvalidJSON,
	}
	for _, at := range firstMember.FindAllStringSubmatchIndex(body, -1) {
		name, inside := body[at[2]:at[3]], at[0]+1
		like, known := likeValue[body[at[1]]]
		if !known {
			like = "1"
		}
		out[body[:inside]+`"`+name+`":`+like+`,`+body[inside:]] = httpx.CodeDuplicate
		out[body[:inside]+`"\u00`+fmt.Sprintf("%02x", name[0])+name[1:]+`":`+like+`,`+body[inside:]] = httpx.CodeDuplicate
		if !within(body[:at[0]], openObjects) {
			out[body[:inside]+`"zzUnknown":{"a":[1,{"b":null}]},`+body[inside:]] = httpx.CodeUnknown
			out[body[:inside]+`"__proto__":{"a":1},`+body[inside:]] = httpx.CodeUnknown
		}
	}
	for _, at := range stringValue.FindAllStringIndex(body, -1) {
		out[body[:at[1]-1]+`\u0000"`+body[at[1]:]] = httpx.CodeInvalidValue
		out[body[:at[1]-1]+"\x00\""+body[at[1]:]] = httpx.CodeInvalidJSON
	}
	for _, at := range anyName.FindAllStringSubmatchIndex(body, -1) {
		if !within(body[:at[0]], openObjects) {
			out[body[:at[2]]+strings.ToUpper(body[at[2]:at[3]])+body[at[3]:]] = httpx.CodeUnknown
		}
	}
	return out
}

// within reports whether a position in a JSON text is inside the value of a member with one of the
// given names, or directly in front of this value. The value must be an object. The argument before
// is the text up to this position.
func within(before string, names []string) bool {
	depth := 0
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i] {
		case '}':
			depth++
		case '{':
			if depth--; depth < 0 {
				head := strings.TrimRight(before[:i], " ")
				for _, name := range names {
					if strings.HasSuffix(head, `"`+name+`":`) {
						return true
					}
				}
				depth = 0
			}
		}
	}
	for _, name := range names {
		if strings.HasSuffix(strings.TrimRight(before, " "), `"`+name+`":`) {
			return true
		}
	}
	return false
}

// TestEveryBody sends wrong variants of each body that the access table contains. The subtests share
// one environment.
func TestEveryBody(t *testing.T) {
	t.Parallel()
	rows := bodyRows(t)
	t.Run("is read strictly", func(t *testing.T) { t.Parallel(); readStrictly(t, rows) })
	t.Run("has fields of their types", func(t *testing.T) { t.Parallel(); haveFieldsOfTheirTypes(t, rows) })
	t.Run("has its type and size", func(t *testing.T) { t.Parallel(); haveTheirTypeAndSize(t, rows) })
	t.Run("has no fields of the service", func(t *testing.T) { t.Parallel(); haveNoFieldsOfTheService(t, rows) })
}

// Every route decodes its request body strictly.
func readStrictly(t *testing.T, rows []bodyRow) {
	t.Helper()
	n, d := 0, newDraw(t)
	for row, r := range rows {
		target, body := r.good()
		faulty := faultyBodies(body)
		for i, wrong := range slices.Sorted(maps.Keys(faulty)) {
			if !d.selects(row + i) {
				continue
			}
			n++
			code := faulty[wrong]
			got := r.sent(target, wrong)
			if r.open() {
				r.checkOpen(wrong, code, got)
				continue
			}
			if got.status != 400 || !got.blames(t, ":"+code) {
				t.Errorf("%s with %.300q: %d %s, want 400 with %s", r.name(), wrong, got.status, got.problems(t), code)
			}
		}
		for i := 1; i < len(body); i++ { // the position at which the body is truncated
			if !d.selects(i) {
				continue
			}
			n++
			if got := r.sent(target, body[:i]); got.status != 400 {
				t.Errorf("%s with %q: %d %s", r.name(), body[:i], got.status, got.body)
			}
		}
		if got := r.sent(target, body); got.status != r.status {
			t.Errorf("%s with the valid body: %d %s", r.name(), got.status, got.body)
		}
	}
	t.Logf("%d bodies", n)
}

// checkOpen checks the response to a body in another protocol's format. In such a response, an
// error names the field, without a code for the problem. An unknown field is ignored. If the body
// has an unknown field instead of a required field, the error names the required field.
func (r bodyRow) checkOpen(wrong, code string, got answer) {
	r.t.Helper()
	named := strings.HasPrefix(got.problems(r.t), "invalid_request ")
	switch {
	case code == httpx.CodeUnknown && (got.status == r.status || got.status == http.StatusServiceUnavailable):
	case got.status != http.StatusBadRequest || !named:
		r.t.Errorf("%s with %.300q: %d %s, want 400 for %s", r.name(), wrong, got.status, got.body, code)
	}
}

// A value of the wrong JSON type is always rejected, and never causes an internal error.
func haveFieldsOfTheirTypes(t *testing.T, rows []bodyRow) {
	t.Helper()
	typeName := func(v any) string { return strings.TrimLeft(fmt.Sprintf("%T", v), "*") }
	fields, d := 0, newDraw(t)
	for _, r := range rows {
		target, body := r.good()
		var members map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(body), &members))
		for _, name := range slices.Sorted(maps.Keys(members)) {
			var right any
			must(t, json.Unmarshal(members[name], &right))
			fields++
			for i, other := range []string{`"x"`, `1`, `-1.5`, `1e400`, `true`, `null`, `[]`, `{}`, `[[]]`, `{"a":{}}`, `""`, `"` + strings.Repeat("x", 40_000) + `"`} {
				if !d.selects(fields + i) {
					continue
				}
				var wrong any
				_ = json.Unmarshal([]byte(other), &wrong) // fails for the number 1e400, for which there is no Go value
				changed := maps.Clone(members)
				changed[name] = json.RawMessage(other)
				raw := renderRaw(changed)
				got := r.sent(target, raw)
				mayBeText := r.path == "/mcp" && name == "id" || r.path == "/v1/responses" && name == "input" // fields with several types
				sameType := typeName(wrong) == typeName(right) && other != "1e400" || mayBeText && typeName(wrong) == "string"
				if name == "payload" && got.status < 500 {
					continue // the payload of a hook may be any JSON
				}
				if r.open() && got.status == http.StatusServiceUnavailable {
					continue // the request waits for its run, and nothing executes runs here
				}
				if got.status >= 500 || got.status < 300 && !sameType && other != "null" {
					t.Errorf("%s with %.200s: %d %s", r.name(), raw, got.status, got.body)
				}
			}
		}
	}
}

// renderRaw returns an object whose members have the given JSON values.
func renderRaw(members map[string]json.RawMessage) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, `"`+name+`":`+string(members[name]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Every route rejects a body with a Content-Type other than JSON, a body that is too large, and a
// missing body.
func haveTheirTypeAndSize(t *testing.T, rows []bodyRow) {
	t.Helper()
	sized := map[string]bool{}
	for _, r := range rows {
		target, body := r.good()
		for _, media := range []string{
			"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/jsonx",
			"application/json, text/plain", "application/vnd.api+json", "", "json", "application/json;", "text/plain; x=application/json", "*/*", "application/ json",
		} {
			want := 415
			if media == "application/json;" || strings.HasPrefix(media, httpx.ContentForm) && r.path == "/api/knowledge" { // "application/json;" has no parameters and is valid; /api/knowledge accepts forms
				continue
			}
			req := httptest.NewRequestWithContext(t.Context(), r.method, target, strings.NewReader(body))
			req.Header.Set("Content-Type", media)
			r.as(req)
			r.send(req).want(t, r.name()+" as "+media, want, "unsupported_media_type")
		}
		for _, encoding := range []string{"gzip", "identity", "br", ""} {
			req := httptest.NewRequestWithContext(t.Context(), r.method, target, strings.NewReader(body))
			req.Header["Content-Type"], req.Header["Content-Encoding"] = []string{"application/json"}, []string{encoding}
			r.as(req)
			r.send(req).want(t, r.name()+" in "+encoding, 415, "unsupported_media_type")
		}
		if !strings.Contains(r.query, "action=rotate") && !strings.Contains(r.query, "action=test") { // these bodies are optional
			want := "invalid_request body:required"
			if r.open() {
				want = "invalid_request body"
			}
			r.sent(target, "").want(t, r.name()+" without a body", 400, want)
		}
		route := r.method + " " + r.path + " " + strings.Split(r.query, "&")[0]
		if sized[route] {
			continue // this route allows the size
		}
		sized[route] = true
		pad := func(n int) string { return body + strings.Repeat(" ", n-len(body)) }
		r.sent(target, pad(r.maximum()+1)).want(t, r.name()+" too large", 413, "payload_too_large")
		if got := r.sent(target, pad(r.maximum())); got.status != r.status {
			t.Errorf("%s of the largest size: %d %s", r.name(), got.status, got.body)
		}
	}
}

// as authenticates a request as the row's caller.
func (r bodyRow) as(req *http.Request) {
	if r.who == forPage {
		req.Header.Set("Origin", widgetPage)
	}
	if r.who == forAnyone || r.who == forLink {
		return
	}
	for _, h := range r.caller.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
}

// A body must not contain fields that only the service sets.
func haveNoFieldsOfTheService(t *testing.T, rows []bodyRow) {
	t.Helper()
	// taken reports whether the row's request may contain a field with this name.
	taken := func(r bodyRow, field string) bool {
		return strings.Contains(r.body, `"`+field+`"`) || r.method+" "+r.path == "PUT /api/agents" && field == "version" ||
			r.method+" "+r.path == "PUT /api/hooks" && field == "keyId" ||
			r.method+" "+r.path == "PUT /api/knowledge" && (field == "status" || field == "updatedAt") // their values may have changed since they were read; sending them has no effect
	}
	d := newDraw(t)
	for row, r := range rows {
		if r.open() || r.status == http.StatusConflict {
			continue // these routes ignore unknown fields: see TestWhatACompletionAsks in package ingress_test
		}
		target, body := r.good()
		for i, field := range []string{
			"id", "organizationId", "organization_id", "orgId", "org_id", "organization", "tenantId", "role", "version", "createdAt", "updatedAt", "userId", "user_id",
			"keyId", "owner", "ownerId", "principal", "caller", "callerKind", "status", "secretHash", "passwordHash", "isAdmin", "admin", "scopes", "fence", "result",
			"prefix", "lastFour", "lastUsedAt", "key", "token", "attempts", "sessionRef",
		} {
			if !d.selects(row+i) || taken(r, field) {
				continue
			}
			got := r.sent(target, `{"`+field+`":"`+r.away.org+`",`+body[1:])
			known := r.method == http.MethodPut && got.blames(t, field+":"+httpx.CodeInvalidValue) // the field cannot be changed
			if got.status != 400 || !known && !got.blames(t, field+":"+httpx.CodeUnknown) {
				t.Errorf("%s with %s: %d %s", r.name(), field, got.status, got.body)
			}
		}
	}
}

// Sending an agent back in the form in which it was read does not change the agent.
func TestReadFieldsChangeNothing(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("home"), a.newTestOrg("away")
	agentID, foreign := a.newAgent(h), a.newAgent(other)
	before := a.ok("GET", "/api/agents?id="+agentID, "", h.key)
	a.from("PUT", "/api/agents?id="+agentID, `{"createdAt":"1999-01-01T00:00:00.000Z","updatedAt":"1999-01-01T00:00:00.000Z","version":1}`, h.key).
		want(t, "other times", 400, "invalid_request createdAt:invalid_value updatedAt:invalid_value")
	a.ok("PUT", "/api/agents?id="+agentID, string(before.body), h.key)
	after := a.ok("GET", "/api/agents?id="+agentID, "", h.key)
	for _, field := range []string{"id", "createdAt", "name", "systemPrompt"} {
		if before.text(t, field) != after.text(t, field) {
			t.Errorf("%s became %s", field, after.text(t, field))
		}
	}
	if strings.HasPrefix(after.text(t, "updatedAt"), "1999") {
		t.Errorf("updatedAt became %s", after.text(t, "updatedAt"))
	}
	org := a.ok("PUT", "/api/organizations?id="+h.org, `{"id":"`+h.org+`","name":"n","role":"owner"}`, h.owner.auth)
	if org.text(t, "id") != h.org || org.text(t, "name") != "n" {
		t.Errorf("the organization became %s", org.body)
	}
	a.from("PUT", "/api/organizations?id="+h.org, `{"id":"`+other.org+`","name":"x"}`, h.owner.auth).want(t, "another organization's id", 400,
		"invalid_request id:invalid_value")
	a.from("PUT", "/api/agents?id="+agentID, `{"id":"`+foreign+`","name":"x"}`, h.key).want(t, "another id", 400, "invalid_request id:invalid_value")
	a.from("PUT", "/api/agents?id="+foreign, `{"id":"`+foreign+`","name":"x"}`, h.key).want(t, "a foreign id", 404, "not_found")
}

// Two organizations or principals may use the same name for different things. Each of them gets
// only the things that it has named.
func TestSameNamesNeverMeet(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("home"), a.newTestOrg("away")
	agents := map[*testOrg]string{h: a.newAgent(h), other: a.newAgent(other)}
	runs := map[string]string{}
	noted := func(what string, got answer) {
		t.Helper()
		if got.status != 202 {
			t.Fatalf("%s: %d %s", what, got.status, got.body)
		}
		runID := got.text(t, "id")
		if before := runs[runID]; before != "" {
			t.Errorf("%s met %s: %s", what, before, got.body)
		}
		runs[runID] = what
	}
	const same, async = "Idempotency-Key: same", "Prefer: respond-async"
	for _, testOrg := range []*testOrg{h, other} {
		for name, caller := range map[string][]string{
			"owner": {testOrg.owner.auth}, "member": {testOrg.member.auth, testOrg.header}, "key": {testOrg.key}, "owner's key": {testOrg.ownerKey, testOrg.header},
		} {
			for _, target := range []string{"template=tpl_support", "id=" + agents[testOrg]} {
				noted(testOrg.word+" "+name+" "+target, a.from("POST", "/api/agents?action=chat&"+target,
					`{"sessionId":"same","message":"`+testOrg.word+name+target+`"}`, append(caller, same, async)...))
			}
		}
		noted(testOrg.word+" automation", a.from("POST", "/api/internal/run-automation",
			`{"target":"`+agents[testOrg]+`","sessionId":"same","idempotencyKey":"same","input":{"message":"`+testOrg.word+`"}}`, testOrg.key, async))
	}
	for n := range 2 { // two visitors of the demo
		noted("visitor "+string(rune('1'+n)), a.from("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"same","message":"m"}`, sayDemo, same, async))
	}
	var sessions int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(DISTINCT ref) FROM sessions WHERE session_id = 'same'`).Scan(&sessions))
	if sessions != len(runs) {
		t.Errorf("%d sessions of %d runs", sessions, len(runs))
	}
	a.from("POST", "/api/internal/run-automation", `{"target":"`+agents[h]+`","sessionId":"same","idempotencyKey":"same","input":{"message":"other"}}`,
		h.key).want(t, "another payload", 422, "idempotency_key_reused")
}

// secretShapes matches complete credentials.
var secretShapes = regexp.MustCompile(`ak_[0-9a-z]{26}_[0-9A-Za-z]{4,}|\b(ps|pl|pi|pr|wt|vt)_[0-9A-Za-z_-]{20,}|\$argon2|[Bb]earer |parley_session=`)

// logHolds examines the log entries that are not at debug level. It returns the entries that
// contain a complete credential or one of the given texts.
func logHolds(log string, texts ...string) (found []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"debug"`) {
			continue
		}
		if secretShapes.MatchString(line) {
			found = append(found, line)
		}
		for _, text := range texts {
			if strings.Contains(line, text) {
				found = append(found, text+" in "+line)
			}
		}
	}
	return found
}

// logsClean fails the test if the log contains a complete credential, the password of the tests, or
// one of the given texts.
func (a *runEnv) logsClean(texts ...string) {
	a.t.Helper()
	log := a.log.String()
	for i, line := range logHolds(log, append(texts, password)...) {
		if i < 10 {
			a.t.Errorf("the log holds %s", line)
		}
	}
	if !strings.Contains(log, `"message":"request"`) {
		a.t.Error("nothing was logged")
	}
}
