package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	// sized returns a body of exactly n bytes, padded with spaces.
	sized := func(n int) string { return smallAgent + strings.Repeat(" ", n-len(smallAgent)) }
	for name, c := range map[string]struct {
		body, contentType, problems string
		status                      int
	}{
		"JSON":                {smallAgent, "application/json", "", 201},
		"with charset":        {smallAgent, "application/json; charset=utf-8", "", 201},
		"charset in capitals": {smallAgent, `Application/JSON;charset="UTF-8"`, "", 201},
		"other charset":       {smallAgent, "application/json; charset=latin1", "unsupported_media_type", 415},
		"no type":             {smallAgent, "", "unsupported_media_type", 415},
		"text":                {smallAgent, "text/plain", "unsupported_media_type", 415},
		"form":                {smallAgent, "application/x-www-form-urlencoded", "unsupported_media_type", 415},
		"problem":             {smallAgent, "application/problem+json", "unsupported_media_type", 415},
		"two types":           {smallAgent, "application/json, text/plain", "unsupported_media_type", 415},
		"empty":               {"", "application/json", "invalid_request body:required", 400},
		"nothing":             {"", "", "invalid_request body:required", 400},
		"space":               {" ", "application/json", "invalid_request body:invalid_json", 400},
		"largest":             {sized(262_144), "application/json", "", 201},
		"too large":           {sized(262_145), "application/json", "payload_too_large", 413},
		"far too large":       {sized(3_000_000), "application/json", "payload_too_large", 413},
		"large text":          {sized(262_145), "text/plain", "unsupported_media_type", 415},
		"list":                {"[]", "application/json", "invalid_request body:invalid_type", 400},
		"cut short":           {smallAgent[:20], "application/json", "invalid_request body:invalid_json", 400},
		"trailing":            {smallAgent + "x", "application/json", "invalid_request body:invalid_json", 400},
		"not UTF-8":           {"{\"name\":\"\xff\"}", "application/json", "invalid_request body:invalid_json", 400},
	} {
		for _, chunked := range []bool{false, true} {
			if chunked && c.body == "" {
				continue // an empty chunked body counts as a body that is not JSON
			}
			req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/agents", strings.NewReader(c.body))
			if chunked {
				req = httptest.NewRequestWithContext(t.Context(), "POST", "/api/agents", io.MultiReader(strings.NewReader(c.body)))
				req.ContentLength = -1
			}
			req.Header.Set("Authorization", "Bearer "+ada.token)
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			w.send(req).want(t, name, c.status, c.problems)
		}
	}
	w.do("POST", "/api/agents", smallAgent, ada.auth, "Content-Encoding: gzip").want(t, "compressed", 415, "unsupported_media_type")
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/agents", strings.NewReader(smallAgent))
	req.Header["Authorization"], req.Header["Content-Type"] = []string{"Bearer " + ada.token}, []string{"application/json", "application/json"}
	w.send(req).want(t, "type twice", 415, "unsupported_media_type")
}

// Requests reuse the buffers for bodies. The body of one request must not appear in the values of
// another.
func TestBuffersDoNotLeak(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	first := w.do("POST", "/api/agents", `{"name":"AAAAAAAA","systemPrompt":"BBBBBBBB"}`, ada.auth)
	w.do("POST", "/api/agents", `{"name":"CCCCCCCC","systemPrompt":"DDDDDDDD"}`, ada.auth)
	if a := w.do("GET", "/api/agents?id="+first.text(t, "id"), "", ada.auth); a.text(t, "name") != "AAAAAAAA" {
		t.Errorf("first agent became %s", a.body)
	}
}
