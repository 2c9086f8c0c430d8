package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/mcp"
)

const (
	token    = `tok-"live"/4711&x`
	password = "correct-horse"
	number   = "4815162342"
	addrKey  = "key-in-the-address-77"
)

// secretServer returns the configuration of a server with secrets in its headers and address.
func secretServer(p *countingServer) domain.MCPServer {
	server := at("shop", p)
	server.URL += "?api_key=" + addrKey
	server.Headers = map[string]string{
		"Authorization": "sealed:org_1/ag_1:Bearer " + token, "X-Number": "sealed:org_1/ag_1:" + number,
		"X-Basic": "sealed:org_1/ag_1:Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+password)),
	}
	return server
}

func quoted(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// shows searches a text for secrets, in plain form and in the encodings of JSON and URLs. It
// returns the first secret that it finds, or "" if the text contains no secret.
func shows(t *testing.T, text string) string {
	t.Helper()
	var whole any
	if json.Unmarshal([]byte(text), &whole) == nil {
		text += fmt.Sprint(whole)
	}
	for _, secret := range []string{token, password, number, addrKey, "4711", "dXNlcjpjb3JyZWN0LWhvcnNl"} {
		for _, form := range []string{secret, url.QueryEscape(secret), strings.Trim(quoted(t, secret), `"`)} {
			if strings.Contains(text, form) {
				return form
			}
		}
	}
	return ""
}

const echo = "Authorization: Bearer " + token + ", X-Number: " + number + ", " + password + " /mcp?api_key=" + addrKey

func TestSecretsThatAServerEchoesAreNotShown(t *testing.T) {
	t.Parallel()
	tools := `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	for name, result := range map[string]string{
		"text":       `{"content":[{"type":"text","text":` + quoted(t, echo) + `}]}`,
		"error":      `{"isError":true,"content":[{"type":"text","text":` + quoted(t, echo) + `}]}`,
		"JSON":       `{"content":[{"type":"text","text":` + quoted(t, quoted(t, map[string]any{"headers": echo})) + `}]}`,
		"structured": `{"content":[],"structuredContent":{"echo":[` + quoted(t, echo) + `],"n":` + number + `,` + quoted(t, token) + `:1}}`,
		"split":      `{"content":[{"type":"text","text":` + quoted(t, strings.ReplaceAll(echo, "4", "4\x00")) + `}],"structuredContent":` + quoted(t, strings.ReplaceAll(echo, "4", "4\x00")) + `}`,
		"link":       `{"content":[{"type":"resource_link","uri":"https://s/?api_key=` + addrKey + `","name":"x","title":` + quoted(t, echo) + `,"description":` + quoted(t, echo) + `}]}`,
		"resource":   `{"content":[{"type":"resource","resource":{"uri":"https://s/?k=` + addrKey + `","text":` + quoted(t, echo) + `}}]}`,
		"image":      `{"content":[{"type":"image","mimeType":` + quoted(t, echo) + `,"data":"AAAA"}]}`,
	} {
		p := newTap(t, scripted(map[string]string{"tools/list": tools, "tools/call": result}), nil)
		got, err := newBackend(t).Call(t.Context(), calling(request(secretServer(p)), "shop_x", `{}`))
		output := said(got, err)
		if form := shows(t, output); (err != nil) != (name == "error") || form != "" || !strings.Contains(output, "***") {
			t.Errorf("%s: %q is shown in %s, %v", name, form, output, err)
		}
	}
}

// rejecting returns a function that responds to each request of the given method. The response is
// an error that quotes the request.
func rejecting(t *testing.T, method string, status int) func(string, http.ResponseWriter, *http.Request) bool {
	t.Helper()
	return func(got string, w http.ResponseWriter, r *http.Request) bool {
		var message struct {
			ID json.RawMessage `json:"id"`
		}
		if got != method || json.NewDecoder(r.Body).Decode(&message) != nil {
			return false
		}
		text := "bad key " + r.Header.Get("Authorization") + " at " + r.RequestURI + " " + r.Header.Get("X-Number")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32099,"message":%s,"data":%s}}`, message.ID, quoted(t, text), quoted(t, text))
		return true
	}
}

func TestErrorsThatQuoteSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	list := scripted(map[string]string{"tools/list": `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`})
	for name, c := range map[string]struct {
		method string
		status int
		want   string
	}{
		"refused call":         {"tools/call", 200, `{"error":"The server rejected the call: bad key *** at /mcp?api_key=*** ***"}`},
		"refused call, status": {"tools/call", 400, `{"error":"The server rejected the call: bad key *** at /mcp?api_key=*** ***"}`},
		"refused list":         {"tools/list", 200, "not sent: The server violates the MCP protocol."},
		"refused session":      {"initialize", 400, "not sent: The server responded with status 400."},
	} {
		p := newTap(t, list, rejecting(t, c.method, c.status))
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		b, req := newBackend(t), request(secretServer(p))
		_, _ = b.List(ctx, req)
		got, err := b.Call(ctx, calling(req, "shop_x", `{}`))
		if said := said(got, err); said != c.want {
			t.Errorf("%s: %s", name, said)
		}
		if form := shows(t, causes(err)+log.String()); form != "" {
			t.Errorf("%s: %q is in %s or %s", name, form, causes(err), log.String())
		}
		if c.method == "tools/list" && !strings.Contains(log.String(), "-32099") {
			t.Errorf("the code is not in %s", log.String())
		}
	}
}

// causes returns the texts of an error and of all errors that it wraps.
func causes(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	switch err := err.(type) { //nolint:errorlint // each layer is examined
	case interface{ Unwrap() error }:
		text += "\n" + causes(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			text += "\n" + causes(inner)
		}
	}
	return text
}

func TestServersThatCannotBeReachedKeepTheirAddressOutOfTheLog(t *testing.T) {
	t.Parallel()
	closed := newTap(t, nil, nil)
	closed.Close()
	garbage := newTap(t, nil, func(_ string, w http.ResponseWriter, r *http.Request) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return false
		}
		defer func(c net.Conn) { _ = c.Close() }(conn)
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", r.Header.Get("Authorization"))
		return true
	})
	wrong, broken := secretServer(closed), secretServer(closed)
	wrong.URL = "http://127.0.0.1:99999/?api_key=" + addrKey
	broken.URL = "http://127.0.0.1:x/?api_key=" + addrKey
	for name, server := range map[string]domain.MCPServer{"closed": secretServer(closed), "garbage": secretServer(garbage), "port": wrong, "broken": broken} {
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		b, req := newBackend(t), request(server)
		if listed, err := b.List(ctx, req); err != nil || len(listed.Specs) > 0 || !strings.Contains(log.String(), `"cause":`) {
			t.Errorf("%s: %d tools, %v, %s", name, len(listed.Specs), err, log.String())
		}
		_, err := b.Call(ctx, calling(req, "shop_x", `{}`))
		var public *tool.Error
		if form := shows(t, causes(err)+log.String()); !errors.As(err, &public) || form != "" {
			t.Errorf("%s: %q is in %s or %s", name, form, causes(err), log.String())
		}
	}
}

func TestToolsThatQuoteSecretsAreNotListedWithThem(t *testing.T) {
	t.Parallel()
	hidden := strings.ReplaceAll(echo, "4711", "47\u200b11")
	long := strings.Repeat("x", 990) + " " + echo // a truncated text must not contain a part of a secret
	schema := func(property string) map[string]any {
		return map[string]any{"type": "object", "description": hidden, "properties": map[string]any{property: map[string]any{
			"type": "string", "description": long, "enum": []any{hidden}, "default": map[string]any{hidden: hidden}, "examples": []any{4815162342, hidden}, "$comment": hidden,
		}}}
	}
	raw := quoted(t, map[string]any{"tools": []any{
		map[string]any{"name": "a", "description": hidden, "inputSchema": schema("p")},
		map[string]any{"name": "b", "title": long, "inputSchema": schema("p")},
		map[string]any{"name": "n" + number, "inputSchema": schema("p")},
		map[string]any{"name": "c", "inputSchema": schema("p" + number)},
	}})
	p := newTap(t, scripted(map[string]string{"tools/list": raw}), nil)
	specs := list(t, newBackend(t), request(secretServer(p)))
	if got := names(specs); got != "shop_a shop_b" {
		t.Error(got)
	}
	for _, s := range specs {
		if form := shows(t, s.Name+s.Description) + shows(t, string(s.Schema)); form != "" || strings.Contains(s.Description+string(s.Schema), "Bearer tok") {
			t.Errorf("%q is shown in %s: %s %s", form, s.Name, s.Description, s.Schema)
		}
	}
}

func TestPanicsAreTheirServersOnly(t *testing.T) {
	t.Parallel()
	works := newTap(t, handler(newServer(), nil), nil)
	null := newTap(t, scripted(map[string]string{"tools/list": `{"tools":[null,{"name":"x","inputSchema":{"type":"object"}}]}`}), nil)
	if got := names(list(t, newBackend(t), request(at("null", null), at("works", works)))); got != "null_x works_add works_fail works_greet works_show" {
		t.Error(got)
	}
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(t.Context())
	b := panicking(t, func() { panic("the box holds " + token) })
	guarded := secretServer(works)
	if listed, err := b.List(ctx, request(guarded)); err != nil || len(listed.Specs) > 0 || shows(t, log.String()) != "" || !strings.Contains(log.String(), "stack") {
		t.Errorf("%d tools, %v, %s", len(listed.Specs), err, log.String())
	}
	b = newBackend(t)
	b.SetClock(nil) // without a clock, the goroutine that requests the list panics
	for range 2 {
		if listed, err := b.List(ctx, request(at("works", works))); err != nil || len(listed.Specs) > 0 {
			t.Errorf("%d tools, %v", len(listed.Specs), err)
		}
	}
}

func TestAHookThatPanicsSendsNothing(t *testing.T) {
	t.Parallel()
	p := newTap(t, handler(newServer(), nil), nil)
	req := calling(request(at("shop", p)), "shop_greet", `{"name":"Ada"}`)
	req.Sending = func(context.Context) error { panic("the ledger is away") }
	got, err := newBackend(t).Call(t.Context(), req)
	if said := said(got, err); said != "not sent: The request was not sent." || p.count("tools/call") != 0 {
		t.Errorf("%s after %d calls", said, p.count("tools/call"))
	}
}

// panicking returns a backend that panics when it decrypts a secret.
func panicking(t *testing.T, cause func()) *mcp.Backend {
	t.Helper()
	return newBackendWith(t, func(string, string, string) (string, error) {
		cause()
		return "", nil
	})
}
