package bus_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

// silent serves a session until it ends, and never sends anything.
func silent(ctx context.Context, _ string, _ *bus.WorkerVoiceSession) { <-ctx.Done() }

func TestASilentVoiceWorkerIsLost(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ended := make(chan struct{}, 1)
	serveVoice(t, server, 1, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		silent(ctx, name, session)
		ended <- struct{}{}
	})
	began := time.Now()
	session := open(t, voiceCaller(t, server), "a")
	lost(t, session.Frames())
	if took := time.Since(began); took < 1300*time.Millisecond || took > testkit.Within(2*time.Second) {
		t.Errorf("lost after %s", took)
	}
	receive(t, ended) // the worker's session ends, too
}

func TestAnIngressKeepsItsLineAliveWhileItRuns(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ends := make(chan string, 2)
	serveVoice(t, server, 2, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		keepAlive(ctx, session)
		ends <- name
	})
	session := open(t, voiceCaller(t, server), "there")
	for range 2 { // wait for two frames, so that this session is about a second older than the next one
		next(t, session.Frames())
	}
	frames := make(chan struct{})
	go func() {
		for range session.Frames() { // the client only reads
		}
		close(frames)
	}()
	gone := raw(t, server)
	inbox, began := nats.NewInbox(), time.Now()
	if _, err := gone.Subscribe(inbox+".x", func(*nats.Msg) {}); err != nil { // a client that opens a session and then sends nothing
		t.Fatal(err)
	}
	if err := gone.PublishRequest(contract.SubjectVoiceOpen, inbox+".x", []byte("gone")); err != nil {
		t.Fatal(err)
	}
	if name := receive(t, ends); name != "gone" {
		t.Fatalf("the line %s ended", name)
	}
	if took := time.Since(began); took < 9*time.Second || took > testkit.Within(12*time.Second) {
		t.Errorf("given up after %s", took)
	}
	select {
	case <-frames:
		t.Error("the line of an ingress that is there ended")
	default:
	}
}

func TestAWorkerThatDiesIsLostWithTheNextFrame(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	worker := dial(t, server)
	serveVoiceOn(t, worker, 1, echoes)
	session := open(t, voiceCaller(t, server), "a")
	if err := session.Send(contract.VoiceCommand{Type: contract.VoiceStop}); err != nil {
		t.Fatal(err)
	}
	nextReport(t, session)
	worker.Close() // the connection breaks, as if the process were killed
	began := time.Now()
	for n := int64(0); session.Audio(n, []byte{1, 2}) == nil; n++ {
		receive(t, time.After(20*time.Millisecond)) // wait between two frames, at the pace of real audio
	}
	if took := time.Since(began); took > testkit.Within(500*time.Millisecond) {
		t.Errorf("lost after %s", took)
	}
	lost(t, session.Frames())
}

func TestAnIngressThatDiesFreesTheSlot(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ended := make(chan struct{}, 1)
	serveVoice(t, server, 1, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		echoes(ctx, name, session)
		ended <- struct{}{}
	})
	ingress := dial(t, server)
	c, err := ingress.NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	open(t, c, "a")
	ingress.Close()
	receive(t, ended) // the worker notices the loss of the ingress when it sends its next ping
}

func TestACutLosesTheLinesAndTheyAreOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"ingress", "worker"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			server := testkit.NATS(t)
			proxy, behind := through(t, server)
			ends := make(chan struct{}, 4)
			at := map[string]string{"ingress": server, "worker": server}
			at[side] = behind
			serveVoice(t, at["worker"], 1, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
				echoes(ctx, name, session)
				ends <- struct{}{}
			})
			c := voiceCaller(t, at["ingress"])
			for range 3 {
				session := open(t, c, "a")
				if err := session.Audio(1, []byte{1, 2}); err != nil {
					t.Fatal(err)
				}
				nextReport(t, session)
				began := time.Now()
				proxy.Reset() // the client reconnects shortly afterwards
				lost(t, session.Frames())
				if took := time.Since(began); took > testkit.Within(1800*time.Millisecond) {
					t.Errorf("lost after %s", took)
				}
				again := open(t, c, "a")
				receive(t, ends)
				if err := again.Audio(2, []byte{1, 2}); err != nil {
					t.Fatal(err)
				}
				if got := nextReport(t, again).Audio; got == nil || got.At != 2 {
					t.Errorf("%+v", got)
				}
				again.Close()
				receive(t, ends)
			}
		})
	}
}

func TestAnIngressThatHearsNothingLosesItsLines(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	serveVoice(t, server, 1, echoes)
	proxy, behind := through(t, server)
	session := open(t, voiceCaller(t, behind), "a")
	proxy.CutReplies() // the connection stays open and is silent
	began := time.Now()
	lost(t, session.Frames())
	if took := time.Since(began); took > testkit.Within(2*time.Second) {
		t.Errorf("lost after %s", took)
	}
}

func TestLinesAreOpenedAgainWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, t.TempDir())
	serveVoice(t, server.URL, 1, echoes)
	c := voiceCaller(t, server.URL)
	session := open(t, c, "a")
	server.Kill9()
	lost(t, session.Frames())
	if err := session.Audio(0, []byte{1, 2}); err == nil {
		t.Error("audio was sent to nowhere")
	}
	again := make(chan *bus.VoiceSession, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		session, err := c.Open(ctx, "yes", []byte("a"))
		if err != nil {
			t.Error(err)
		}
		again <- session
	}()
	server.Restart()
	if session := <-again; session != nil {
		session.Close()
	}
}

// TestAWorkerThatTakesAnOldOfferIsNotified checks that a worker that accepts an expired offer is
// notified that the session has ended.
func TestAWorkerThatTakesAnOldOfferIsNotified(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc := raw(t, server)
	own := nats.NewInbox()
	offers, ended := make(chan string, 64), make(chan *nats.Msg, 1)
	sub, err := nc.QueueSubscribe(contract.SubjectVoiceOpen, contract.VoiceGroup, func(m *nats.Msg) { offers <- m.Reply })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(own, func(m *nats.Msg) { ended <- m }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := voiceCaller(t, server)
	opened := make(chan *bus.VoiceSession, 1)
	go func() { opened <- open(t, c, "a") }()
	frozen := receive(t, offers)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	serveVoice(t, server, 1, echoes)
	session := receive(t, opened) // the session is opened with another worker
	accept(t, nc, frozen, own)
	if got := receive(t, ended); got.Header.Get(contract.HeaderStage) != string(contract.StageEnded) || got.Reply != "" {
		t.Errorf("reported %+v", got)
	}
	if err := session.Send(contract.VoiceCommand{Type: contract.VoiceStop}); err != nil {
		t.Error(err)
	}
	nextReport(t, session)
}

// accept accepts an opened session on behalf of a worker. The worker receives frames on the subject
// own.
func accept(t *testing.T, nc *nats.Conn, to, own string) {
	t.Helper()
	msg := &nats.Msg{Subject: to, Reply: own, Header: nats.Header{contract.HeaderStage: {string(contract.StageAccepted)}}}
	if err := nc.PublishMsg(msg); err != nil {
		t.Fatal(err)
	}
}

func TestALineWithAGapIsLost(t *testing.T) {
	t.Parallel()
	alive, err := contract.AppendVoiceControl(nil, contract.VoiceReport{Type: contract.VoiceAlive})
	if err != nil {
		t.Fatal(err)
	}
	frame := func(number uint32, body string) string {
		return string(binary.BigEndian.AppendUint32(nil, number)) + body
	}
	good := func(number uint32) string { return frame(number, string(alive)) }
	for name, c := range map[string]struct {
		frames []string
		before int
	}{
		"one is missing":   {[]string{good(0), good(2)}, 1},
		"the first":        {[]string{good(1)}, 0},
		"one comes twice":  {[]string{good(0), frame(1, ""), good(2), good(2)}, 2},
		"a ping counts":    {[]string{good(0), frame(2, "")}, 1},
		"no number":        {[]string{good(0), good(1), "abc"}, 2},
		"nothing":          {[]string{good(0), ""}, 1},
		"no frame":         {[]string{good(0), frame(1, "x")}, 1},
		"broken JSON":      {[]string{good(0), frame(1, "c{")}, 1},
		"too little audio": {[]string{frame(0, "a12345678")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.NATS(t)
			nc := raw(t, server)
			own := nats.NewInbox()
			ended := make(chan *nats.Msg, 64)
			if _, err := nc.Subscribe(own, func(m *nats.Msg) { ended <- m }); err != nil {
				t.Fatal(err)
			}
			if _, err := nc.QueueSubscribe(contract.SubjectVoiceOpen, contract.VoiceGroup, func(m *nats.Msg) {
				accept(t, nc, m.Reply, own)
				for _, frame := range c.frames {
					_ = nc.PublishRequest(m.Reply, own, []byte(frame))
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			session := open(t, voiceCaller(t, server), "a")
			if before := lost(t, session.Frames()); before != c.before {
				t.Errorf("%d frames came before the end", before)
			}
			for stage := ""; stage != string(contract.StageEnded); { // loop until the worker receives the end of the session
				stage = receive(t, ended).Header.Get(contract.HeaderStage)
			}
		})
	}
}

func TestALineIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ends := make(chan error, 64)
	serveVoice(t, server, 8, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 100 {
					_ = session.Audio(contract.VoiceAudio{Answer: name, PCM: []byte{1, 2}})
					_ = session.Report(contract.VoiceReport{Type: contract.VoiceTranscript})
				}
			})
			all.Go(func() { keepAlive(ctx, session) })
			all.Go(func() {
				for range session.Frames() {
				}
			})
		}
		all.Wait()
		ends <- ctx.Err()
	})
	c := voiceCaller(t, server)
	var all sync.WaitGroup
	for n := range 8 {
		session := open(t, c, fmt.Sprint(n))
		for range 3 {
			all.Go(func() {
				for i := range int64(100) {
					_ = session.Audio(i, []byte{1, 2})
					_ = session.Send(contract.VoiceCommand{Type: contract.VoiceStop})
				}
			})
		}
		all.Go(func() {
			for range 600 {
				nextReport(t, session)
			}
			for range 3 {
				all.Go(session.Close)
			}
			lost(t, session.Frames())
		})
	}
	all.Wait()
	for range 8 {
		if err := receive(t, ends); !errors.Is(err, context.Canceled) {
			t.Errorf("a line ended with %v", err)
		}
	}
	for n := range 8 { // all slots are free again
		open(t, c, fmt.Sprint("again", n))
	}
}
