package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

func TestToolsOfARealServerAreListedAndCalled(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*sdk.StreamableHTTPOptions{
		"events":            nil,
		"JSON":              {JSONResponse: true},
		"events, stateless": {Stateless: true},
		"JSON, stateless":   {Stateless: true, JSONResponse: true},
		"events, resumable": {EventStore: sdk.NewMemoryEventStore(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTap(t, handler(newServer(), options), nil)
			testTools(t, p)
		})
		t.Run(name+", before 2026", func(t *testing.T) {
			t.Parallel()
			p := newTap(t, handler(newServer(), options), older)
			testTools(t, p)
			if p.count("initialize") == 0 || p.count("server/discover") != 1 {
				t.Error("the version that a server was found to speak is not remembered")
			}
		})
	}
}

// older makes a server behave like an older MCP server, which does not support discovery.
func older(method string, w http.ResponseWriter, _ *http.Request) bool {
	if method == "server/discover" {
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
	}
	return method == "server/discover"
}

func testTools(t *testing.T, p *countingServer) {
	t.Helper()
	b, req := newBackend(t), request(at("shop", p))
	specs := list(t, b, req)
	if got := names(specs); got != "shop_add shop_fail shop_greet shop_show" {
		t.Fatal(got)
	}
	if s := specs[2]; s.Description != "say hi" || s.SideEffect != domain.SideEffectUnsafe || !strings.Contains(string(s.Schema), `"whom to greet"`) {
		t.Errorf("%+v", s)
	}
	for n, c := range []struct{ name, arguments, want string }{
		{"shop_greet", `{"name":"Ada"}`, `{"text":"Hi Ada"}`},
		{"shop_add", `{"A":1,"B":2}`, `{"structuredContent":{"total":3}}`},
		{"shop_fail", `{}`, `{"error":"out of stock"}`},
		{"shop_show", `{}`, `{"text":"ab\n\n[image of type image/png, 5 bytes, not shown]\n\n[audio of type audio/wav, 3 bytes, not shown]\n\n` +
			`[resource: x \u003cfile:///x\u003e] the x\n\n[resource: \u003cfile:///y\u003e]\nwhy\n\n[resource: \u003cfile:///z\u003e] [file of type a/b, 1 bytes, not shown]"}`},
	} {
		got, err := b.Call(t.Context(), calling(req, c.name, c.arguments))
		if said := said(got, err); said != c.want || (err != nil) != (c.name == "shop_fail") || p.count("tools/call") != n+1 {
			t.Errorf("%s: %s, %v after %d calls", c.name, said, err, p.count("tools/call"))
		}
	}
	if p.count("tools/list") != 1 {
		t.Errorf("%d lists were requested", p.count("tools/list"))
	}
}

// fakeLedger records how a call uses the effect ledger.
type fakeLedger struct {
	t              *testing.T
	countingServer *countingServer
	begun          int
	err            error
}

func (l *fakeLedger) sending(context.Context) error {
	if l.countingServer.count("tools/call") != 0 {
		l.t.Error("the call was sent before the ledger knew")
	}
	l.begun++
	return l.err
}

func TestSendingComesJustBeforeTheCall(t *testing.T) {
	t.Parallel()
	p := newTap(t, handler(newServer(), nil), nil)
	b, l := newBackend(t), &fakeLedger{t: t, countingServer: p}
	req := calling(request(at("shop", p)), "shop_greet", `{"name":"Ada"}`)
	req.Sending, req.EffectKey = l.sending, "eff_1"
	l.err = tool.ErrStale
	_, err := b.Call(t.Context(), req)
	var public *tool.Error
	if !errors.Is(err, tool.ErrStale) || !errors.As(err, &public) || !public.NotSent || p.count("tools/call") != 0 || l.begun != 1 {
		t.Fatalf("%v after %d calls, %d in the ledger", err, p.count("tools/call"), l.begun)
	}
	l.err = nil
	if got, err := b.Call(t.Context(), req); err != nil || string(got.Output) != `{"text":"Hi Ada"}` || l.begun != 2 {
		t.Fatalf("%s, %v", got.Output, err)
	}
	header, body := p.request("tools/call")
	if header.Get("Idempotency-Key") != "eff_1" || !strings.Contains(body, `"idempotencyKey":"eff_1"`) {
		t.Errorf("the key is missing: %v %s", header, body)
	}
	if header, _ := p.request("tools/list"); header.Get("Idempotency-Key") != "" {
		t.Error("the key is the call's")
	}
}

// TestCallsWithoutAnAnswer checks the outcome of calls with an incomplete response, with and
// without the effect ledger.
func TestCallsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, body string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	unfinished := func(start string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(start))
			_ = http.NewResponseController(w).Flush()
			return breakOff(w)
		}
	}
	for name, c := range map[string]struct {
		intercept func(http.ResponseWriter) bool
		want      string // expected result, or "unknown: " and a message
	}{
		"broken off":             {breakOff, "unknown: The connection was lost."},
		"broken off, in events":  {unfinished(": hello\n\n"), "unknown: The connection was lost."},
		"broken off, resumable":  {unfinished("id: 1\ndata:\n\n"), "unknown: The connection was lost."},
		"events without answer":  {answer(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"), "unknown: The connection to the server was lost before a valid response arrived."},
		"no JSON":                {answer(200, "application/json", "Oops"), "unknown: The connection to the server was lost before a valid response arrived."},
		"a page":                 {answer(200, "text/html", "<html>"), "unknown: The connection to the server was lost before a valid response arrived."},
		"accepted":               {answer(202, "", ""), "unknown: The connection to the server was lost before a valid response arrived."},
		"too much":               {answer(200, "application/json", strings.Repeat(" ", 3<<20)), "unknown: The response is too large."},
		"too much, in an event":  {answer(200, "text/event-stream", "data: "+strings.Repeat("x", 3<<20)), "unknown: The response is too large."},
		"fault":                  {answer(500, "text/plain", "x"), "unknown: The server responded with status 500."},
		"gateway":                {answer(502, "text/plain", "x"), "unknown: The server responded with status 502."},
		"unauthorized":           {answer(401, "text/plain", "x"), `{"error":"The server rejected the credentials (status 401)."}`},
		"gone":                   {answer(404, "text/plain", "x"), `{"error":"The server responded with status 404."}`},
		"busy":                   {answer(429, "text/plain", "x"), `{"error":"The server responded with status 429."}`},
		"unavailable":            {answer(503, "text/plain", "x"), `{"error":"The server responded with status 503."}`},
		"redirected, no address": {answer(307, "text/plain", "x"), `{"error":"The server responded with a redirect (status 307), which is not supported."}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTap(t, handler(newServer(), nil), func(method string, w http.ResponseWriter, _ *http.Request) bool {
				return method == "tools/call" && c.intercept(w)
			})
			l := &fakeLedger{t: t, countingServer: p}
			req := calling(request(at("shop", p)), "shop_greet", `{"name":"Ada"}`)
			req.Sending = l.sending
			got, err := newBackend(t).Call(t.Context(), req)
			if said := said(got, err); said != c.want {
				t.Error(said)
			}
			if p.count("tools/call") != 1 || p.count("GET") != 0 || l.begun != 1 {
				t.Errorf("%d calls, %d resumptions, %d in the ledger", p.count("tools/call"), p.count("GET"), l.begun)
			}
		})
	}
}

func said(result tool.Result, err error) string {
	var public *tool.Error
	switch {
	case err == nil:
		return string(result.Output)
	case errors.As(err, &public) && public.NotSent:
		return "not sent: " + public.Message
	case errors.As(err, &public) && public.Answered:
		return string(public.Output)
	case errors.As(err, &public):
		return "unknown: " + public.Message
	default:
		return "internal: " + err.Error()
	}
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tools := `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	for result, want := range map[string]string{
		`{"content":[{"type":"hologram"}]}`: "unknown: The connection to the server was lost before a valid response arrived.",
		`{"content":[null]}`:                "unknown: The connection to the server was lost before a valid response arrived.",
		`"done"`:                            "unknown: The connection to the server was lost before a valid response arrived.",
		`{"content":[],"structuredContent":{"a\u0000":["\u0000b"]}}`:                   `{"structuredContent":{"a":["b"]}}`,
		`{"content":[],"resultType":"inputRequired"}`:                                  `{}`,
		`{"content":[],"resultType":"input_required","inputRequests":{}}`:              `{"error":"The tool asks for further input, which is not supported."}`,
		`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`: `{"structuredContent":{"a":1}}`,
	} {
		p := newTap(t, scripted(map[string]string{"tools/list": tools, "tools/call": result}), nil)
		got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_x", `{}`))
		if said := said(got, err); said != want || p.count("tools/call") != 1 {
			t.Errorf("%s: %s after %d calls", result, said, p.count("tools/call"))
		}
	}
}

func TestServersThatCannotBeReachedAreKnownNotToHaveBeenCalled(t *testing.T) {
	t.Parallel()
	p := newTap(t, handler(newServer(), nil), nil)
	b, req := newBackend(t), request(at("shop", p))
	list(t, b, req)
	p.Close()
	req.Sending = func(context.Context) error {
		t.Error("nothing is sent")
		return nil
	}
	got, err := b.Call(t.Context(), calling(req, "shop_greet", `{"name":"Ada"}`))
	if said := said(got, err); said != "not sent: The host could not be reached." {
		t.Error(said)
	}
	for arguments, want := range map[string]string{
		`[]`: "not sent: The arguments must be an object.", `null`: "not sent: The arguments must be an object.", ``: "not sent: The arguments must be an object.",
	} {
		got, err := b.Call(t.Context(), calling(req, "shop_greet", arguments))
		if said := said(got, err); said != want {
			t.Errorf("%s: %s", arguments, said)
		}
	}
	got, err = b.Call(t.Context(), calling(req, "webSearch", `{}`))
	if said := said(got, err); said != "not sent: The server no longer has a tool with this name." {
		t.Error(said)
	}
}

func TestTheRunsEndEndsACall(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("cancelled by its owner")
	p := newTap(t, handler(newServer(), nil), func(method string, _ http.ResponseWriter, r *http.Request) bool {
		if method != "tools/call" {
			return false
		}
		cancel(ended)
		<-r.Context().Done()
		close(gone)
		return true
	})
	req := calling(request(at("shop", p)), "shop_greet", `{"name":"Ada"}`)
	if _, err := newBackend(t).Call(ctx, req); !errors.Is(err, ended) {
		t.Error(err)
	}
	<-gone
}

// A server may continue to send data after its response, or send requests to its client. Such data
// and requests end together with the call.
func TestAnswersDoNotOutliveTheirCall(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"initialize", "tools/list", "tools/call", "ping"} {
		begun, gone := make(chan struct{}, 100), make(chan struct{}, 100)
		hold := func(r *http.Request) {
			begun <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		}
		results := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`, "tools/call": `{"content":[]}`,
		}
		p := newTap(t, scripted(results), func(method string, w http.ResponseWriter, r *http.Request) bool {
			if method == "POST" { // the client has sent a response
				hold(r)
				return true
			}
			if method != held && (held != "ping" || method != "tools/call") {
				return false
			}
			var message struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&message)
			w.Header().Set("Content-Type", "text/event-stream")
			if held == "ping" {
				_, _ = fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}\n\n")
				_ = http.NewResponseController(w).Flush()
				<-begun
				begun <- struct{}{}
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", message.ID, results[method])
			_ = http.NewResponseController(w).Flush()
			if held != "ping" {
				hold(r)
			}
			return true
		})
		if got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_x", `{}`)); err != nil {
			t.Errorf("%s: %s, %v", held, got.Output, err)
		}
		late := time.After(8 * time.Second) // shorter than the time limit of a request
		for range len(begun) {
			select {
			case <-gone:
			case <-late:
				t.Fatalf("%s: the answer goes on after the call", held)
			}
		}
	}
}

func TestServersAreOfferedNothing(t *testing.T) {
	t.Parallel()
	s := newServer()
	asked := make(chan error, 3)
	sdk.AddTool(s, &sdk.Tool{Name: "curious"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{Messages: []*sdk.SamplingMessage{}}) //nolint:staticcheck // the refused feature
		asked <- err
		_, err = req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Your password?", RequestedSchema: map[string]any{"type": "object"}})
		asked <- err
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "well"}}}, nil, nil
	})
	p := newTap(t, handler(s, nil), nil)
	got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_curious", `{}`))
	if said := said(got, err); said != `{"text":"well"}` {
		t.Error(said)
	}
	for range 2 {
		if err := <-asked; err == nil {
			t.Error("the client answered the server's request")
		}
	}
	for _, method := range []string{"initialize", "server/discover", "tools/call"} {
		if _, body := p.request(method); strings.Contains(body, "sampling") || strings.Contains(body, "elicitation") || strings.Contains(body, "roots") {
			t.Errorf("%s offers something: %s", method, body)
		}
	}
}

func TestAServerCannotKeepItsClientBusy(t *testing.T) {
	t.Parallel()
	tools := scripted(map[string]string{"tools/list": `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`})
	p := newTap(t, tools, func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method != "tools/call" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 5_000 {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n)
		}
		return true
	})
	got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_x", `{}`))
	if said := said(got, err); !strings.HasPrefix(said, "unknown: ") {
		t.Error(said)
	}
	if n := p.count("POST"); n > 100 {
		t.Errorf("%d answers were sent", n)
	}
}

func TestArgumentsGoOutInHeadersWhereTheToolWantsThem(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.AddTool(&sdk.Tool{Name: "route", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "routed"}}}, nil
		})
	p := newTap(t, handler(s, &sdk.StreamableHTTPOptions{Stateless: true}), nil)
	got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_route", `{"region":"eu"}`))
	if said := said(got, err); said != `{"text":"routed"}` {
		t.Error(said)
	}
	if header, _ := p.request("tools/call"); header.Get("Mcp-Param-Region") != "eu" {
		t.Errorf("%v", header)
	}
}
