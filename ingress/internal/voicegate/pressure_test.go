package voicegate

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/testkit"
)

// playAnswer plays a complete answer, so that the client can truncate it. It returns the id of the
// answer.
func (c *client) playAnswer(l *workerSession, text string) string {
	c.Helper()
	c.ask("tell me")
	run := c.begun()
	run.complete(c.T, text)
	say := l.want(contract.VoiceSay)
	l.say(say, 0, len(text), 0, true)
	l.said(say.Answer)
	return say.Answer
}

// The gate stops reading from a client that has too many unfinished jobs, such as corrections of
// the played part. It resumes reading when some jobs have finished.
func TestUnfinishedJobsStopReadingFromTheClient(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.runs.saving = make(chan error)
	r.work()
	c := r.open()
	answer := c.playAnswer(r.voiceSession(), "one two three four")
	c.want("response.done")
	const corrections = maxJobs + 30
	for range corrections {
		c.sendf(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":100}`, answer)
	}
	for range maxJobs {
		c.want("conversation.item.truncated")
	}
	select {
	case e := <-c.events:
		t.Errorf("%s arrived after %d unfinished corrections", e.Type, maxJobs)
	case <-time.After(300 * time.Millisecond):
	}
	go func() {
		for range corrections {
			r.runs.saving <- nil
		}
	}()
	for range corrections - maxJobs {
		c.want("conversation.item.truncated")
	}
	for range corrections {
		r.wantHeardText()
	}
}

// The amount of audio that a worker has received and not yet reported as processed is limited,
// however small the pieces are. The rest is sent as the worker makes progress.
func TestAudioAheadOfAWorkerIsLimited(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pieces, samples int // number of pieces that the client sends, and number of samples in each
		limit           int // number of samples that are sent while the worker reports no progress
	}{
		"minutes":          {60, contract.VoiceRate, aheadSamples},
		"the least pieces": {1500, 100, aheadFrames * 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, Config{}, nil)
			first := r.work()
			c := r.open()
			r.voiceSession()
			c.sendf(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":null}}}}`)
			c.want("session.updated")
			if tc.samples == contract.VoiceRate {
				c.appendAll(tc.pieces, tc.samples)
				first.kill()
			} else { // without a worker, the gate stores the pieces as they arrive
				first.kill()
				for r.metric("parley_voice_lines_lost_total", "") == 0 {
					<-time.After(5 * time.Millisecond)
				}
				c.appendAll(tc.pieces, tc.samples)
			}
			r.deaf.Store(true)
			r.work()
			l := r.voiceSession()
			l.wantHeard(tc.limit)
			<-time.After(300 * time.Millisecond)
			l.mu.Lock()
			got := len(l.heard) / 2
			l.mu.Unlock()
			if got > tc.limit+contract.MaxVoiceFrame {
				t.Errorf("%d samples arrived at a stalled worker, want %d", got, tc.limit)
			}
			l.deaf.Store(false)
			l.wantHeard(tc.pieces * tc.samples)
		})
	}
}

// appendAll sends audio, and waits until the gate has processed it.
func (c *client) appendAll(pieces, samples int) {
	c.Helper()
	piece := base64.StdEncoding.EncodeToString(make([]byte, 2*samples))
	for range pieces {
		c.sendf(`{"type":"input_audio_buffer.append","audio":%q}`, piece)
	}
	c.sendf(`{"type":"conversation.item.retrieve","item_id":"none"}`)
	if e := c.want("error"); e.Error.Code != "item_not_found" {
		c.Errorf("%+v", e.Error)
	}
}

// Each ping requires a pong. Pings beyond the rate limit do not get one.
func TestPongsAreRateLimited(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	conn := r.raw()
	began := time.Now()
	const pings = 5 * pingBurst
	frames := strings.Repeat("\x89\x80\x00\x00\x00\x00", pings) + "\x81\xa3\x00\x00\x00\x00" + `{"type":"input_audio_buffer.clear"}`
	if _, err := io.WriteString(conn, frames); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for line := "-"; line != "\r\n"; { // skips the header of the response to the upgrade
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	pongs := 0
	for {
		kind, body := serverFrame(t, in)
		if kind == 0x8a {
			pongs++
		}
		if strings.Contains(body, `"input_audio_buffer.cleared"`) {
			break
		}
	}
	if limit := pingBurst + int(pingRate*time.Since(began).Seconds()) + 1; pongs < pingBurst || pongs > limit {
		t.Errorf("%d pings of %d were answered, want %d to %d", pongs, pings, pingBurst, limit)
	}
}

// serverFrame reads a frame from the server, which is not masked.
func serverFrame(t *testing.T, in *bufio.Reader) (kind byte, body string) {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		t.Fatal(err)
	}
	size := int(head[1])
	if size == 126 {
		var long [2]byte
		if _, err := io.ReadFull(in, long[:]); err != nil {
			t.Fatal(err)
		}
		size = int(long[0])<<8 | int(long[1])
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(in, raw); err != nil {
		t.Fatal(err)
	}
	return head[0], string(raw)
}

// A client that reads nothing for too long is disconnected, even if its queue is not full.
func TestAClientThatStallsForTooLongIsClosed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.write = 500 * time.Millisecond })
	r.work()
	c := r.connect()
	l := r.voiceSession()
	c.ask("tell me")
	story := strings.Repeat("once upon a time ", 35) // 14 s of speech, of which the socket buffers hold a part and the queue the rest
	r.begun().addText(t, story)
	began := time.Now()
	l.say(l.want(contract.VoiceSay), 0, len(story), 0, false)
	r.wantReason("slow")
	if took := time.Since(began); took > testkit.Within(3*time.Second) {
		t.Errorf("the slow connection was closed after %s", took)
	}
	r.wantHeardText()
}

// A client that disconnects after response.done has received the whole answer and may still play
// it. The answer is therefore not truncated.
func TestHangingUpAfterResponseDoneKeepsTheWholeAnswer(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	text := strings.Repeat("and so on ", 15) // 3 s of speech
	c.playAnswer(r.voiceSession(), text)
	c.want("response.done")
	_ = c.socket.CloseNow()
	r.wantReason("gone")
	if did := r.runs.all(); strings.Contains(did, "cancel") || strings.Contains(did, "heard") {
		t.Errorf("calls: %s", did)
	}
}

// Saving how much was played is retried while the database is unavailable. It is not retried if the
// database rejects the value.
func TestSavingHeardTextIsRetried(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		comes []error
		lost  int // number of attempts to save that fail
		kept  bool
	}{
		"away for a moment": {[]error{errors.New("no connection"), apierr.New(apierr.Unavailable, "away"), nil}, 2, true},
		"refused":           {[]error{apierr.New(apierr.NotFound, "erased")}, 1, false},
		"away for longer":   {[]error{io.EOF, io.EOF, io.EOF, io.EOF}, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, Config{}, nil)
			r.runs.saving = make(chan error, 10)
			for _, err := range tc.comes {
				r.runs.saving <- err
			}
			r.work()
			c := r.open()
			answer := c.playAnswer(r.voiceSession(), "one two three four")
			c.want("response.done")
			c.sendf(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":100}`, answer)
			c.want("conversation.item.truncated")
			_ = c.socket.Close(websocket.StatusNormalClosure, "") // before the connection ends, its unfinished jobs are finished
			r.wantReason("client")
			did := r.runs.all()
			if strings.Count(did, "lost") != tc.lost || strings.Contains(did, "heard:one") != tc.kept || len(r.runs.saving) > 0 {
				t.Errorf("calls: %s", did)
			}
		})
	}
}
