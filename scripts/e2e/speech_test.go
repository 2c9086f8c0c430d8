package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/realtimeclient"
	"parley/shared/testkit"
)

// spoken is the answer that the tests' agents speak. It takes about twelve seconds.
const spoken = "The first sentence is about the sea. The second sentence is about a mountain behind the sea. The third one tells of the snow on it. " +
	"And this is the end of the story."

// runTogether starts subtests simultaneously. The returned function waits until all subtests have
// ended. runTogether does not use t.Parallel, because each subtest would then wait for one of the
// package's limited parallel slots.
func runTogether(t *testing.T, tests map[string]func(t *testing.T)) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	t.Cleanup(all.Wait) // also waits if the test has failed
	return all.Wait
}

// needsVoice skips a test if no speech program is installed.
func needsVoice(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skipf("NOT TESTED: voice, because there is no espeak-ng (scripts/setup test installs it): %v", err)
	}
}

// voiceWorker starts a voice worker that speaks with espeak-ng and sends audio to the listener l
// for transcription.
func (c *cluster) voiceWorker(t *testing.T, l *listener, more ...string) *testkit.Process {
	t.Helper()
	return c.worker(t, append([]string{
		"ROLES=voice", "SPEECH_MODEL=offline/espeak-ng", "TRANSCRIPTION_MODEL=openai/listener", "AUDIO_BASE_URL=" + l.url, "AUDIO_API_KEY=listener",
	}, more...)...)
}

// listener is a transcription provider that records its uploads and returns scripted texts.
type listener struct {
	url string

	mu    sync.Mutex
	words string
	heard [][]byte      // audio samples of each upload
	hold  chan struct{} // if not nil, closed when the next upload arrives, which is then never answered
}

func newListener(t *testing.T, words string) *listener {
	t.Helper()
	l := &listener{words: words}
	server := httptest.NewServer(l)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	l.url = server.URL + "/v1"
	return l
}

// ServeHTTP serves POST /v1/audio/transcriptions.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	wav, err := io.ReadAll(file)
	if err != nil {
		return // an incomplete request is not answered
	}

	l.mu.Lock()
	l.heard = append(l.heard, samplesFor(wav))
	held, words := l.hold, l.words
	l.hold = nil
	l.mu.Unlock()
	if held != nil {
		close(held)
		<-r.Context().Done()
		return
	}

	writeJSON(w, map[string]string{"text": words})
}

// samplesFor returns the audio samples of a WAV file.
func samplesFor(wav []byte) []byte {
	at := bytes.Index(wav, []byte("data"))
	if at < 0 || len(wav) < at+8 {
		return nil
	}
	rest := wav[at+8:]
	return rest[:min(len(rest), int(binary.LittleEndian.Uint32(wav[at+4:])))]
}

// holdNext makes the listener leave the next upload unanswered. The returned channel is closed when
// this upload has arrived.
func (l *listener) holdNext() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = make(chan struct{})
	return l.hold
}

// uploads returns the uploads in order.
func (l *listener) uploads() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]byte(nil), l.heard...)
}

// speaks enables voice for the account's agent.
func (a account) speaks(t *testing.T) account {
	t.Helper()
	body := map[string]any{"tools": map[string]any{"voice": map[string]any{"enabled": true}}}
	a.send(t, http.MethodPut, a.url+"/api/agents?id="+a.agent, body).Want(t, http.StatusOK)
	return a
}

// dial opens a voice session, which is closed when the test ends.
func (a account) dial(t *testing.T, session string) (*realtimeclient.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	line, err := realtimeclient.Dial(ctx, realtimeclient.Options{BaseURL: a.url, Key: a.key, Model: a.agent, Session: session})
	if err == nil {
		t.Cleanup(line.Leave)
	}
	return line, err
}

// converse opens a voice session, and returns when the service has confirmed it.
func (a account) converse(t *testing.T, session string) *talk {
	t.Helper()
	line, err := a.dial(t, session)
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{Client: line, t: t}
	k.until("session.created")
	return k
}

// talk is a client's side of a voice session. Its methods fail the test on errors.
type talk struct {
	*realtimeclient.Client

	t *testing.T
}

// patience is the maximum time that a test waits for an event.
const patience = 60 * time.Second

func (k *talk) within(do func(ctx context.Context) error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), testkit.Within(patience))
	defer cancel()
	if err := do(ctx); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) until(types ...string) (last realtimeclient.Event, all []realtimeclient.Event) {
	k.t.Helper()
	k.within(func(ctx context.Context) (err error) {
		last, all, err = k.Until(ctx, types...)
		return err
	})
	return last, all
}

// ask sends a typed message and requests an answer.
func (k *talk) ask(text string) {
	k.t.Helper()
	k.within(func(ctx context.Context) error { return k.Ask(ctx, text) })
}

// update sends the event session.update, and waits until the service has confirmed it.
func (k *talk) update(session map[string]any) {
	k.t.Helper()
	k.within(func(ctx context.Context) error { return k.Update(ctx, session) })
	k.until("session.updated")
}

// part reads the beginning of an answer, until it has received audio of at least the duration d.
func (k *talk) part(d time.Duration) (a realtimeclient.Answer) {
	k.t.Helper()
	k.within(func(ctx context.Context) (err error) {
		a, err = k.Part(ctx, int(d.Seconds()*realtimeclient.BytesPerSecond))
		return err
	})
	return a
}

// rest reads the rest of an answer whose beginning the method part has read. It fails the test
// unless the answer completes.
func (k *talk) rest(part realtimeclient.Answer) (a realtimeclient.Answer) {
	k.t.Helper()
	k.within(func(ctx context.Context) (err error) {
		a, err = k.Rest(ctx, part)
		return err
	})
	if a.Response.Status != "completed" {
		k.t.Fatalf("status of the answer = %s: %s", a.Response.Status, a.Events[len(a.Events)-1].Raw)
	}
	return a
}

// answer reads the next answer.
func (k *talk) answer() realtimeclient.Answer {
	k.t.Helper()
	return k.rest(realtimeclient.Answer{})
}

// say sends audio in real time, and then enough silence to end the turn.
func (k *talk) say(pcm []byte) {
	k.t.Helper()
	k.within(func(ctx context.Context) error {
		return k.Speak(ctx, append(bytes.Clone(pcm), realtimeclient.Silence(time.Second)...))
	})
}

// closed reads until the service closes the connection. It returns the close code and all events.
func (k *talk) closed(within time.Duration) (code int, all []realtimeclient.Event) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), within)
	defer cancel()
	for {
		e, err := k.Next(ctx)
		if err != nil {
			return realtimeclient.CloseCode(err), all
		}
		all = append(all, e)
	}
}

// speech returns the audio of a spoken text.
func speech(t *testing.T, text string) []byte {
	t.Helper()
	pcm, err := realtimeclient.Speech(t.Context(), "en-us+f5", text)
	if err != nil {
		t.Fatal(err)
	}
	return pcm
}

// sameAnswer fails the test unless an answer equals the answer of a session without faults, with no
// audio sample lost or repeated.
func sameAnswer(t *testing.T, got, want realtimeclient.Answer) {
	t.Helper()
	if got.Transcript != want.Transcript {
		t.Errorf("transcript of the answer =\n%q, want that of the undisturbed one\n%q", got.Transcript, want.Transcript)
	}
	if bytes.Equal(got.PCM, want.PCM) {
		return
	}
	differs := 0
	for differs < min(len(got.PCM), len(want.PCM)) && got.PCM[differs] == want.PCM[differs] {
		differs++
	}
	t.Errorf("%d bytes of audio, undisturbed %d; the audio differs from %s on", len(got.PCM), len(want.PCM), realtimeclient.Lasts(differs))
}

// transcript contains the messages of a session, as the API returns them.
type transcript struct {
	Messages []struct {
		Role        string `json:"role"`
		Content     string `json:"content"`
		RunID       string `json:"runId"`
		Status      string `json:"status"`
		Interrupted bool   `json:"interrupted"`
	} `json:"messages"`
}

func (a account) transcript(t *testing.T, session string) (got transcript) {
	t.Helper()
	a.send(t, http.MethodGet, a.url+"/api/sessions?id="+session+"&agentId="+a.agent, nil).Want(t, http.StatusOK).Into(t, &got)
	return got
}
