package ingress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

const inWriting = `{"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}`

// serveVoice runs a voice worker until the test ends. The worker announces itself but accepts no
// sessions.
func (r *testEnv) serveVoice() {
	r.Helper()
	stop, err := r.bus.ServeVoice(bus.VoiceOptions{
		Slots: 100,
		Admit: func(_ string, body []byte) (string, bool) {
			var open contract.VoiceOpen
			err := json.Unmarshal(body, &open)
			return open.Line, err == nil
		},
		Serve: func(ctx context.Context, _ []byte, line *bus.WorkerVoiceSession) {
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
		},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { stop(context.WithoutCancel(r.Context())) })
}

// voice is the client's side of a voice connection.
type voice struct {
	*testEnv
	socket *websocket.Conn
}

// openVoice creates an agent. It opens a voice connection to the agent at the ingress with the URL
// base.
func (r *testEnv) openVoice(base string) *voice {
	r.Helper()
	var agent struct{ ID string }
	r.call("POST", "/api/agents", r.asKey(), `{"name":"a","systemPrompt":"p","tools":{"voice":{"enabled":true}}}`).into(&agent, 201)
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	//nolint:bodyclose // the library has closed it
	socket, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+"/v1/realtime?model="+agent.ID, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + r.key}},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = socket.CloseNow() })
	v := &voice{r, socket}
	v.until("session.created")
	return v
}

func (v *voice) send(events ...string) {
	v.Helper()
	for _, event := range events {
		if err := v.socket.Write(v.Context(), websocket.MessageText, []byte(event)); err != nil {
			v.Fatal(err)
		}
	}
}

// event contains the fields of a realtime event that tests check.
type event struct {
	Type  string `json:"type"`
	Delta string `json:"delta"`
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
	Response struct {
		Status string `json:"status"`
	} `json:"response"`
}

// until reads events up to the next one of the given kind, and returns that event.
func (v *voice) until(kind string) event {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), 20*time.Second)
	defer cancel()
	for {
		_, raw, err := v.socket.Read(ctx)
		if err != nil {
			v.Fatalf("waiting for %s: %v", kind, err)
		}
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			v.Fatalf("%s: %v", raw, err)
		}
		if e.Type == kind {
			return e
		}
	}
}

// ends checks that an error event with the given code arrives, followed by a close frame with the
// given status.
func (v *voice) ends(code string, status websocket.StatusCode) {
	v.Helper()
	if got := v.until("error").Error.Code; got != code {
		v.Errorf("the connection ended with %q, want %q", got, code)
	}
	ctx, cancel := context.WithTimeout(v.Context(), 20*time.Second)
	defer cancel()
	if _, raw, err := v.socket.Read(ctx); websocket.CloseStatus(err) != status {
		v.Errorf("after the error: %s, %v", raw, err)
	}
}

func TestVoiceDurationAndIdleTimeLimits(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.serveVoice()
	short, quiet := defaults(), defaults()
	short.VoiceMaxDuration, quiet.VoiceIdleTimeout = 3*time.Second, 3*time.Second
	long, _ := r.serve(short, zerolog.Nop())
	idle, _ := r.serve(quiet, zerolog.Nop())
	began := time.Now()
	one, other := r.openVoice(long), r.openVoice(idle)
	one.ends("session_expired", websocket.StatusNormalClosure)
	other.ends("session_idle", websocket.StatusNormalClosure)
	if took := time.Since(began); took < 3*time.Second || took > testkit.Within(60*time.Second) {
		t.Errorf("the sessions lasted %s", took)
	}
}

// While the service stops, a voice client still receives the complete answer. Streams of runs end
// immediately, because their clients can resume at another ingress.
func TestStoppingFinishesSpokenAnswers(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.serveVoice()
	second, stop := r.serve(defaults(), zerolog.Nop())
	idle, busy := r.openVoice(second), r.openVoice(second)
	stream := r.follow("POST", second+r.chatPath(), r.asKey(), streamed)
	taken := r.take()
	taken.say("a")
	stream.until("message.delta")
	busy.send(
		inWriting,
		`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}`,
		`{"type":"response.create"}`,
	)
	answer := r.take()
	answer.say("before, ")
	if got := busy.until("response.output_text.delta").Delta; got != "before, " {
		t.Errorf("the answer begins with %q", got)
	}
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	idle.ends("service_restarting", websocket.StatusServiceRestart)
	if rest := stream.all(); len(rest) > 0 {
		t.Errorf("a stopping ingress sent %s", summary(rest))
	}
	select {
	case <-ended:
		t.Fatal("the service did not wait for the spoken answer")
	default:
	}
	answer.say("behind")
	if got := busy.until("response.output_text.delta").Delta; got != "behind" {
		t.Errorf("a stopping ingress sent the text %q", got)
	}
	answer.finish("before, behind")
	if got := busy.until("response.done").Response.Status; got != "completed" {
		t.Errorf("the answer is %s", got)
	}
	busy.ends("service_restarting", websocket.StatusServiceRestart)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the service does not stop")
	}
	taken.finish("a")
}
