package voicegate

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/shared/contract"
	"parley/shared/testkit"
)

// Events that a client sends before a worker is connected are kept. They are processed after a
// worker is connected.
func TestEventsBeforeAWorkerAreKept(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.open = patience })
	c := r.connect()
	go c.read()
	spoken := make([]byte, 2*contract.VoiceRate)
	_, _ = rand.Read(spoken)
	c.ask("hello")
	for at := 0; at < len(spoken); at += 9600 {
		c.append(spoken[at : at+9600])
	}
	select {
	case e := <-c.events:
		t.Errorf("%s arrived before a worker was connected", e.Type)
	case <-r.runs.begun:
		t.Error("a run was started before a worker was connected")
	case <-time.After(300 * time.Millisecond):
	}
	r.work()
	if first := c.next(); first.Type != "session.created" || first.Session.ID != "rt_1" {
		t.Errorf("the first event is %+v", first)
	} else if got := first.Session.Audio.Input.Transcription.Model; got != "offline/pocketsphinx" {
		t.Errorf("the transcription model is %q", got)
	}
	if run := r.begun(); run.turn.Message != "hello" {
		t.Errorf("the input of the run is %q", run.turn.Message)
	}
	c.want("response.created")
	if got := r.voiceSession().wantHeard(len(spoken) / 2); !bytes.Equal(got, spoken) {
		t.Error("the worker received different samples")
	}
}

// Before a worker is connected, the gate does not read from a client. The client can send only as
// much as fits into the socket buffers.
func TestAClientIsNotReadBeforeAWorker(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) {
		may.open, may.ping, may.pong, may.end = 2*time.Second, 50*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
	})
	conn := r.raw()
	sent, message := 0, append([]byte{0x81, 0xfe, 0x40, 0x00, 0, 0, 0, 0}, bytes.Repeat([]byte(" "), 0x4000)...)
	for {
		n, err := conn.Write(message)
		sent += n
		if err != nil {
			break
		}
	}
	if limit := 16 << 20; sent > limit {
		t.Errorf("%d bytes were accepted", sent)
	}
	r.wantReason("no_worker") // no missing pong is reported, because the gate does not read from the client
}

// The event session.created is sent once, when the first worker is connected. It is not sent again
// when another worker takes over.
func TestSessionCreatedIsSentOnce(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	began := time.Now()
	c := r.open()
	took := time.Since(began)
	t.Logf("session.created arrived after %s", took)
	if took > testkit.Within(time.Second) {
		t.Errorf("session.created took %s", took)
	}
	close(r.voiceSession().quit)
	r.voiceSession()
	c.sendf(`{"type":"input_audio_buffer.clear"}`)
	if next := c.next(); next.Type != "input_audio_buffer.cleared" {
		t.Errorf("got %s", next.Type)
	}
	_ = c.socket.Close(websocket.StatusNormalClosure, "")
	r.wantReason("client")
}
