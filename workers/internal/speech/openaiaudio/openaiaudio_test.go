package openaiaudio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/workers/internal/llm/remote"
	"parley/workers/internal/speech"
	"parley/workers/internal/speech/openaiaudio"
	"parley/workers/internal/speech/speechtest"
)

func config(url string) openaiaudio.Config {
	return openaiaudio.Config{Model: "m", APIKey: speechtest.Key, BaseURL: url}
}

func pair(t *testing.T, cfg openaiaudio.Config) (*openaiaudio.Transcriber, *openaiaudio.Synthesizer) {
	t.Helper()
	listener, err := openaiaudio.NewTranscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	speaker, err := openaiaudio.NewSynthesizer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(speaker.Close)
	return listener, speaker
}

func TestTheWire(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	service := speechtest.NewService(t)
	cfg := config(service.URL)
	cfg.Voice = "sage"
	listener, speaker := pair(t, cfg)
	sound, err := speechtest.Say(t.Context(), speaker, speech.Line{Text: " hello\n there ", Speed: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello", Voice: "ash", Speed: 1}); err != nil {
		t.Fatal(err)
	}
	text, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: sound, Language: "de", Prompt: "Parley"})
	if err != nil || text != "hello there" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: sound}); err != nil {
		t.Fatal(err)
	}
	const file = "speech.wav audio/wav 24000"
	for n, want := range []speechtest.Request{
		{Path: "/v1/audio/speech", Fields: map[string]string{"model": "m", "input": "hello there", "voice": "sage", "response_format": "pcm", "speed": "1.5"}},
		{Path: "/v1/audio/speech", Fields: map[string]string{"model": "m", "input": "hello", "voice": "ash", "response_format": "pcm"}},
		{Path: "/v1/audio/transcriptions", Fields: map[string]string{"model": "m", "response_format": "json", "language": "de", "prompt": "Parley", "file": file}},
		{Path: "/v1/audio/transcriptions", Fields: map[string]string{"model": "m", "response_format": "json", "file": file}},
	} {
		got := service.Requests()[n]
		if got.Path != want.Path || fmt.Sprint(got.Fields) != fmt.Sprint(want.Fields) {
			t.Errorf("request %d: %s %v, want %s %v", n, got.Path, got.Fields, want.Path, want.Fields)
		}
		if n > 1 && !bytes.Equal(got.Sound, sound) {
			t.Errorf("request %d brought %d bytes of sound, want %d", n, len(got.Sound), len(sound))
		}
	}
}

func answer(status int, media, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

func breakOff(media, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write([]byte(body))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func wait(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

const (
	inJSON   = "application/json"
	provider = `{"error":{"message":"hunter3 is what the provider says","type":"x"}}`
)

// failures contains responses of the service that make transcriptions and syntheses fail.
var failures = map[string]struct {
	answer    func(http.ResponseWriter, *http.Request) bool
	message   string // text that the error's message must contain
	retryable bool
}{
	"refused key":      {answer(401, inJSON, provider), "credentials", false},
	"too many":         {answer(429, inJSON, provider), "limiting", true},
	"used up":          {answer(429, inJSON, `{"error":{"code":"insufficient_quota","message":"hunter3"}}`), "no credit or quota left", false},
	"a fault":          {answer(500, inJSON, provider), "not available", true},
	"a gateway":        {answer(502, "text/html", "<html>hunter3"), "not available", true},
	"a refusal":        {answer(400, inJSON, provider), "rejected the request", false},
	"no such model":    {answer(404, inJSON, provider), "does not know the configured model", false},
	"a web page":       {answer(200, "text/html", "<html>hunter3"), "could not be read", false},
	"a redirect":       {answer(302, "text/plain", ""), "could not be read", false},
	"another format":   {answer(200, "audio/mpeg", "ID3"), "could not be read", false},
	"nothing in time":  {wait, "in time", true},
	"an endless error": {answer(500, inJSON, strings.Repeat("x", 1<<20)), "not available", true},
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := speechtest.NewService(t)
			service.Answer = c.answer
			cfg := config(service.URL)
			if name == "nothing in time" { // only this case has a short limit, because the other cases need more time
				cfg.Limits = remote.Limits{FirstToken: 100 * time.Millisecond}
			}
			listener, speaker := pair(t, cfg)
			_, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: []byte{1, 0}})
			failed(t, err, speech.CodeTranscription, c.message, c.retryable)
			_, err = speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello"})
			failed(t, err, speech.CodeSpeech, c.message, c.retryable)
		})
	}
}

func failed(t *testing.T, err error, code, message string, retryable bool) {
	t.Helper()
	e, is := errors.AsType[*speech.Error](err)
	if !is || e.Code != code || !strings.Contains(e.Message, message) || e.Retryable != retryable {
		t.Errorf("%#v, want %s with %q, retryable %t", err, code, message, retryable)
		return
	}
	if all := fmt.Sprintf("%v %+v %v", err, e, errors.Unwrap(e)); strings.Contains(err.Error(), "hunter") || strings.Contains(all, speechtest.Key) {
		t.Errorf("the error contains a secret or text of the provider: %s", all)
	}
}

func TestAnswersThatAreNoTranscript(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request) bool
		message   string
		retryable bool
	}{
		"no JSON":     {answer(200, inJSON, "{oh"), "could not be read", true},
		"no text":     {answer(200, inJSON, `{"usage":{}}`), "could not be read", false},
		"null":        {answer(200, inJSON, `{"text":null}`), "could not be read", false},
		"nothing":     {answer(200, inJSON, ""), "was interrupted", true},
		"broken off":  {breakOff(inJSON, `{"text":"he`), "was interrupted", true},
		"too large":   {answer(200, inJSON, `{"text":"`+strings.Repeat("a", 26<<20)+`"}`), "exceeded the size limit", false},
		"sound, then": {answer(200, "audio/pcm", "aabb"), "could not be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := speechtest.NewService(t)
			service.Answer = c.answer
			listener, _ := pair(t, config(service.URL))
			_, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: []byte{1, 0}})
			failed(t, err, speech.CodeTranscription, c.message, c.retryable)
		})
	}
	service := speechtest.NewService(t)
	service.Answer = answer(200, inJSON, `{"text":" a\u0000\u001b[31m b `+strings.Repeat("ä", 20_000)+`"}`)
	listener, _ := pair(t, config(service.URL))
	text, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: []byte{1, 0}})
	if err != nil || !strings.HasPrefix(text, "a [31m b ää") || len(text) > 32<<10 || strings.Contains(text, "\ufffd") {
		t.Errorf("%.40q of %d bytes, %v", text, len(text), err)
	}
}

func TestAnswersThatAreNoSound(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "audio/pcm")
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request) bool
		message   string
		retryable bool
		sound     int
	}{
		"nothing":       {answer(200, "audio/pcm", ""), "was interrupted", true, 0},
		"half a sample": {answer(200, "audio/pcm", "a"), "was interrupted", true, 0},
		"broken off":    {breakOff("audio/pcm", "aabbc"), "was interrupted", true, 4},
		"JSON":          {answer(200, inJSON, "{}"), "could not be read", false, 0},
		"endless":       {endless, "exceeded the size limit", false, 25 << 20},
		"stalls": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte("aabb"))
			_ = http.NewResponseController(w).Flush()
			return wait(w, r)
		}, "in time", true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := speechtest.NewService(t)
			service.Answer = c.answer
			cfg := config(service.URL)
			cfg.Limits = remote.Limits{IdleChunk: 500 * time.Millisecond}
			_, speaker := pair(t, cfg)
			sound, err := speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello"})
			failed(t, err, speech.CodeSpeech, c.message, c.retryable)
			if len(sound) != c.sound {
				t.Errorf("%d bytes of sound, want %d", len(sound), c.sound)
			}
		})
	}
}

// Audio is passed on as it arrives. The server sends the second half only after the test has
// received the first half.
func TestSoundIsPassedOnAsItComes(t *testing.T) {
	t.Parallel()
	service, heard := speechtest.NewService(t), make(chan struct{})
	service.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "audio/pcm")
		_, _ = w.Write([]byte("aab"))
		_ = http.NewResponseController(w).Flush()
		<-heard
		_, _ = w.Write([]byte("bccd"))
		return true
	}
	_, speaker := pair(t, config(service.URL))
	var sound []byte
	err := speaker.Synthesize(t.Context(), speech.Line{Text: "hello"}, func(piece []byte) error {
		if sound = append(sound, piece...); len(sound) == 2 {
			close(heard)
		}
		return nil
	})
	if err != nil || string(sound) != "aabbcc" { // an incomplete sample at the end is dropped
		t.Errorf("%q, %v", sound, err)
	}
}

// The time limits of a call do not include the time that the receiver of the audio takes.
func TestASlowListenerCausesNoTimeout(t *testing.T) {
	t.Parallel()
	service := speechtest.NewService(t)
	cfg := config(service.URL)
	cfg.Limits = remote.Limits{IdleChunk: 3 * time.Second}
	_, speaker := pair(t, cfg)
	once := false
	err := speaker.Synthesize(t.Context(), speech.Line{Text: "hello"}, func([]byte) error {
		if !once {
			once = true
			<-time.After(4 * time.Second) // longer than the service's time limit, but the call succeeds
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUnknownVoices(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404, 422} {
		service := speechtest.NewService(t)
		service.Answer = answer(status, inJSON, `{"detail":[{"loc":["body","Voice"],"msg":"unknown"}]}`)
		_, speaker := pair(t, config(service.URL))
		if _, err := speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello", Voice: "af_bella(1)+af_sky"}); !errors.Is(err, speech.ErrUnknownVoice) {
			t.Errorf("%d: %v", status, err)
		}
	}
	cfg := config("")
	cfg.Voice = "a\nb"
	if _, err := openaiaudio.NewSynthesizer(cfg); err == nil {
		t.Error("an invalid voice is accepted")
	}
}

// After five consecutive failures, the service is not called for a while.
func TestAFailingServiceIsNotCalled(t *testing.T) {
	t.Parallel()
	service, asked := speechtest.NewService(t), atomic.Int64{}
	service.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	listener, speaker := pair(t, config(service.URL))
	for range 9 {
		_, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: []byte{1, 0}})
		failed(t, err, speech.CodeTranscription, "not available", true)
	}
	if asked.Load() != 5 {
		t.Errorf("%d calls, want 5", asked.Load())
	}
	if _, err := speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello"}); err == nil || asked.Load() != 6 {
		t.Errorf("speaking is left alone because listening fails: %v", err)
	}
}

// Rejected requests and cancelled calls are not failures of the service.
func TestRefusalsDoNotCount(t *testing.T) {
	t.Parallel()
	service, asked, leave := speechtest.NewService(t), atomic.Int64{}, make(chan struct{})
	service.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if asked.Add(1)%2 == 0 {
			leave <- struct{}{}
			return wait(w, r)
		}
		return answer(http.StatusTooManyRequests, inJSON, provider)(w, r)
	}
	listener, _ := pair(t, config(service.URL))
	for range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-leave: // the caller cancels
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err := listener.Transcribe(ctx, speech.Utterance{PCM: []byte{1, 0}})
		cancel()
		if err == nil {
			t.Error("no error")
		}
	}
	if asked.Load() != 12 {
		t.Errorf("%d calls, want 12", asked.Load())
	}
}

func TestServiceIsUnreachable(t *testing.T) {
	t.Parallel()
	listener, speaker := pair(t, config("http://127.0.0.1:1/v1"))
	_, err := listener.Transcribe(t.Context(), speech.Utterance{PCM: []byte{1, 0}})
	failed(t, err, speech.CodeTranscription, "not available", true)
	_, err = speechtest.Say(t.Context(), speaker, speech.Line{Text: "hello"})
	failed(t, err, speech.CodeSpeech, "not available", true)
}
