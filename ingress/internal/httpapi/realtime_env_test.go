package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"parley/ingress/internal/httpapi/voice"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/voicegate"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

// voicePatience is how long a test waits for an expected event.
const voicePatience = 20 * time.Second

// offered is the beginning of the header with which a WebSocket client offers subprotocols.
const offered = "Sec-WebSocket-Protocol: "

// upgrades contains the headers of a WebSocket request.
var upgrades = []string{
	"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
}

// newVoiceAgent creates an agent in the organization h with voice enabled, and returns the id of
// the agent.
func (a *runEnv) newVoiceAgent(h *testOrg, more ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/agents", `{"name":"`+h.word+` agent","systemPrompt":"`+h.word+` prompt","tools":{"voice":{"enabled":true,"voice":"`+h.word+`"}}`+
		strings.Join(more, "")+`}`, h.owner.auth, h.header).text(a.t, "id")
}

// voiceOutcome returns the expected result of a request for a voice connection with this
// credential.
func (c *credential) voiceOutcome() string {
	shown := strings.Contains(strings.Join(c.headers, "\n"), "X-Api-Key: ") || strings.Contains(strings.Join(c.headers, "\n"), "Authorization: ")
	switch {
	case c.harmful, shown && c.refused != "":
		return c.refused
	case !shown && c.demo:
		return "403 demo_restricted"
	case !shown: // cookies are ignored here
		return "401 unauthenticated"
	case c.via == "widget":
		return "403 permission_denied"
	}
	return "ok"
}

// voiceEnv is an environment whose service listens on a port. It has an agent with voice, and a
// voice worker that transcribes nothing.
type voiceEnv struct {
	*runEnv
	*testOrg
	url   string
	agent string
}

func newVoiceEnv(t *testing.T, limits ratelimit.Settings) *voiceEnv {
	t.Helper()
	return newVoiceEnvFor(t, limits, attend)
}

// newVoiceEnvFor is newVoiceEnv with a worker that calls serve for each voice session.
func newVoiceEnvFor(t *testing.T, limits ratelimit.Settings, serve func(context.Context, []byte, *bus.WorkerVoiceSession)) *voiceEnv {
	t.Helper()
	a := newWaitingRunEnv(t, limits)
	lines, err := a.bus.NewVoiceCaller()
	must(t, err)
	t.Cleanup(lines.Close)
	stop, err := a.bus.ServeVoice(bus.VoiceOptions{
		Slots: 1000, Serve: serve,
		Admit: func(_ string, body []byte) (string, bool) {
			var open contract.VoiceOpen
			err := json.Unmarshal(body, &open)
			return open.Line, err == nil
		},
	})
	must(t, err)
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) }) // the test's context has ended
	gate, err := voicegate.New(voicegate.Config{}, voicegate.Deps{Sessions: lines, Signer: a.api.Signer, Log: zerolog.New(a.log)})
	must(t, err)
	a.rebuild(func(d *Deps) { d.Voice = gate })
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	h := a.newTestOrg("home")
	return &voiceEnv{runEnv: a, testOrg: h, url: server.URL + voice.RealtimePath, agent: a.newVoiceAgent(h)}
}

// attend is a voice worker that only keeps a voice session alive.
func attend(ctx context.Context, _ []byte, line *bus.WorkerVoiceSession) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-line.Frames():
			if !open {
				return
			}
		case <-tick.C:
			_ = line.Report(contract.VoiceReport{Type: contract.VoiceAlive})
		}
	}
}

// eventually calls the argument so until it returns true. After a timeout, eventually fails the
// test.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	testkit.Poll(tb, 20*time.Millisecond, voicePatience, what, so)
}

// voiceConn is a voice connection of a test.
type voiceConn struct {
	*testing.T
	socket *websocket.Conn
	id     string // the session's id
}

// dial requests a voice connection. If the request is rejected, the returned connection is nil. The
// returned answer always has the status and the headers of the response.
func (b *voiceEnv) dial(t *testing.T, query string, headers ...string) (*voiceConn, answer) {
	t.Helper()
	options := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for _, h := range headers {
		if protocols, ok := strings.CutPrefix(h, offered); ok {
			options.Subprotocols = strings.Split(protocols, ", ")
			continue
		}
		name, value, _ := strings.Cut(h, ": ")
		options.HTTPHeader.Add(name, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), voicePatience)
	defer cancel()
	socket, res, err := websocket.Dial(ctx, b.url+query, options) //nolint:bodyclose // the library closes the body
	if res == nil {
		t.Fatalf("dialing: %v", err)
	}
	e := openapitest.Exchange{Method: "GET", URL: res.Request.URL, RequestHeader: res.Request.Header, Status: res.StatusCode, Header: res.Header}
	if err != nil { // the WebSocket library has already read a part of the body
		return nil, answer{status: res.StatusCode, header: res.Header}
	}
	openapitest.Check(t, e)
	t.Cleanup(func() { _ = socket.CloseNow() })
	k := &voiceConn{T: t, socket: socket}
	socket.SetReadLimit(2 << 20)
	k.id = k.until("session.created")["session"].(map[string]any)["id"].(string)
	return k, answer{status: res.StatusCode, header: res.Header}
}

// open is dial for requests that must succeed.
func (b *voiceEnv) open(t *testing.T, query string, headers ...string) *voiceConn {
	t.Helper()
	k, got := b.dial(t, query, headers...)
	if k == nil {
		t.Fatalf("%s is answered with %d", query, got.status)
	}
	return k
}

// read returns the next event. If the connection has ended, read returns nil and the status code of
// the close frame.
func (k *voiceConn) read() (map[string]any, websocket.StatusCode) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), voicePatience)
	defer cancel()
	_, raw, err := k.socket.Read(ctx)
	if err != nil {
		return nil, websocket.CloseStatus(err)
	}
	var event map[string]any
	if err := json.Unmarshal(raw, &event); err != nil {
		k.Fatalf("event %s: %v", raw, err)
	}
	return event, 0
}

// until reads events up to the first event of the given type, and returns this event.
func (k *voiceConn) until(kind string) map[string]any {
	k.Helper()
	var seen []string
	for {
		event, code := k.read()
		if event == nil {
			k.Fatalf("the connection ended with %d before %s; there were %v", code, kind, seen)
		}
		if event["type"] == kind {
			return event
		}
		if seen = append(seen, event["type"].(string)); event["type"] == "error" {
			k.Logf("error: %v", event)
		}
	}
}

// ended reads until the connection ends. It returns the code of the last error event, and the
// status code of the close frame.
func (k *voiceConn) ended() (code string, status websocket.StatusCode) {
	k.Helper()
	for {
		event, status := k.read()
		if event == nil {
			return code, status
		}
		if event["type"] == "error" {
			code, _ = event["error"].(map[string]any)["code"].(string)
		}
	}
}

func (k *voiceConn) send(events ...string) {
	k.Helper()
	for _, event := range events {
		if err := k.socket.Write(k.Context(), websocket.MessageText, []byte(event)); err != nil {
			k.Fatalf("sending %s: %v", event, err)
		}
	}
}

// inWriting is an event that makes the agent answer in text instead of audio.
const inWriting = `{"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}`

// says sends a text message and requests an answer.
func (k *voiceConn) says(text string) {
	k.Helper()
	raw, err := json.Marshal(text)
	must(k, err)
	k.send(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":`+string(raw)+`}]}}`,
		`{"type":"response.create"}`)
}

// answered reads to the end of an answer. It returns the answer's status, its text or error code,
// and its run.
func (k *voiceConn) answered() (status, text, runID string) {
	k.Helper()
	response := k.until("response.done")["response"].(map[string]any)
	status, _ = response["status"].(string)
	if metadata, ok := response["metadata"].(map[string]any); ok {
		runID, _ = metadata["run_id"].(string)
	}
	if details, ok := response["status_details"].(map[string]any); ok {
		if failed, ok := details["error"].(map[string]any); ok {
			text, _ = failed["code"].(string)
		}
	}
	for _, item := range response["output"].([]any) {
		for _, part := range item.(map[string]any)["content"].([]any) {
			said, _ := part.(map[string]any)["text"].(string)
			text += said
		}
	}
	return status, text, runID
}
