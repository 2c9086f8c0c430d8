package voicegate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/testkit"
)

// patience is the longest time that a test waits for an expected event.
const patience = time.Minute

// testEnv is a gate with a real HTTP server and a real bus. The test controls the workers and the
// runs.
type testEnv struct {
	*testing.T
	gate     *Gate
	runs     *scriptedRuns
	nats     string
	address  string
	signer   *secrets.Signer
	log      *syncBuffer
	metrics  *prometheus.Registry
	holds    atomic.Bool
	deaf     atomic.Bool         // whether new voice sessions report no progress of the worker
	served   chan error          // receives the results of the calls of Serve
	sessions chan *workerSession // receives the voice sessions that are opened with workers
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newTestEnv(t *testing.T, cfg Config, change func(*times)) *testEnv {
	t.Helper()
	r := &testEnv{
		T: t, runs: newScriptedRuns(), nats: testkit.NATS(t), log: &syncBuffer{}, metrics: prometheus.NewRegistry(),
		served: make(chan error, 100), sessions: make(chan *workerSession, 100),
	}
	r.holds.Store(true)
	var err error
	if r.signer, err = secrets.NewSigner(strings.Repeat("ab", 32)); err != nil {
		t.Fatal(err)
	}
	sessions, err := r.dial().NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sessions.Close)
	r.gate, err = New(cfg, Deps{Sessions: sessions, Signer: r.signer, Log: zerolog.New(r.log), Metrics: r.metrics})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&r.gate.times)
	}
	r.listen()
	return r
}

func (r *testEnv) dial() *bus.Bus {
	r.Helper()
	b, err := bus.Dial(r.nats, "test", zerolog.New(r.log))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(b.Close)
	return b
}

// listen serves the gate with gin, as the ingress does. The timeouts of the server are short, so
// that a test shows that they do not end a connection.
func (r *testEnv) listen() {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/", func(c *gin.Context) {
		r.served <- r.gate.Serve(c.Writer, c.Request, Admission{
			Conversation: realtime.Settings{SessionID: "rt_1", Model: "ag_1", NewID: newID()},
			Organization: "org_1", Runs: r.runs,
			Holds: func(time.Time) bool { return r.holds.Load() },
			Look:  func(until time.Time) time.Time { return until },
		})
	})
	server := httptest.NewUnstartedServer(engine)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
	server.Start()
	r.Cleanup(server.Close)
	r.address = server.URL
}

func newID() func(string) string {
	var last atomic.Int64
	return func(prefix string) string { return fmt.Sprintf("%s_%d", prefix, last.Add(1)) }
}

// ended waits until a connection has ended. It returns the log output of the gate.
func (r *testEnv) ended() string {
	r.Helper()
	select {
	case err := <-r.served:
		if err != nil {
			r.Fatalf("the connection was not served: %v", err)
		}
	case <-time.After(patience):
		r.Fatal("the connection does not end")
	}
	return r.log.String()
}

func (r *testEnv) wantReason(reason string) {
	r.Helper()
	if log := r.ended(); !strings.Contains(log, `"reason":"`+reason+`"`) {
		r.Errorf("the reason for the end is not %q:\n%s", reason, log)
	}
}

// client is the client's side of a voice connection.
type client struct {
	*testEnv
	socket *websocket.Conn
	events chan event
	closed chan websocket.CloseError
}

type event struct {
	Type       string `json:"type"`
	Delta      string `json:"delta"`
	Transcript string `json:"transcript"`
	AudioMS    int64  `json:"audio_start_ms"`
	Error      struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Session struct {
		ID    string `json:"id"`
		Audio struct {
			Input struct {
				Transcription struct {
					Model string `json:"model"`
				} `json:"transcription"`
			} `json:"input"`
		} `json:"audio"`
	} `json:"session"`
	Response struct {
		Status   string            `json:"status"`
		Metadata map[string]string `json:"metadata"`
		Details  struct {
			Reason string `json:"reason"`
		} `json:"status_details"`
	} `json:"response"`
	at time.Time
}

func (e event) pcm(t *testing.T) []byte {
	t.Helper()
	if e.Type != "response.output_audio.delta" {
		return nil
	}
	pcm, err := base64.StdEncoding.DecodeString(e.Delta)
	if err != nil {
		t.Fatal(err)
	}
	return pcm
}

// connect opens a connection without reading from it.
func (r *testEnv) connect() *client {
	r.Helper()
	offered := &websocket.DialOptions{Subprotocols: []string{"openai-insecure-api-key.x", "realtime"}}
	socket, _, err := websocket.Dial(r.Context(), r.address, offered) //nolint:bodyclose // an upgrade has no body
	if err != nil {
		r.Fatal(err)
	}
	if socket.Subprotocol() != "realtime" {
		r.Errorf("the subprotocol is %q", socket.Subprotocol())
	}
	socket.SetReadLimit(-1)
	r.Cleanup(func() { _ = socket.CloseNow() })
	return &client{r, socket, make(chan event, 10_000), make(chan websocket.CloseError, 1)}
}

// open opens a connection, reads its events and checks that the first is session.created.
func (r *testEnv) open() *client {
	r.Helper()
	c := r.connect()
	go c.read()
	if got := c.want("session.created"); got.Session.ID != "rt_1" {
		r.Errorf("the session is %+v", got.Session)
	}
	return c
}

func (c *client) read() {
	for {
		_, raw, err := c.socket.Read(context.Background())
		if err != nil {
			gone := websocket.CloseError{Code: websocket.StatusAbnormalClosure}
			errors.As(err, &gone)
			c.closed <- gone
			close(c.events)
			return
		}
		e := event{at: time.Now()}
		if err := json.Unmarshal(raw, &e); err != nil {
			c.Errorf("event %s: %v", raw, err)
		}
		c.events <- e
	}
}

func (c *client) sendf(format string, values ...any) {
	c.Helper()
	if err := c.writef(format, values...); err != nil {
		c.Fatal(err)
	}
}

func (c *client) writef(format string, values ...any) error {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	return c.socket.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, values...))
}

func (c *client) append(pcm []byte) {
	c.Helper()
	c.sendf(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(pcm))
}

// ask sends a message and requests a response.
func (c *client) ask(message string) {
	c.Helper()
	c.sendf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, message)
	c.sendf(`{"type":"response.create"}`)
}

// next returns the next event of any type.
func (c *client) next() event {
	c.Helper()
	select {
	case e, ok := <-c.events:
		if !ok {
			c.Fatal("the connection has ended")
		}
		return e
	case <-time.After(patience):
		c.Fatal("no event arrived")
	}
	return event{}
}

// want reads events until an event of the given type arrives, and returns that event.
func (c *client) want(kind string) event {
	c.Helper()
	var others []string
	for {
		select {
		case e, ok := <-c.events:
			if ok && e.Type == kind {
				return e
			}
			others = append(others, e.Type+" "+e.Error.Message)
			if !ok {
				c.Fatalf("the connection ended before %s, after %q", kind, others)
			}
		case <-time.After(patience):
			c.Fatalf("no %s arrived, but %q", kind, others)
		}
	}
}

// wantClose checks that an error event with the given code arrives, followed by the close frame.
func (c *client) wantClose(code string, status websocket.StatusCode) {
	c.Helper()
	for {
		if e := c.want("error"); e.Error.Code == code {
			break
		}
	}
	c.wantClosed(status)
}

func (c *client) wantClosed(status websocket.StatusCode) {
	c.Helper()
	select {
	case got := <-c.closed:
		if got.Code != status {
			c.Errorf("closed with %d %q, want %d", got.Code, got.Reason, status)
		}
	case <-time.After(patience):
		c.Fatal("the connection is not closed")
	}
}

// worker is a voice worker whose sessions the test controls.
type worker struct {
	*testEnv
	bus  *bus.Bus
	stop func(context.Context)
}

// work starts a voice worker that accepts voice sessions.
func (r *testEnv) work() *worker {
	r.Helper()
	w := &worker{testEnv: r, bus: r.dial()}
	stop, err := w.bus.ServeVoice(bus.VoiceOptions{
		Slots: 10, Transcription: "offline/pocketsphinx",
		Admit: func(capability string, body []byte) (string, bool) {
			claims := contract.VoiceClaims{}
			raw, err := r.signer.Verify(capability, body)
			ok := err == nil && json.Unmarshal(raw, &claims) == nil && claims.Kind == contract.KindVoice &&
				claims.OrganizationID == "org_1" && claims.Expires.After(time.Now())
			return claims.Line, ok
		},
		Serve: w.serve,
	})
	if err != nil {
		r.Fatal(err)
	}
	w.stop = stop
	r.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		stop(ctx)
	})
	return w
}

// kill disconnects the worker without a report.
func (w *worker) kill() { w.bus.Close() }

// workerSession is the worker's side of a voice session.
type workerSession struct {
	*testEnv
	open     contract.VoiceOpen
	end      *bus.WorkerVoiceSession
	commands chan contract.VoiceCommand
	deaf     atomic.Bool   // whether the session reports no progress
	keep     atomic.Bool   // whether the session reports that it needs all audio, so that all of it must be sent again after a loss
	quit     chan struct{} // closed by the test to end the session

	mu    sync.Mutex
	heard []byte
}

func (w *worker) serve(ctx context.Context, body []byte, end *bus.WorkerVoiceSession) {
	l := &workerSession{testEnv: w.testEnv, end: end, commands: make(chan contract.VoiceCommand, 1000), quit: make(chan struct{})}
	if err := json.Unmarshal(body, &l.open); err != nil {
		w.Error(err)
		return
	}
	l.deaf.Store(w.testEnv.deaf.Load())
	w.sessions <- l
	alive := time.NewTicker(100 * time.Millisecond)
	defer alive.Stop()
	for {
		select {
		case frame, ok := <-end.Frames():
			switch {
			case !ok:
				return
			case frame.Audio != nil:
				l.hear(frame.Audio)
			case frame.Control != nil:
				l.commands <- *frame.Control
			}
		case <-alive.C:
			l.reportAlive()
		case <-l.quit:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *workerSession) reportAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := contract.VoiceReport{Type: contract.VoiceAlive, Heard: l.open.Position, Needs: l.open.Position}
	if !l.deaf.Load() {
		report.Heard += int64(len(l.heard) / 2)
	}
	if !l.keep.Load() {
		report.Needs = report.Heard
	}
	_ = l.end.Report(report) // an error means that the session has ended
}

func (l *workerSession) hear(a *contract.VoiceAudio) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.open.Position + int64(len(l.heard)/2); a.At != at {
		l.Errorf("audio at %d arrived, want %d", a.At, at)
	}
	l.heard = append(l.heard, a.PCM...)
}

// wantHeard waits until the session has received the given number of samples, and returns them.
func (l *workerSession) wantHeard(samples int) []byte {
	l.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		l.mu.Lock()
		got := l.heard
		l.mu.Unlock()
		if len(got) >= 2*samples {
			return slices.Clone(got)
		}
		if time.Now().After(deadline) {
			l.Fatalf("%d samples arrived, want %d", len(got)/2, samples)
		}
	}
}

// voiceSession returns the next voice session that is opened with a worker.
func (r *testEnv) voiceSession() *workerSession {
	r.Helper()
	select {
	case l := <-r.sessions:
		return l
	case <-time.After(patience):
		r.Fatal("no line is opened")
		return nil
	}
}

// want reads commands until a command of the given type arrives, and returns that command.
func (l *workerSession) want(kind string) contract.VoiceCommand {
	l.Helper()
	for {
		select {
		case c := <-l.commands:
			if c.Type == kind {
				return c
			}
		case <-time.After(patience):
			l.Fatalf("no %s arrived", kind)
		}
	}
}

func (l *workerSession) report(r contract.VoiceReport) {
	l.Helper()
	if err := l.end.Report(r); err != nil {
		l.Error(err)
	}
}

// perByte is the number of samples of speech for each byte of an answer.
const perByte = 480

// speech returns the audio for the bytes of an answer from start to end. Each sample contains its
// own position.
func speech(start, end int) []byte {
	var pcm []byte
	for at := start * perByte; at < end*perByte; at++ {
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(at%65_536))
	}
	return pcm
}

// say sends the audio of a segment in frames of 100 ms. The argument skip is the number of samples
// at the beginning that say omits. If the argument whole is set, say then reports that the segment
// is complete.
func (l *workerSession) say(c contract.VoiceCommand, start, end int, skip int64, whole bool) {
	l.Helper()
	pcm := speech(start, end)[2*skip:]
	for at := skip; len(pcm) > 0; {
		frame := pcm[:min(len(pcm), 4800)]
		pcm = pcm[len(frame):]
		if err := l.end.Audio(contract.VoiceAudio{At: at, Answer: c.Answer, Start: start, End: end, PCM: frame}); err != nil {
			l.Error(err)
			return
		}
		at += int64(len(frame) / 2)
	}
	if whole {
		l.report(contract.VoiceReport{
			Type: contract.VoiceSegment, Answer: c.Answer, Start: start, End: end, Samples: int64((end - start) * perByte),
		})
	}
}

func (l *workerSession) said(answer string) {
	l.Helper()
	l.report(contract.VoiceReport{Type: contract.VoiceSaid, Answer: answer})
}

// scriptedRuns starts runs that the test controls, and records the calls of the gate.
type scriptedRuns struct {
	mu        sync.Mutex
	refusal   error
	broken    bool
	wait      chan struct{} // Begin waits until this channel is closed; nil: it does not wait
	did       []string      // names of the recorded calls: begin, cancel, heard, lost
	begun     chan *scriptedRun
	cancelled chan string
	heard     chan domain.Playback
	saving    chan error // results of the next attempts to save how much was played; nil: all succeed
	open      atomic.Int64
}

func newScriptedRuns() *scriptedRuns {
	return &scriptedRuns{begun: make(chan *scriptedRun, 1000), cancelled: make(chan string, 1000), heard: make(chan domain.Playback, 1000)}
}

func (s *scriptedRuns) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what)
}

func (s *scriptedRuns) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.did, " ")
}

func (s *scriptedRuns) Begin(ctx context.Context, turn realtime.Turn) (Run, error) {
	s.mu.Lock()
	wait, refusal, broken, id := s.wait, s.refusal, s.broken, fmt.Sprintf("run_%026d", len(s.begun)+1)
	s.mu.Unlock()
	if broken {
		panic("no run today")
	}
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	s.note("begin:" + turn.Message)
	s.open.Add(1)
	r := &scriptedRun{runs: s, id: id, turn: turn, feed: make(chan []domain.Event, 100)}
	s.begun <- r
	return r, nil
}

func (s *scriptedRuns) Cancel(_ context.Context, runID string) error {
	s.note("cancel")
	s.cancelled <- runID
	return nil
}

func (s *scriptedRuns) SavePlayback(ctx context.Context, _ string, heard domain.Playback) error {
	if s.saving != nil {
		select {
		case err := <-s.saving:
			if err != nil {
				s.note("lost")
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.note("heard:" + heard.Text)
	s.heard <- heard
	return nil
}

type scriptedRun struct {
	runs *scriptedRuns
	id   string
	turn realtime.Turn
	feed chan []domain.Event
	n    int
}

func (r *scriptedRun) ID() string { return r.id }
func (r *scriptedRun) Close()     { r.runs.open.Add(-1) }

func (r *scriptedRun) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case events, ok := <-r.feed:
		if !ok {
			return nil, io.EOF
		}
		return events, nil
	case <-late.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begun returns the next run that the gate has started.
func (r *testEnv) begun() *scriptedRun {
	r.Helper()
	select {
	case run := <-r.runs.begun:
		return run
	case <-time.After(patience):
		r.Fatal("no run was started")
		return nil
	}
}

// addText adds text to the answer of the run.
func (r *scriptedRun) addText(t *testing.T, text string) {
	t.Helper()
	data, err := domain.DeltaData(text)
	if err != nil {
		t.Fatal(err)
	}
	r.n++
	r.feed <- []domain.Event{{ID: domain.EventID{Fence: 1, N: r.n + 1}, Type: domain.EventMessageDelta, Data: data}}
}

// complete finishes the run with its complete answer.
func (r *scriptedRun) complete(t *testing.T, answer string) {
	t.Helper()
	run := domain.Run{ID: r.id, Status: domain.RunCompleted, Message: &answer}
	raw, err := run.Render()
	if err != nil {
		t.Fatal(err)
	}
	r.n++
	r.feed <- []domain.Event{domain.EndedEvent(domain.EventID{Fence: 1, N: r.n + 1}, run.Status, raw)}
	close(r.feed)
}

func (r *testEnv) wantCancelled() string {
	r.Helper()
	select {
	case runID := <-r.runs.cancelled:
		return runID
	case <-time.After(patience):
		r.Fatal("no run is cancelled")
		return ""
	}
}

func (r *testEnv) wantHeardText() domain.Playback {
	r.Helper()
	select {
	case h := <-r.runs.heard:
		return h
	case <-time.After(patience):
		r.Fatal("no heard text was saved")
		return domain.Playback{}
	}
}

func (r *testEnv) refuse(code apierr.Code) {
	r.runs.mu.Lock()
	defer r.runs.mu.Unlock()
	r.runs.refusal = apierr.New(code, "refused")
}

func (r *testEnv) panics() {
	r.runs.mu.Lock()
	defer r.runs.mu.Unlock()
	r.runs.broken = true
}

// metric returns the value of a metric.
func (r *testEnv) metric(name, label string) float64 {
	r.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || label != "" && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() != label) {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

var _ http.ResponseWriter = (*hijacked)(nil)
