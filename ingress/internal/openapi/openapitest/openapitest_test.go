package openapitest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"parley/ingress/internal/openapi"
)

const run = `{"id":"run_01k9z8xh3re8kb1s7v5d2m9q4t","status":"completed","agentId":"ag_01k9z8w4q6e3v8t2m5n7p1r4s9","templateId":null,` +
	`"sessionId":"s","previousRunId":null,"trigger":{"type":"chat","automationId":null},"message":"hi","output":{"message":"hi"},"citations":[],"toolCalls":[],` +
	`"usage":{"inputTokens":1,"outputTokens":1,"costMicros":0,"model":"offline"},"error":null,"finishReason":"stop","agentVersion":1,"attempts":1,"idempotencyKey":null,` +
	`"createdAt":"2026-11-21T09:31:00.000Z","startedAt":"2026-11-21T09:31:00.004Z","finishedAt":"2026-11-21T09:31:01.311Z","expiresAt":null}`

const problem = `{"type":"/docs/errors#not_found","title":"Not found","status":404,"detail":"run not found","instance":"/api/runs",` +
	`"code":"not_found","requestId":"x","retryable":false,"errors":[]}`

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

var limited = []string{"Content-Type", "application/json", "X-Request-Id", "r", "Ratelimit-Policy", `"user";q=300;w=60`, "Ratelimit", `"user";r=299;t=21`}

func exchange(method, target string, status int, body string, headers ...string) Exchange {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	return Exchange{Method: method, URL: u, RequestHeader: http.Header{}, Status: status, Header: header(headers...), Body: []byte(body)}
}

// TestDocumentIsValid validates the embedded document. The tests of other packages use it unchecked.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	if _, err := New(t.Context(), openapi.Document()); err != nil {
		t.Error(err)
	}
	const broken = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"no-slash":{}}}`
	if _, err := New(t.Context(), []byte(broken)); err == nil {
		t.Error("an invalid document was accepted")
	}
}

// TestCheck checks that Check detects violations. Each invalid exchange differs from a valid one in
// one respect.
func TestCheck(t *testing.T) {
	t.Parallel()
	c, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	asked := func(e Exchange, body string) Exchange {
		e.RequestBody = []byte(body)
		return e
	}
	aProblem := []string{"Content-Type", "application/problem+json", "X-Request-Id", "r"}
	stream := []string{"Content-Type", "text/event-stream", "X-Request-Id", "r", "Ratelimit-Policy", `"user";q=300;w=60`, "Ratelimit", `"user";r=299;t=21`}
	one, runID := "/api/runs?id=run_01k9z8xh3re8kb1s7v5d2m9q4t", `"runId":"run_01k9z8xh3re8kb1s7v5d2m9q4t"`
	delta := "id: 1.2\nevent: message.delta\ndata: {" + runID + `,"text":"hi"}` + "\n\n"
	created := exchange("POST", "/api/keys", 201, `{"id":"key_01k9z8v2c7ga5jd3z9y4h6p8wq","name":"n","scope":"user","prefix":"ak_01k9z8v2c7ga5jd3z9y4h6p8wq","lastFour":"abcd",`+
		`"createdAt":"2026-11-21T09:31:00.000Z","expiresAt":null,"lastUsedAt":null,"key":"ak_01k9z8v2c7ga5jd3z9y4h6p8wq_`+strings.Repeat("a", 38)+`"}`, limited...)

	for name, tt := range map[string]struct {
		exchange Exchange
		wrong    string // expected part of the error; "" if the exchange is valid
	}{
		"a run":                        {exchange("GET", one, 200, run, limited...), ""},
		"an undocumented field":        {exchange("GET", one, 200, strings.Replace(run, `"attempts":1`, `"attempts":1,"secret":1`, 1), limited...), "secret"},
		"an undocumented inner field":  {exchange("GET", one, 200, strings.Replace(run, `"type":"chat"`, `"type":"chat","by":"x"`, 1), limited...), "by"},
		"a missing field":              {exchange("GET", one, 200, strings.Replace(run, `"attempts":1,`, ``, 1), limited...), "attempts"},
		"a wrong type":                 {exchange("GET", one, 200, strings.Replace(run, `"attempts":1`, `"attempts":"1"`, 1), limited...), "attempts"},
		"an unexpected null":           {exchange("GET", one, 200, strings.Replace(run, `"citations":[]`, `"citations":null`, 1), limited...), "citations"},
		"a wrong value":                {exchange("GET", one, 200, strings.Replace(run, `"completed"`, `"done"`, 1), limited...), "status"},
		"a wrong form":                 {exchange("GET", one, 200, strings.Replace(run, `09:31:00.000Z`, `09:31:00Z`, 1), limited...), "createdAt"},
		"no JSON":                      {exchange("GET", one, 200, "{", limited...), "reading JSON"},
		"an undocumented status":       {exchange("GET", one, 418, run, limited...), "status 418 is not documented"},
		"an undocumented type":         {exchange("GET", one, 200, run, append([]string{"Content-Type", "text/plain"}, limited[2:]...)...), "text/plain"},
		"a missing header":             {exchange("GET", one, 200, run, limited[:6]...), "RateLimit is missing"},
		"a malformed header":           {exchange("GET", one, 200, run, append([]string{"Ratelimit", "7"}, limited[:6]...)...), "RateLimit"},
		"an undocumented header":       {exchange("GET", one, 200, run, append([]string{"Set-Cookie", "a=b"}, limited...)...), "Set-Cookie is not documented"},
		"a body where none is":         {exchange("POST", "/api/auth/logout", 204, "x", append([]string{"Set-Cookie", "a=b"}, limited...)...), "the response has a body"},
		"a problem":                    {exchange("GET", one, 404, problem, aProblem...), ""},
		"a problem of another status":  {exchange("GET", one, 410, problem, aProblem...), "code"},
		"another operation's code":     {exchange("GET", one, 404, strings.ReplaceAll(problem, "not_found", "erased"), aProblem...), "code"},
		"an unknown path":              {exchange("GET", "/api/nothing", 404, problem, aProblem...), ""},
		"an unknown path, undescribed": {exchange("GET", "/api/nothing", 200, run, limited...), "lacks this path"},
		"an unknown path, odd problem": {exchange("GET", "/api/nothing", 404, strings.Replace(problem, `"x"`, `1`, 1), aProblem...), "requestId"},
		"an unknown path, wrong code":  {exchange("GET", "/api/nothing", 403, problem, aProblem...), "the response has the status 403"},
		"an unknown method": {exchange("PATCH", "/api/runs", 405, strings.NewReplacer("not_found", "method_not_allowed", "404", "405").Replace(problem),
			append([]string{"Allow", "GET, HEAD, POST"}, aProblem...)...), ""},
		"an unknown method, wrong Allow": {exchange("PATCH", "/api/runs", 405, strings.NewReplacer("not_found", "method_not_allowed", "404", "405").Replace(problem),
			append([]string{"Allow", "GET"}, aProblem...)...), "Allow"},
		"a page":                {exchange("GET", "/dashboard", 200, "<!doctype html>", "Content-Type", "text/html"), ""},
		"events":                {exchange("GET", one+"&stream=1", 200, ": ping\n\n"+delta, stream...), ""},
		"no events yet":         {exchange("GET", one+"&stream=1", 200, "", stream...), ""},
		"an unknown event":      {exchange("GET", one+"&stream=1", 200, strings.Replace(delta, "message.delta", "message.gamma", 1), stream...), "in event"},
		"an event's wrong data": {exchange("GET", one+"&stream=1", 200, strings.Replace(delta, `"text"`, `"words"`, 1), stream...), "in event"},
		"an event's wrong id":   {exchange("GET", one+"&stream=1", 200, strings.Replace(delta, `1.2`, `one`, 1), stream...), "in event"},
		"an event without id":   {exchange("GET", one+"&stream=1", 200, strings.Replace(delta, "id: 1.2\n", ``, 1), stream...), "in event"},
		"half an event":         {exchange("GET", one+"&stream=1", 200, strings.TrimSuffix(delta, "\n"), stream...), "within an event"},
		"a key":                 {asked(created, `{"name":"n","scope":"user"}`), ""},
		"a body that it took":   {asked(created, `{"name":"n","scope":"user","admin":true}`), "accepted an undocumented body"},
		"no body that it took":  {exchange("POST", "/api/organizations", 201, `{}`, limited...), "undocumented body"},
		"a missing parameter":   {exchange("DELETE", "/api/keys", 200, `{"id":"x","deleted":true}`, limited...), "without the parameter"},
		"a false deletion":      {exchange("DELETE", "/api/keys?id=key_01k9z8v2c7ga5jd3z9y4h6p8wq", 200, `{"id":"x","deleted":false}`, limited...), "deleted"},
	} {
		err := c.Check(tt.exchange)
		switch {
		case tt.wrong == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: %v, want something about %q", name, err, tt.wrong)
		}
	}
}

// TestSchemasCompile compiles every schema, including the schemas of responses that no test
// receives.
func TestSchemasCompile(t *testing.T) {
	t.Parallel()
	c, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	for name := range c.doc.Components.Schemas {
		if _, err := c.schema(pointer("#/components/schemas", name)); err != nil {
			t.Error(err)
		}
	}
}
