package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool/mcp"
)

func TestNames(t *testing.T) {
	t.Parallel()
	servers := []domain.MCPServer{{Name: "a"}, {Name: "a_b"}, {Name: "shop"}, {Name: "write"}, {Name: strings.Repeat("s", 64)}}
	for _, c := range []struct{ server, tool, want string }{
		{"shop", "search", "shop_search"},
		{"shop", "search-all_2", "shop_search-all_2"},
		{"shop", "search.all", "shop_search_all_"},
		{"shop", "search all", "shop_search_all_"},
		{"shop", "größe", "shop_gr__e_"},
		{"shop", strings.Repeat("x", 59), "shop_" + strings.Repeat("x", 59)},
		{"shop", strings.Repeat("x", 60), "shop_" + strings.Repeat("x", 50) + "_"},
		{"shop", "x_0123abcd", "shop_x_0123abcd_"}, // looks like a name that ends in a hash
		{"a_b", "c", "a_b_c"},
		{"a", "b_c", "a_b_c_"}, // the name must differ from the name in the previous row
		{"a", "c", "a_c"},
		{"write", "final_answer", "write_final_answer_"}, // a reserved name
		{strings.Repeat("s", 64), "x", strings.Repeat("s", 55) + "_"},
	} {
		got := mcp.Name(servers, c.server, c.tool)
		hash, cut := strings.CutPrefix(got, c.want)
		if ends := strings.HasSuffix(c.want, "_"); !cut || len(got) > 64 || ends != (len(hash) == 8) || !ends && hash != "" {
			t.Errorf("%s, %s: %s", c.server, c.tool, got)
		}
	}
}

func TestNamesAreTheirOwn(t *testing.T) {
	t.Parallel()
	servers := []domain.MCPServer{{Name: "a"}, {Name: "a_b"}, {Name: "a_"}, {Name: "A"}, {Name: strings.Repeat("s", 63)}, {Name: strings.Repeat("s", 64)}}
	seen := map[string]string{}
	for _, server := range servers {
		for _, tool := range []string{"c", "b_c", "b.c", "b c", "_b_c", "_c", "", "C", strings.Repeat("c", 70), strings.Repeat("c", 71), "é", "è"} {
			name := mcp.Name(servers, server.Name, tool)
			if before, taken := seen[name]; taken || !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString(name) {
				t.Errorf("%q is %s/%s and %s", name, server.Name, tool, before)
			}
			seen[name] = server.Name + "/" + tool
		}
	}
}

func TestLongListsAreFollowedUpToABound(t *testing.T) {
	t.Parallel()
	many := func(n int) *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, &sdk.ServerOptions{PageSize: 10})
		for i := range n {
			s.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%03d", i), InputSchema: map[string]any{"type": "object"}}, nil)
		}
		return s
	}
	few, lots := newTap(t, handler(many(35), nil), nil), newTap(t, handler(many(200), nil), nil)
	specs := list(t, newBackend(t), request(at("few", few), at("lots", lots)))
	if len(specs) != 35+128 || specs[34].Name != "few_t034" || few.count("tools/list") != 4 {
		t.Errorf("%d tools after %d pages", len(specs), few.count("tools/list"))
	}
	specs = list(t, newBackend(t), request(at("a", lots), at("b", lots), at("c", lots)))
	if len(specs) != 256 || !strings.HasPrefix(specs[255].Name, "b_") {
		t.Errorf("%d tools", len(specs))
	}
	circular := newTap(t, scripted(map[string]string{"tools/list": `{"tools":[],"nextCursor":"again"}`}), nil)
	if specs := list(t, newBackend(t), request(at("s", circular))); len(specs) != 0 || circular.count("tools/list") > 2 {
		t.Errorf("%d pages were read", circular.count("tools/list"))
	}
}

func TestAServerThatFailsHidesNoOther(t *testing.T) {
	t.Parallel()
	works := newTap(t, handler(newServer(), nil), nil)
	breaks := newTap(t, nil, func(_ string, w http.ResponseWriter, _ *http.Request) bool { return breakOff(w) })
	page := newTap(t, nil, func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		_, err := w.Write([]byte("<html>"))
		return err == nil
	})
	toolless := newTap(t, scripted(nil), nil)
	elsewhere := domain.MCPServer{Name: "metadata", URL: "http://169.254.169.254/latest"}
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(t.Context())
	listed, err := newBackend(t).List(ctx, request(at("breaks", breaks), elsewhere, at("page", page), at("works", works), at("toolless", toolless)))
	if err != nil || names(listed.Specs) != "works_add works_fail works_greet works_show" {
		t.Fatalf("%s, %v", names(listed.Specs), err)
	}
	want := []contract.AbsentServer{
		{Name: "breaks", Reason: "The connection was lost."},
		{Name: "metadata", Reason: "The URL leads to a host that is not allowed."},
		{Name: "page", Reason: "The server violates the MCP protocol."},
	}
	if !slices.Equal(listed.Absent, want) {
		t.Errorf("absent %+v, want %+v", listed.Absent, want)
	}
	for _, name := range []string{"breaks", "metadata", "page"} {
		if !strings.Contains(log.String(), `"server":"`+name+`"`) {
			t.Errorf("nothing of %s in the log: %s", name, log.String())
		}
	}
	if strings.Contains(log.String(), "works") || strings.Contains(log.String(), "toolless") {
		t.Error(log.String())
	}
}

func TestHeadersGoToTheirServerOnly(t *testing.T) {
	t.Parallel()
	stranger := newTap(t, handler(newServer(), nil), nil)
	guarded := func(method string, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer 1" || r.Header.Get("X-Team") != "blue" {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if method == "tools/call" {
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	p := newTap(t, handler(newServer(), nil), guarded)
	server := at("shop", p)
	server.Headers = map[string]string{
		"Authorization": "sealed:org_1/ag_1:Bearer 1", "x-team": "sealed:org_1/ag_1:blue", "Content-Type": "sealed:org_1/ag_1:text/plain",
	}
	b := newBackend(t)
	if got := len(list(t, b, request(server))); got != 4 {
		t.Fatalf("%d tools", got)
	}
	got, err := b.Call(t.Context(), calling(request(server), "shop_greet", `{"name":"Ada"}`))
	if said := said(got, err); said != `{"error":"The server responded with a redirect (status 307), which is not supported."}` {
		t.Error(said)
	}
	if stranger.total() != 0 {
		t.Errorf("the other server received %d requests", stranger.total())
	}
	wrong := server
	wrong.Headers = map[string]string{"Authorization": "sealed:org_1/ag_1:Bearer 2"}
	got, err = b.Call(t.Context(), calling(request(wrong), "shop_greet", `{"name":"Ada"}`))
	if said := said(got, err); said != "not sent: The server rejected the credentials (status 401)." {
		t.Error(said)
	}
	foreign := request(server)
	foreign.TargetID = "ag_2"
	got, err = b.Call(t.Context(), calling(foreign, "shop_greet", `{"name":"Ada"}`))
	if said := said(got, err); said != "not sent: This tool's secret cannot be decrypted. Set it again, or have the operator restore its key." {
		t.Error(said)
	}
}

func TestARedirectedServerIsNotFollowed(t *testing.T) {
	t.Parallel()
	stranger := newTap(t, handler(newServer(), nil), nil)
	p := newTap(t, http.RedirectHandler(stranger.URL, http.StatusPermanentRedirect), nil)
	got, err := newBackend(t).Call(t.Context(), calling(request(at("s", p)), "s_greet", `{}`))
	if said := said(got, err); said != "not sent: The server responded with a redirect (status 308), which is not supported." || stranger.total() != 0 {
		t.Errorf("%s; the stranger saw %d", said, stranger.total())
	}
}

// clock is a clock that the test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestListsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	s := newServer()
	p := newTap(t, handler(s, nil), nil)
	b, c, req := newBackend(t), &clock{at: time.Now()}, request(at("shop", p))
	b.SetClock(c.now)
	asked := func(want int) {
		t.Helper()
		if got := p.count("tools/list"); got != want {
			t.Fatalf("%d requests, want %d", got, want)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, _ = b.List(t.Context(), req) })
	}
	all.Wait()
	asked(1)
	c.pass(4 * time.Minute)
	list(t, b, req)
	asked(1)
	other := req
	other.OrganizationID = "org_2"
	list(t, b, other)
	asked(2)
	other.TargetID = "ag_2"
	list(t, b, other)
	asked(3)
	rotated := at("shop", p)
	rotated.Headers = map[string]string{"A": "sealed:org_1/ag_1:1"}
	list(t, b, request(rotated))
	asked(4)
	c.pass(61 * time.Second)
	s.RemoveTools("add", "fail", "show")
	if got := names(list(t, b, req)); got != "shop_greet" {
		t.Error(got)
	}
	asked(5)
}

func TestACallFindsToolsThatCameLater(t *testing.T) {
	t.Parallel()
	s := newServer()
	p := newTap(t, handler(s, nil), nil)
	b, c, req := newBackend(t), &clock{at: time.Now()}, request(at("shop", p))
	b.SetClock(c.now)
	list(t, b, req)
	s.AddTool(&sdk.Tool{Name: "new", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	const gone = "not sent: The server no longer has a tool with this name."
	for n, step := range []struct {
		tool, want string
		lists      int
	}{
		{"shop_new", gone, 1}, // the list was requested too recently to be requested again
		{"shop_new", `{}`, 2},
		{"shop_greet", `{"error":"The server rejected the call: `, 2}, // the tool was removed in the meantime
		{"shop_never", gone, 3},
	} {
		if n == 2 {
			s.RemoveTools("greet")
		}
		got, err := b.Call(t.Context(), calling(req, step.tool, `{}`))
		if said := said(got, err); !strings.HasPrefix(said, step.want) || p.count("tools/list") != step.lists {
			t.Errorf("%d: %s after %d lists", n, said, p.count("tools/list"))
		}
		c.pass(4 * time.Second)
	}
}

func TestFailuresAreNotKeptForLong(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	p := newTap(t, handler(newServer(), nil), func(_ string, w http.ResponseWriter, _ *http.Request) bool { return down.Load() && breakOff(w) })
	b, c, req := newBackend(t), &clock{at: time.Now()}, request(at("shop", p))
	b.SetClock(c.now)
	for _, step := range []struct {
		down  bool
		pass  time.Duration
		tools int
	}{{true, time.Second, 0}, {false, 5 * time.Second, 0}, {false, 0, 4}} {
		down.Store(step.down)
		if got := len(list(t, b, req)); got != step.tools {
			t.Errorf("%+v: %d tools", step, got)
		}
		c.pass(step.pass)
	}
}

func TestNotEverythingIsKept(t *testing.T) {
	t.Parallel()
	p := newTap(t, nil, func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTeapot)
		return true
	})
	b := newBackend(t)
	for n := range 600 {
		req := request(at("s", p))
		req.TargetID = fmt.Sprint("ag_", n)
		list(t, b, req)
	}
	if got := b.Kept(); got > 512 {
		t.Errorf("%d lists are kept", got)
	}
}

func TestAnOrganizationForgetsItsOwnListsOnly(t *testing.T) {
	t.Parallel()
	p := newTap(t, scripted(map[string]string{"tools/list": `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`}), nil)
	b := newBackend(t)
	ask := func(org, target string) {
		req := request(at("s", p))
		req.OrganizationID, req.TargetID = org, target
		list(t, b, req)
	}
	for n := range 40 {
		ask("org_2", fmt.Sprint("ag_", n))
	}
	before := p.count("tools/list")
	for n := range 600 {
		ask("org_1", fmt.Sprint("ag_", n))
	}
	if got := b.KeptFor("org_1"); got == 0 || got > 64 {
		t.Errorf("%d lists of one organization are kept", got)
	}
	for n := range 40 {
		ask("org_2", fmt.Sprint("ag_", n))
	}
	if got := p.count("tools/list") - before; got != 600 || b.KeptFor("org_2") != 40 {
		t.Errorf("%d lists were requested, %d are cached", got, b.KeptFor("org_2"))
	}
}

func TestSlowServersAreGivenUpWithTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("the worker stops")
	stuck := make(chan struct{})
	p := newTap(t, nil, func(string, http.ResponseWriter, *http.Request) bool {
		cancel(ended)
		<-stuck
		return true
	})
	defer close(stuck)
	if _, err := newBackend(t).List(ctx, request(at("s", p))); !errors.Is(err, ended) {
		t.Error(err)
	}
}

func TestWhatServersSayOfTheirTools(t *testing.T) {
	t.Parallel()
	tools := []map[string]any{
		{"name": "hidden", "description": "Adds.\u200b\u202e\U000e0041\x1b[31m\x00 Ok\u2028?", "annotations": map[string]any{"readOnlyHint": true}, "inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"description": map[string]any{"type": "string", "description": "a\u200bb" + strings.Repeat("x", 2000)}},
		}},
		{"name": "long", "description": strings.Repeat("é", 1500), "inputSchema": map[string]any{}},
		{"name": "titled", "title": "A title", "inputSchema": map[string]any{"type": "object"}},
		{"name": "bare"},
		{"name": "list", "inputSchema": map[string]any{"type": "array"}},
		{"name": "text", "inputSchema": "object"},
		{"name": "huge", "inputSchema": map[string]any{"type": "object", "$comment": strings.Repeat("x", 17<<10)}},
		{"name": "titled", "description": "once more", "inputSchema": map[string]any{"type": "object"}},
		{"name": "", "inputSchema": map[string]any{"type": "object"}},
	}
	raw, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		t.Fatal(err)
	}
	p := newTap(t, scripted(map[string]string{"tools/list": string(raw)}), nil)
	quiet := at("s", p)
	quiet.SideEffect = domain.SideEffectIdempotent
	specs := list(t, newBackend(t), request(quiet))
	if got := names(specs); got != "s_hidden s_long s_titled s_bare" {
		t.Fatal(got)
	}
	want := `{"properties":{"description":{"description":"ab` + strings.Repeat("x", 998) + `","type":"string"}},"type":"object"}`
	if s := specs[0]; s.Description != "Adds. [31m  Ok ?" || string(s.Schema) != want || s.SideEffect != domain.SideEffectIdempotent {
		t.Errorf("%q %s %s", s.Description, s.Schema, s.SideEffect)
	}
	if s := specs[1]; s.Description != strings.Repeat("é", 1000) || string(s.Schema) != `{"type":"object"}` {
		t.Errorf("%q %s", s.Description, s.Schema)
	}
	if s := specs[2]; s.Description != "A title" {
		t.Errorf("%q", s.Description)
	}
	if s := specs[3]; string(s.Schema) != `{"type":"object"}` {
		t.Errorf("%s", s.Schema)
	}
}

func TestSchemasAreCleanThroughout(t *testing.T) {
	t.Parallel()
	in := `{"type":"object","title":" a\u200b\u202e ","$comment":"b\u0000\u200bc","additionalProperties":false,"minProperties":0,"required":["prop\u200bs"],"properties":{
		"properties":{"$ref":"#/$defs/d\u200bd","$comment":"\u001b[31m"},
		"p.q-r_S":{"enum":[" kept ","a\u200bb",1,null],"const":{"k\u200by":["v\u2028w"]},"default":{"a b":"\ufeff"},"examples":["\u202ex"],"anyOf":[{"properties":{"in":{"pattern":"\u200b^x$"}}},true]}},
		"$defs":{"d\u200bd":{"description":7,"x-deep":{"any\u200bkey":["\u200b"]}}}}`
	want := `{"$comment":"b c","$defs":{"dd":{"description":7,"x-deep":{"anykey":[""]}}},"additionalProperties":false,"minProperties":0,"properties":{` +
		`"p.q-r_S":{"anyOf":[{"properties":{"in":{"pattern":"^x$"}}},true],"const":{"ky":["v w"]},"default":{"a b":""},"enum":[" kept ","ab",1,null],"examples":["x"]},` +
		`"properties":{"$comment":" [31m","$ref":"#/$defs/dd"}},"required":["props"],"title":"a","type":"object"}`
	tools := []any{map[string]any{"name": "clean", "inputSchema": json.RawMessage(in)}}
	for n, property := range []string{"", "a b", "ä", "@type", "$filter", "a\u200b", "a[]", strings.Repeat("x", 65)} {
		schema := map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "array", "items": map[string]any{"properties": map[string]any{property: true}}}}}
		if n%2 == 0 {
			schema["properties"] = map[string]any{property: map[string]any{}}
		}
		tools = append(tools, map[string]any{"name": fmt.Sprint("odd", n), "inputSchema": schema})
	}
	tools = append(tools, map[string]any{"name": "wide", "inputSchema": json.RawMessage(`{"type":"object","enum":[` + strings.Repeat("[],", 20_000) + `[]]}`)})
	raw, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		t.Fatal(err)
	}
	p := newTap(t, scripted(map[string]string{"tools/list": string(raw)}), nil)
	specs := list(t, newBackend(t), request(at("s", p)))
	if got := names(specs); got != "s_clean" {
		t.Fatal(got)
	}
	if got := string(specs[0].Schema); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAgentsWithoutServersHaveNoTools(t *testing.T) {
	t.Parallel()
	p := newTap(t, handler(newServer(), nil), nil)
	off := request(at("shop", p))
	off.Config.Tools.MCP.Enabled = false
	none := request()
	none.Config.Tools.MCP = nil
	b := newBackend(t)
	if got := len(list(t, b, off)) + len(list(t, b, none)); got != 0 || p.total() != 0 {
		t.Errorf("%d tools", got)
	}
	got, err := b.Call(t.Context(), calling(off, "shop_greet", `{"name":"Ada"}`))
	if said := said(got, err); said != "not sent: The server no longer has a tool with this name." || p.total() != 0 {
		t.Error(said)
	}
}

func TestListsFitTheAnswer(t *testing.T) {
	t.Parallel()
	var tools []string
	for n := range 128 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","description":"%s","inputSchema":{"type":"object","$comment":"%s"}}`,
			n, strings.Repeat("<", 1000), strings.Repeat("<", 1000)))
	}
	greedy := newTap(t, scripted(map[string]string{"tools/list": `{"tools":[` + strings.Join(tools, ",") + `]}`}), nil)
	modest := newTap(t, handler(newServer(), nil), nil)
	specs := list(t, newBackend(t), request(at("modest", modest), at("greedy", greedy)))
	answer := contract.ToolReply{}
	for _, s := range specs {
		answer.Tools = append(answer.Tools, contract.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema, SideEffect: s.SideEffect})
	}
	raw, err := json.Marshal(answer)
	if err != nil || len(raw) > 400<<10 || len(specs) < 20 || !strings.HasPrefix(names(specs), "modest_add ") {
		t.Errorf("%d tools in %d bytes, %v", len(specs), len(raw), err)
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// Secrets are added only to requests to the server's origin. The outbound client rejects requests
// to other origins, too, but the transport does not rely on that.
func TestSecretsAreAddedForTheirOriginOnly(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://shop.example/mcp": "Bearer 1", "https://shop.example:443/": "Bearer 1",
		"http://shop.example/mcp": "", "https://shop.example:8443/": "", "https://other.example/": "", "https://shop.example.other.example/": "",
	} {
		got := "no request"
		wire := mcp.Wire("https://shop.example:443", map[string]string{"Authorization": "Bearer 1"}, tripper(func(req *http.Request) (*http.Response, error) {
			got = req.Header.Get("Authorization")
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := wire.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got != want || req.Header.Get("Authorization") != "" {
			t.Errorf("%s: %q", address, got)
		}
	}
}
