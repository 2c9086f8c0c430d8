package voicegate

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/shared/contract"
	"parley/shared/testkit"
)

func TestTooMuchIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		send   func(c *client)
		code   string
		status websocket.StatusCode
		reason string
	}{
		"a huge message": {func(c *client) {
			_ = c.writef(`{"type":%q}`, strings.Repeat("x", maxMessage))
		}, "message_too_large", websocket.StatusMessageTooBig, "too_large"},
		"a huge message of unknown length": {func(c *client) {
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			out, err := c.socket.Writer(ctx, websocket.MessageText)
			for piece := bytes.Repeat([]byte("x"), 64<<10); err == nil; {
				_, err = out.Write(piece)
			}
		}, "message_too_large", websocket.StatusMessageTooBig, "too_large"},
		"a binary message": {func(c *client) {
			_ = c.socket.Write(c.Context(), websocket.MessageBinary, []byte("{}"))
		}, "binary_message", websocket.StatusUnsupportedData, "binary"},
		"a flood": {func(c *client) {
			for range 10 * eventBurst {
				if c.writef(`{"type":"input_audio_buffer.clear"}`) != nil {
					return
				}
			}
		}, "rate_limit_exceeded", websocket.StatusPolicyViolation, "flood"},
		"invalid JSON": {func(c *client) {
			for range 50 {
				if c.writef(`{"type`) != nil {
					return
				}
			}
		}, "invalid_json", websocket.StatusPolicyViolation, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, Config{}, nil)
			r.work()
			c := r.open()
			go tc.send(c)
			c.wantClose(tc.code, tc.status)
			r.wantReason(tc.reason)
		})
	}
}

// Empty frames are rate-limited like messages. The gate can still close a connection while a client
// sends them.
func TestAFloodOfEmptyFramesIsReadSlowly(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{MaxDuration: 2 * time.Second}, func(may *times) { may.end = 500 * time.Millisecond })
	r.work()
	conn := r.raw()
	sent := 0
	if _, err := conn.Write([]byte{0x01, 0x80, 0, 0, 0, 0}); err != nil { // the frame begins a text message
		t.Fatal(err)
	}
	empty := bytes.Repeat([]byte{0x00, 0x80, 0, 0, 0, 0}, 10_000)
	for {
		n, err := conn.Write(empty)
		sent += n
		if err != nil {
			break
		}
	}
	if limit := byteBurst + 6*byteRate; sent > limit {
		t.Errorf("%d bytes were accepted, want at most %d", sent, limit)
	}
	r.wantReason("expired")
}

// If a client announces a longer message than it sends, the close of its connection is delayed only
// briefly.
func TestAnIncompleteMessageDoesNotDelayTheClose(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.end = 300 * time.Millisecond })
	r.work()
	conn := r.raw()
	_, err := conn.Write(append([]byte{0x81, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 2*maxMessage)...))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.wantReason("too_large")
	if took := time.Since(began); took > testkit.Within(2*time.Second) {
		t.Errorf("the large message was rejected after %s", took)
	}
}

func TestInvalidFramesCloseTheConnection(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string][]byte{
		"unmasked":       {0x81, 0x02, '{', '}'},
		"compressed":     {0xc1, 0x82, 0, 0, 0, 0, '{', '}'},
		"unknown":        {0x83, 0x82, 0, 0, 0, 0, '{', '}'},
		"a long control": {0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0},
		"a continuation": {0x80, 0x82, 0, 0, 0, 0, '{', '}'},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, Config{}, nil)
			r.work()
			conn := r.raw()
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Contains(got, []byte{0x03, 0xea}) { // the bytes of the close code 1002
				t.Errorf("%v, received %q", err, got)
			}
			r.wantReason("protocol")
		})
	}
}

// raw opens a WebSocket connection without the client library.
func (r *testEnv) raw() net.Conn {
	r.Helper()
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", strings.TrimPrefix(r.address, "http://"))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	const upgrade = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := conn.Write([]byte(upgrade)); err != nil {
		r.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.Fatal(err)
	}
	return conn
}

func TestAMessageMayHaveAMebibyte(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	const frame = `{"type":"input_audio_buffer.clear","event_id":"e","x":""}`
	c.sendf(`%s`, strings.Replace(frame, `""`, `"`+strings.Repeat("x", maxMessage-len(frame))+`"`, 1))
	c.want("input_audio_buffer.cleared")
}

// A client that does not read is disconnected when its queue is full. Until then, the gate keeps
// only a limited amount of data for the client.
func TestAFullQueueClosesTheConnection(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.end = 500 * time.Millisecond })
	r.work()
	c := r.connect()
	l := r.voiceSession()
	c.ask("tell me everything")
	run := r.begun()
	text := strings.Repeat("words and words ", 100)
	run.addText(t, text)
	say := l.want(contract.VoiceSay)
	taken := make(chan int, 1)
	go func() {
		seconds := 0
		for l.end.Audio(contract.VoiceAudio{Answer: say.Answer, End: len(text), PCM: make([]byte, 2*contract.VoiceRate)}) == nil {
			seconds++
			<-time.After(time.Millisecond)
		}
		taken <- seconds
	}()
	r.wantReason("slow")
	if seconds := <-taken; seconds > 300 { // the queue holds 16 s, and the socket buffers hold a little more
		t.Errorf("%d s of speech were taken from the worker", seconds)
	}
	if r.wantHeardText(); strings.Contains(r.runs.all(), "cancel") {
		t.Errorf("calls: %s", r.runs.all())
	}
}

// If a client resumes reading before the timeout, it receives the reason for which the connection
// was closed.
func TestASlowClientReceivesTheReason(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.connect()
	l := r.voiceSession()
	c.ask("tell me everything")
	text := strings.Repeat("words and words ", 100)
	r.begun().addText(t, text)
	say := l.want(contract.VoiceSay)
	for l.end.Audio(contract.VoiceAudio{Answer: say.Answer, End: len(text), PCM: make([]byte, 48_000)}) == nil {
		<-time.After(time.Millisecond)
	}
	go c.read()
	c.wantClose("client_too_slow", websocket.StatusPolicyViolation)
	r.wantReason("slow")
}

// While a worker makes no progress, the gate does not read from the client. When the worker
// continues, no audio is missing.
func TestAStalledWorkerStopsReadingFromTheClient(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.ping, may.pong = 50*time.Millisecond, testkit.Within(400*time.Millisecond) })
	r.work()
	c := r.open()
	l := r.voiceSession()
	l.deaf.Store(true)
	second := base64.StdEncoding.EncodeToString(make([]byte, 2*contract.VoiceRate))
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ; n < 60; n++ {
			if c.writef(`{"type":"input_audio_buffer.append","audio":%q}`, second) != nil {
				break
			}
		}
		sent <- n
	}()
	l.wantHeard(maxUnprocessed)
	<-time.After(time.Second)
	l.mu.Lock()
	got := len(l.heard) / 2
	l.mu.Unlock()
	if got > maxUnprocessed+2*contract.VoiceRate {
		t.Errorf("%d samples arrived at a stalled worker", got)
	}
	l.deaf.Store(false)
	l.wantHeard(60 * contract.VoiceRate)
	if n := <-sent; n != 60 {
		t.Errorf("%d messages were sent", n)
	}
	_ = c.socket.Close(websocket.StatusNormalClosure, "")
	r.wantReason("client")
}

// Appends beyond the rate limit are delayed. No audio is lost.
func TestAFloodOfAppendsIsDelayed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	l := r.voiceSession()
	began := time.Now()
	for range appendBurst + appendRate {
		c.sendf(`{"type":"input_audio_buffer.append","audio":"AAA="}`)
	}
	l.wantHeard(appendBurst + appendRate)
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("the audio above the burst took only %s", took)
	}
}

func TestAClientThatDoesNotAnswerPingsIsClosed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) {
		may.ping, may.pong, may.end = 50*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond
	})
	r.work()
	r.connect() // the client does not read, so it does not respond to pings
	r.voiceSession()
	r.wantReason("mute")
}

func TestPingsOfTheClientAreAnswered(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.ping, may.pong = 20*time.Millisecond, 5*time.Second })
	r.work()
	c := r.open()
	for range 10 {
		if err := c.socket.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.sendf(`{"type":"input_audio_buffer.clear"}`)
	c.want("input_audio_buffer.cleared")
}

func TestARevokedCredentialEndsTheConnection(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.permit = 50 * time.Millisecond })
	r.work()
	c := r.open()
	<-time.After(200 * time.Millisecond)
	r.holds.Store(false)
	c.wantClose("credential_revoked", websocket.StatusPolicyViolation)
	r.wantReason("revoked")
}

func TestAConnectionEndsAfterMaxDuration(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{MaxDuration: 2 * time.Second, IdleTimeout: time.Minute}, nil)
	r.work()
	began := time.Now() // taken before the connection is opened, because the limit includes the opening
	c := r.open()
	c.wantClose("session_expired", websocket.StatusNormalClosure)
	r.wantReason("expired")
	if took := time.Since(began); took < 2*time.Second || took > testkit.Within(20*time.Second) {
		t.Errorf("the session lasted %s", took)
	}
}

func TestASilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{MaxDuration: time.Hour, IdleTimeout: 2 * time.Second}, nil)
	r.work()
	c := r.open()
	r.voiceSession()
	began := time.Now()
	for range 6 { // events from the client restart the idle time
		<-time.After(200 * time.Millisecond)
		c.sendf(`{"type":"input_audio_buffer.clear"}`)
	}
	go func() { // audio without speech does not restart the idle time
		for c.writef(`{"type":"input_audio_buffer.append","audio":"AAAA"}`) == nil {
			<-time.After(20 * time.Millisecond)
		}
	}()
	c.wantClose("session_idle", websocket.StatusNormalClosure)
	r.wantReason("idle")
	if took := time.Since(began); took < 3*time.Second || took > testkit.Within(20*time.Second) {
		t.Errorf("the session lasted %s", took)
	}
}

func TestDrainingWaitsForSpokenAnswers(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	idle := r.open()
	r.voiceSession()
	busy := r.open()
	l := r.voiceSession()
	busy.ask("tell me")
	run := r.begun()
	busy.want("response.created")
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r.gate.Drain(ctx)
	}()
	idle.wantClose("service_restarting", websocket.StatusServiceRestart)
	if _, _, err := websocket.Dial(t.Context(), r.address, nil); err == nil { //nolint:bodyclose // an upgrade has no body to close
		t.Error("a connection was opened while the gate drained")
	}
	run.addText(t, "That is it.")
	say := l.want(contract.VoiceSay)
	run.complete(t, "That is it.")
	l.want(contract.VoiceSay)
	l.say(say, 0, len("That is it."), 0, true)
	l.said(say.Answer)
	if got := busy.heardUntilDone(); !bytes.Equal(got, speech(0, len("That is it."))) {
		t.Errorf("%d bytes of speech arrived", len(got))
	}
	busy.wantClose("service_restarting", websocket.StatusServiceRestart)
	select {
	case <-drained:
	case <-time.After(patience):
		t.Error("the gate does not drain")
	}
	r.gate.Drain(t.Context()) // a second call returns immediately
}

func TestDrainingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	c.ask("tell me")
	r.begun()
	c.want("response.created")
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r.gate.Drain(ctx)
	if took := time.Since(began); took < 200*time.Millisecond || took > testkit.Within(2*time.Second) {
		t.Errorf("draining took %s", took)
	}
	c.wantClose("service_restarting", websocket.StatusServiceRestart)
}
