package realtimeclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// serve starts a server that passes each connection to a function. It rejects clients without a
// key.
func serve(t *testing.T, on func(ctx context.Context, socket *websocket.Conn)) Options {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.URL.Path != "/v1/realtime" || r.URL.Query().Get("model") != "ag" {
			http.Error(w, "who is that?", http.StatusUnauthorized)
			return
		}
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		on(r.Context(), socket)
	}))

	t.Cleanup(server.Close)
	return Options{BaseURL: server.URL, Key: "key", Model: "ag", Session: "s"}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	pcm := Silence(100 * time.Millisecond)
	opts := serve(t, func(ctx context.Context, socket *websocket.Conn) {
		for _, want := range []string{"conversation.item.create", "response.create"} {
			if _, raw, err := socket.Read(ctx); err != nil || !strings.Contains(string(raw), `"type":"`+want+`"`) {
				t.Errorf("%s: %s %v", want, raw, err)
			}
		}
		for _, event := range []map[string]any{
			{"type": "response.output_audio_transcript.delta", "delta": "Hel"},
			{"type": "response.output_audio.delta", "delta": base64.StdEncoding.EncodeToString(pcm), "item_id": "i"},
			{"type": "response.output_audio_transcript.delta", "delta": "lo."},
			{"type": "response.output_audio.delta", "delta": base64.StdEncoding.EncodeToString(pcm), "item_id": "i"},
			{"type": "response.done", "response": map[string]any{"status": "completed", "metadata": map[string]string{"run_id": "run"}}},
		} {
			raw, err := json.Marshal(event)
			if err != nil {
				t.Error(err)
			}
			if err := socket.Write(ctx, websocket.MessageText, raw); err != nil {
				t.Error(err)
			}
		}
		_ = socket.Close(websocket.StatusPolicyViolation, "enough") // an error means that the client has disconnected
	})

	c, err := Dial(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Leave()
	if err := c.Ask(t.Context(), "Hello?"); err != nil {
		t.Fatal(err)
	}

	part, err := c.Part(t.Context(), len(pcm))
	if err != nil || part.Transcript != "Hel" {
		t.Fatalf("%q %v", part.Transcript, err)
	}

	a, err := c.Rest(t.Context(), part)
	if err != nil || a.Transcript != "Hello." || len(a.PCM) != 2*len(pcm) || len(a.Frames) != 2 || a.ItemID != "i" || a.Response.Metadata["run_id"] != "run" {
		t.Errorf("%+v %v", a, err)
	}
	if got := Types(a.Events); got != "response.output_audio_transcript.delta response.output_audio.delta response.output_audio_transcript.delta "+
		"response.output_audio.delta response.done" {
		t.Error(got)
	}
	if _, err := c.Next(t.Context()); CloseCode(err) != int(websocket.StatusPolicyViolation) {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	opts := serve(t, func(context.Context, *websocket.Conn) { t.Error("a client without a key was accepted") })
	opts.Key = "wrong"
	_, err := Dial(t.Context(), opts)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Status != http.StatusUnauthorized || !strings.Contains(refused.Error(), "who is that?") {
		t.Errorf("%v", err)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	c, err := Dial(t.Context(), serve(t, func(ctx context.Context, socket *websocket.Conn) {
		if err := socket.Write(ctx, websocket.MessageText, []byte(`{"type":"error","error":{"code":"c"}}`)); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Leave()
	if _, err := c.Answer(t.Context()); !errors.Is(err, ErrFault) {
		t.Errorf("%v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestStarved(t *testing.T) {
	t.Parallel()
	began := time.Now()
	frames := func(ms ...int) (a Answer) {
		for _, at := range ms {
			a.Frames = append(a.Frames, Frame{At: began.Add(time.Duration(at) * time.Millisecond), Bytes: BytesPerSecond / 10})
		}
		return a
	}

	for _, c := range []struct {
		name    string
		answer  Answer
		starved time.Duration
		longest time.Duration
	}{
		{"nothing", frames(), 0, 0},
		{"in time", frames(0, 100, 200, 300), 0, 100 * time.Millisecond},
		{"ahead", frames(0, 0, 0, 250), 0, 250 * time.Millisecond},
		{"late", frames(0, 150, 300), 100 * time.Millisecond, 150 * time.Millisecond},
		{"late, then ahead", frames(0, 150, 150, 150, 400), 50 * time.Millisecond, 250 * time.Millisecond},
	} {
		longest, _ := c.answer.Longest()
		if starved := c.answer.StarvedTime(); starved != c.starved || longest != c.longest {
			t.Errorf("%s: %s, %s", c.name, starved, longest)
		}
	}
}

// TestResample checks that a tone keeps its frequency and loudness.
func TestResample(t *testing.T) {
	t.Parallel()
	const from, tone, loud = 22_050, 440.0, 10_000.0
	in := make([]int16, from)
	for i := range in {
		in[i] = int16(loud * math.Sin(2*math.Pi*tone*float64(i)/from))
	}

	out := resample(in, from, Rate)
	if len(out) != Rate {
		t.Fatalf("%d samples", len(out))
	}

	for i := 100; i < Rate-100; i++ {
		if want := loud * math.Sin(2*math.Pi*tone*float64(i)/Rate); math.Abs(float64(out[i])-want) > loud/100 {
			t.Fatalf("sample %d = %d, want %.0f", i, out[i], want)
		}
	}
}

func TestSpeech(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skipf("NOT TESTED: speech, because espeak-ng is missing (scripts/setup test installs it): %v", err)
	}

	pcm, err := Speech(t.Context(), "en-us+f5", "-v is text, not an option")
	if err != nil || Lasts(len(pcm)) < time.Second || Lasts(len(pcm)) > 5*time.Second {
		t.Errorf("%s %v", Lasts(len(pcm)), err)
	}

	again, err := Speech(t.Context(), "en-us+f5", "-v is text, not an option")
	if err != nil || string(again) != string(pcm) {
		t.Errorf("the same text yields different speech: %v", err)
	}
	if _, _, err := readWAV([]byte("RIFF")); !errors.Is(err, errWAV) {
		t.Errorf("%v", err)
	}
}
