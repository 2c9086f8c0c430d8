package httpapi

import "strings"

// The access table states who may use each route, independently of the code of the handlers.
// TestAccessTableIsComplete fails if a route has no row in the table.

// Values of accessRow.who: the callers who may use a route.
const (
	forAnyone  = "anyone"  // credentials are ignored, as at login and sign-up; demo visitors are rejected
	forLink    = "link"    // any holder of a link's token; any other credential in the request must be valid, except the cookie of an ended session
	forPublic  = "public"  // everyone; a request with any credential succeeds unless the credential is malformed
	forDemo    = "demo"    // callers with a credential, and demo visitors
	forCaller  = "caller"  // people and keys
	forVisitor = "visitor" // people, keys and visitors of widgets
	forPerson  = "person"  // people and their keys, but no organization keys
	forSession = "session" // login sessions: cookie and bearer
	forSystem  = "system"  // API keys, but no browser
	forKey     = "key"     // API keys, except from browsers
	forVoice   = "voice"   // people and keys; requests with a cookie and requests from pages of other origins are rejected
	forPage    = "page"    // pages whose origin is in the list of an agent's widget; credentials are ignored
)

// raw reports whether the route's body is a file of any content. TestUploads tests such bodies.
func (r *accessRow) raw() bool { return r.method == "POST" && r.path == "/api/files" }

// inPath reports whether the row's id is a part of the path.
func (r *accessRow) inPath() bool { return strings.Contains(r.path, "/:id") }

// attaches reports whether the row's id identifies an upload that the body attaches.
func (r *accessRow) attaches() bool { return strings.Contains(r.body, `"$up"`) }

// needsID reports whether the row cannot be tested with an empty id. An empty id in a path would
// result in a different path. An empty id in an attachment is rejected before the caller's access
// is checked.
func (r *accessRow) needsID() bool { return r.inPath() || r.attaches() }

// at returns the target of the row's request: its path and the given query. If the path of the row
// contains a placeholder for an id, the argument query is the id, and at puts the id into the path.
func (r *accessRow) at(query string) string {
	if prefix, rest, inPath := strings.Cut(r.path, ":id"); inPath {
		path, _ := strings.CutPrefix(query, "id=")
		return prefix + path + rest
	}
	if query == "" {
		return r.path
	}
	return r.path + "?" + query
}

// accessRow describes a request that succeeds if the caller may use the route. The target and the
// body of the request may contain placeholders. Some placeholders, such as $ag, $run and $key,
// stand for ids. Tests replace them with ids that the caller may use, and with other ids. The
// remaining placeholders are:
//
//   - $word: a text that only the organization's data contains,
//   - $okey: the id of the organization's API key,
//   - $fresh: an unused text,
//   - $email: the caller's own address.
type accessRow struct {
	method, path string
	query        string
	body         string
	who          string
	role         string // the minimum role of a member; an organization's key acts as an admin
	status       int    // the status of a successful response
	late         bool   // the role is checked after the id was looked up, so an id of another organization results in 404 for every role
}

// newAgentBody is an agent without a template.
const newAgentBody = `{"name":"$word","systemPrompt":"$word"}`

// deepAgentBody is the body of an agent that contains objects and lists at every level of nesting.
const deepAgentBody = `{"tools":{"webSearch":{"enabled":true,"approval":"always"},"codeExecution":{"enabled":true,"approval":"unsafe","keepFiles":true},"httpRequest":{"enabled":true,"approval":"unsafe",` +
	`"endpoints":[{"name":"call","method":"GET","url":"https://example.com/{n}","headers":{"x-key":"secret"},` +
	`"inputSchema":{"type":"object","properties":{"n":{"type":"string"}}},"sideEffect":"none","signingSecret":"` + signingSecret + `"}]},` +
	`"mcp":{"enabled":true,"servers":[{"name":"s","url":"https://example.com/","sideEffect":"unsafe"}]}},"fallbackModels":["offline/echo"],` +
	`"widget":{"enabled":true,"allowedOrigins":["https://example.com"],"identitySecret":"$word identity secret"},"allowedCallers":["user"]}`

// importRowBody is an OpenAPI document with one operation.
const importRowBody = `{"document":{"openapi":"3.1.0","info":{"title":"$word","version":"1"},"servers":[{"url":"https://example.com/v1"}],"paths":{"/things/{n}":{"get":` +
	`{"operationId":"getThing","parameters":[{"name":"n","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"$word"}}}}}},` +
	`"operations":["getThing"],"serverUrl":"https://example.com/v2","headers":{"x-key":"secret"},"approval":"always"}`

// hookRowBody is a hook with all optional fields.
const hookRowBody = `{"name":"$word","agentId":"$ag","keyId":"$okey","source":"hmac","secret":"$word secret for hooks","signatureHeader":"X-Sig","deliveryIdHeader":"X-Id",` +
	`"messageTemplate":"$word {{a}}","filter":[{"path":"a","op":"exists","value":true}],"coalesce":{"key":"{{a}}","windowSeconds":1,"maxWaitSeconds":1},"enabled":true}`

// attachedRowBody is a request in OpenAI's API that attaches an upload.
const attachedRowBody = `{"model":"tpl_support","background":true,"input":[{"role":"user","content":[{"type":"input_text","text":"$word"},{"type":"input_file","file_id":"$up"}]}]}`

var accessTable = []accessRow{
	{"POST", "/api/auth/signup", "", `{"email":"$fresh@example.com","password":"long enough","name":"$word"}`, forAnyone, "", 201, false},
	{"POST", "/api/auth/login", "", `{"email":"$email","password":"` + password + `"}`, forAnyone, "", 200, false},
	{"POST", "/api/auth/logout", "", "", forSession, "member", 204, false},
	{"GET", "/api/auth/session", "", "", forCaller, "member", 200, false},

	{"GET", "/api/auth/sessions", "", "", forSession, "member", 200, false},
	{"GET", "/api/auth/sessions", "id=$ls", "", forSession, "member", 200, false},
	{"DELETE", "/api/auth/sessions", "id=$ls", "", forSession, "member", 200, false},
	{"POST", "/api/auth/accept", "", `{"token":"$pi","password":"long enough","name":"$word"}`, forLink, "", 201, false},
	{"GET", "/api/auth/invitations", "", "", forSession, "member", 200, false},
	{"GET", "/api/auth/invitations", "id=$mine", "", forSession, "member", 200, false},
	{"POST", "/api/auth/invitations", "action=accept&id=$mine", "", forSession, "member", 200, false},
	{"POST", "/api/auth/invitations", "action=decline&id=$mine", "", forSession, "member", 200, false},
	{"POST", "/api/auth/reset", "", `{"token":"$pr","password":"long enough"}`, forAnyone, "", 200, false},
	{"GET", "/api/auth/oidc", "", "", forAnyone, "", 404, false}, // no provider is configured
	{"GET", "/api/auth/oidc/callback", "state=a&code=b", "", forAnyone, "", 404, false},

	{"GET", "/api/organizations", "", "", forCaller, "member", 200, false},
	{"GET", "/api/organizations", "id=$org", "", forCaller, "member", 200, false},
	{"POST", "/api/organizations", "", `{"name":"$word"}`, forPerson, "member", 201, false},
	{"PUT", "/api/organizations", "id=$org", `{"name":"$word organization"}`, forCaller, "owner", 200, true},
	{"GET", "/api/organizations/limits", "", "", forCaller, "member", 200, false},
	{"GET", "/api/organizations/members", "", "", forCaller, "member", 200, false},
	{"GET", "/api/organizations/members", "id=$usr", "", forCaller, "member", 200, false},
	{"GET", "/api/organizations/members", "id=$inv", "", forCaller, "member", 200, false},
	{"POST", "/api/organizations/members", "", `{"email":"$fresh@example.com","role":"member"}`, forCaller, "owner", 201, false},
	{"POST", "/api/organizations/members", "action=reset&id=$lone", "", forCaller, "admin", 201, false},
	{"DELETE", "/api/organizations/members", "id=$usr", "", forCaller, "owner", 200, true},
	{"DELETE", "/api/organizations/members", "id=$inv", "", forCaller, "owner", 200, true},

	{"GET", "/api/keys", "", "", forCaller, "member", 200, false},
	{"GET", "/api/keys", "id=$key", "", forCaller, "member", 200, false},
	{"POST", "/api/keys", "", `{"name":"$word","scope":"organization"}`, forCaller, "admin", 201, false},
	{"POST", "/api/keys", "", `{"name":"$word","scope":"user","expiresAt":"2100-01-01T00:00:00Z"}`, forPerson, "member", 201, false},
	{"POST", "/api/keys", "action=rotate&id=$key", `{"overlapSeconds":60}`, forCaller, "member", 201, false},
	{"DELETE", "/api/keys", "id=$key", "", forCaller, "member", 200, false},

	{"GET", "/api/agents/templates", "", "", forPublic, "", 200, false},
	{"GET", "/api/agents/templates", "id=$tpl", "", forPublic, "", 200, false},
	{"GET", "/api/agents/models", "", "", forCaller, "admin", 200, false},
	{"GET", "/api/agents", "", "", forCaller, "member", 200, false},
	{"GET", "/api/agents", "q=$word", "", forCaller, "member", 200, false},
	{"GET", "/api/agents", "id=$ag", "", forCaller, "member", 200, false},
	{"POST", "/api/agents", "", newAgentBody, forCaller, "admin", 201, false},
	{"POST", "/api/agents", "", `{"templateId":"$tpl"}`, forCaller, "admin", 201, false},
	{"PUT", "/api/agents", "id=$ag", `{"name":"$word"}`, forCaller, "admin", 200, false},
	{"PUT", "/api/agents", "id=$ag", `{"name":"$word","version":99}`, forCaller, "admin", 409, false},
	{"PUT", "/api/agents", "id=$ag", deepAgentBody, forCaller, "admin", 200, false},
	{"POST", "/api/agents", "action=import-openapi&id=$ag", importRowBody, forCaller, "admin", 200, false},
	{"POST", "/api/agents", "action=check&id=$ag", "", forCaller, "admin", 200, false},
	{"POST", "/api/agents", "action=preview&id=$ag", `{"systemPrompt":"$word"}`, forCaller, "member", 200, false},
	{"DELETE", "/api/agents", "id=$ag", "", forCaller, "admin", 200, false},

	{"POST", "/api/agents", "action=chat&id=$ag", `{"sessionId":"s","message":"$word"}`, forCaller, "member", 202, false},
	{"POST", "/api/agents", "action=chat&template=$tpl", `{"sessionId":"s","message":"$word"}`, forDemo, "member", 202, false},
	{"POST", "/api/agents", "action=chat&template=tpl_support", `{"sessionId":"$fresh","message":"$word","attachments":[{"fileId":"$up"}]}`, forCaller, "member", 202, false},
	{"POST", "/api/widget/sessions", "", `{"agentId":"$wag","visitor":"$word"}`, forPage, "", 201, false},

	{"GET", "/api/sessions", "", "", forCaller, "member", 200, false},
	{"GET", "/api/sessions", "id=$alone", "", forCaller, "member", 200, false},
	{"GET", "/api/sessions", "id=s&agentId=$at", "", forCaller, "member", 200, false},
	{"GET", "/api/sessions", "id=$named&templateId=tpl_support", "", forCaller, "member", 200, false},
	{"DELETE", "/api/sessions", "id=s&agentId=$at", "", forCaller, "member", 200, false},
	{"DELETE", "/api/sessions", "id=$named&templateId=tpl_support", "", forCaller, "member", 200, false},

	{"GET", "/api/runs", "", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "id=$run", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "id=$ended&stream=1", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "id=$ended&format=ai-sdk", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "id=$ended&stream=1&format=ag-ui", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "id=$ended&wait=1", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=cancel&id=$run", "", forVisitor, "member", 200, false},
	{"GET", "/api/runs", "status=requires_action", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "timeline=1&id=$ended", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "q=$word&triggerType=chat&from=2026-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "export=csv", "", forCaller, "member", 200, false},
	{"GET", "/api/runs", "export=jsonl", "", forCaller, "member", 200, false},
	{"GET", "/api/automations", "limit=5", "", forCaller, "admin", 200, false},
	{"GET", "/api/automations", "id=$auto", "", forCaller, "admin", 200, false},
	{"GET", "/api/usage", "days=2", "", forCaller, "admin", 200, false},
	{"GET", "/api/usage", "by=key", "", forCaller, "admin", 200, false},

	{"GET", "/api/home", "", "", forCaller, "member", 200, false},
	{"GET", "/api/budgets", "", "", forCaller, "admin", 200, false},
	{"GET", "/api/budgets", "id=$bud", "", forCaller, "admin", 200, false},
	{"POST", "/api/budgets", "", `{"scope":"automation","subjectId":"$fresh","metric":"runs","period":"month","limit":1000}`, forCaller, "admin", 201, false},
	{"PUT", "/api/budgets", "id=$bud", `{"limit":2000}`, forCaller, "admin", 200, false},
	{"DELETE", "/api/budgets", "id=$bud", "", forCaller, "admin", 200, false},
	{"POST", "/api/runs", "action=approve&toolCallId=call_1&id=$asked", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=deny&toolCallId=call_1&id=$asked", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=happened&toolCallId=call_1&id=$unsure", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=resend&toolCallId=call_1&id=$unsure", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=abandon&toolCallId=call_1&id=$unsure", "", forCaller, "member", 200, false},
	{"POST", "/api/runs", "action=tool-results&id=$calls", `{"results":[{"toolCallId":"call_1","output":"$word","isError":true}]}`, forCaller, "member", 200, false},
	{"GET", "/api/events", "", "", forCaller, "member", 200, false}, // the environment is stopping, so the stream ends immediately
	{"GET", "/api/sources", "id=$src", "", forCaller, "member", 200, false},
	{"GET", "/api/files", "id=$file", "", forCaller, "member", 200, false},
	{"POST", "/api/files", "name=$word.json&sessionId=$word", `{"word":"$word $fresh"}`, forCaller, "member", 201, false},
	{"GET", "/api/knowledge", "", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "q=$word&status=ready", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "query=$word&limit=5&metadata=team:$word", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "id=$doc", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "id=$doc&page=1", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "id=$doc&chunk=0", "", forCaller, "member", 200, false},
	{"GET", "/api/knowledge", "id=$doc&content=1", "", forCaller, "member", 200, false},
	{"POST", "/api/knowledge", "", `{"name":"$word.txt","content":"$word $fresh","mimeType":"text/plain","metadata":{"team":"$word"}}`, forCaller, "admin", 202, false},
	{"POST", "/api/knowledge", "", `{"url":"https://$word.example.com/$fresh.pdf"}`, forCaller, "admin", 202, false},
	{"POST", "/api/knowledge", "action=retry&id=$doc", "", forCaller, "admin", 202, false},
	{"PUT", "/api/knowledge", "id=$doc", `{"metadata":{"team":"$word"}}`, forCaller, "admin", 200, false},
	{"PUT", "/api/knowledge", "id=$doc", `{"content":"$word $fresh"}`, forCaller, "admin", 202, false},
	{"DELETE", "/api/knowledge", "id=$doc", "", forCaller, "admin", 200, false},
	{"GET", "/api/knowledge/samples", "", "", forCaller, "member", 200, false},
	{"POST", "/api/knowledge/samples", "", "", forCaller, "admin", 202, false},
	{"GET", "/api/hooks", "", "", forCaller, "admin", 200, false},
	{"GET", "/api/hooks", "id=$hook", "", forCaller, "admin", 200, false},
	{"POST", "/api/hooks", "", hookRowBody, forCaller, "admin", 201, false},
	{"POST", "/api/hooks", "action=rotate&id=$hook", `{"secret":"$word secret for hooks","keepSeconds":60}`, forCaller, "admin", 200, false},
	{"POST", "/api/hooks", "action=test&id=$hook", `{"event":"$word","payload":{"a":["$word"]}}`, forCaller, "admin", 202, false},
	{"PUT", "/api/hooks", "id=$hook", `{"name":"$word","enabled":true}`, forCaller, "admin", 200, false},
	{"DELETE", "/api/hooks", "id=$hook", "", forCaller, "admin", 200, false},
	{"GET", "/api/hooks/deliveries", "limit=5", "", forCaller, "admin", 200, false},
	{"GET", "/api/hooks/deliveries", "hookId=$hook", "", forCaller, "admin", 200, false},
	{"GET", "/api/hooks/deliveries", "id=$dlv", "", forCaller, "admin", 200, false},
	{"GET", "/api/hooks/deliveries", "id=d1&hookId=$hook", "", forCaller, "admin", 200, false},
	{"POST", "/api/hooks/deliveries", "action=redeliver&id=d1&hookId=$hook", "", forCaller, "admin", 202, false},
	{"GET", "/api/notifications", "", "", forCaller, "admin", 200, false},
	{"GET", "/api/notifications", "id=$ntf", "", forCaller, "admin", 200, false},
	{"POST", "/api/notifications", "", `{"url":"https://$word.example.com/$fresh","description":"$word","events":["run.failed"]}`, forCaller, "admin", 201, false},
	{"POST", "/api/notifications", "action=rotate&id=$ntf", "", forCaller, "admin", 200, false},
	{"POST", "/api/notifications", "action=test&id=$ntf", "", forCaller, "admin", 202, false},
	{"PUT", "/api/notifications", "id=$ntf", `{"description":"$word","enabled":true}`, forCaller, "admin", 200, false},
	{"DELETE", "/api/notifications", "id=$ntf", "", forCaller, "admin", 200, false},
	{"GET", "/api/notifications/messages", "status=pending", "", forCaller, "admin", 200, false},
	{"GET", "/api/notifications/messages", "id=$evt", "", forCaller, "admin", 200, false},
	{"POST", "/api/notifications/messages", "action=resend&id=$evt", "", forCaller, "admin", 202, false},

	{"POST", "/api/internal/run-automation", "", `{"target":"$ag","input":{"message":"$word"}}`, forSystem, "member", 202, false},

	{"GET", "/v1/models", "", "", forCaller, "member", 200, false},
	{"GET", "/v1/models/:id", "id=$ag", "", forCaller, "member", 200, false},
	{"GET", "/v1/models/:id", "id=$tpl", "", forCaller, "member", 200, false},
	{"POST", "/v1/chat/completions", "", `{"model":"$ag","stream":true,"messages":[{"role":"user","content":"$word"}]}`, forCaller, "member", 200, false},
	{"POST", "/v1/chat/completions", "", `{"model":"$tpl","stream":true,"messages":[{"role":"user","content":"$word"}]}`, forCaller, "member", 200, false},
	{"POST", "/v1/embeddings", "", `{"model":"offline","input":"$word"}`, forCaller, "member", 200, false},
	{"POST", "/v1/responses", "", `{"model":"$ag","background":true,"input":"$word"}`, forCaller, "member", 200, false},
	{"POST", "/v1/responses", "", `{"model":"$tpl","stream":true,"instructions":"$word","conversation":"s","input":"$word"}`, forCaller, "member", 200, false},
	{"POST", "/v1/responses", "", attachedRowBody, forCaller, "member", 200, false},
	{"GET", "/v1/containers/:container/files/:id/content", "id=$file", "", forCaller, "member", 200, false},
	{"GET", "/v1/responses/:id", "id=$resp", "", forCaller, "member", 200, false},
	{"POST", "/v1/responses/:id/cancel", "id=$resp", "", forCaller, "member", 200, false},
	{"GET", "/v1/realtime", "model=$vag", "", forVoice, "member", 426, false}, // permitted callers must upgrade
	{"POST", "/v1/realtime/client_secrets", "", `{"session":{"model":"$vag","instructions":"$word"}}`, forCaller, "member", 200, false},
	{"POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, forKey, "member", 200, false},
}
