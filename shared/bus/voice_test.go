package bus_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

type (
	toWorker  = contract.VoiceFrame[contract.VoiceCommand]
	toIngress = contract.VoiceFrame[contract.VoiceReport]
)

func voiceCaller(t *testing.T, url string) *bus.VoiceCaller {
	t.Helper()
	c, err := dial(t, url).NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serveVoice starts a voice worker. The worker stops at the end of the test, unless the test calls
// stop before. The body of a request to open a session is the session's name. The capability "no"
// is rejected.
func serveVoice(t *testing.T, url string, pool int, serve func(context.Context, string, *bus.WorkerVoiceSession)) (stop func(context.Context)) {
	t.Helper()
	return serveVoiceOn(t, dial(t, url), pool, serve)
}

func serveVoiceOn(t *testing.T, b *bus.Bus, pool int, serve func(context.Context, string, *bus.WorkerVoiceSession)) (stop func(context.Context)) {
	t.Helper()
	stop, err := b.ServeVoice(bus.VoiceOptions{
		Slots: pool,
		Admit: func(capability string, body []byte) (string, bool) { return string(body), capability != "no" },
		Serve: func(ctx context.Context, body []byte, session *bus.WorkerVoiceSession) {
			serve(ctx, string(body), session)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		stop(ended)
	})
	return stop
}

// open opens a session. It fails the test if no worker accepts the session.
func open(t *testing.T, c *bus.VoiceCaller, name string) *bus.VoiceSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session, err := c.Open(ctx, "yes", []byte(name))
	if err != nil {
		t.Fatalf("opening %s: %v", name, err)
	}
	t.Cleanup(session.Close)
	return session
}

// next returns the next frame, or fails the test if there is none.
func next[T contract.VoiceCommand | contract.VoiceReport](t *testing.T, frames <-chan contract.VoiceFrame[T]) contract.VoiceFrame[T] {
	t.Helper()
	select {
	case frame, ok := <-frames:
		if !ok {
			t.Fatal("the line has ended")
		}
		return frame
	case <-time.After(20 * time.Second):
		t.Fatal("no frame came")
	}
	panic("not reached")
}

// lost waits until a session ends, and returns the number of frames that arrived before the end.
func lost[T contract.VoiceCommand | contract.VoiceReport](t *testing.T, frames <-chan contract.VoiceFrame[T]) (before int) {
	t.Helper()
	for late := time.After(20 * time.Second); ; before++ {
		select {
		case _, ok := <-frames:
			if !ok {
				return before
			}
		case <-late:
			t.Fatal("the line does not end")
		}
	}
}

// receive returns the next value of a channel, or fails the test if there is none.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	panic("not reached")
}

// keepAlive sends frames until the session ends, so that the session is never silent.
func keepAlive(ctx context.Context, session *bus.WorkerVoiceSession) {
	beat := time.NewTicker(500 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			_ = session.Report(contract.VoiceReport{Type: contract.VoiceAlive})
		}
	}
}

// echoes responds to each command with a report and to each piece of audio with an answer's audio;
// otherwise it only pings.
func echoes(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
	go keepAlive(ctx, session)
	for frame := range session.Frames() {
		if frame.Audio != nil {
			_ = session.Audio(contract.VoiceAudio{At: frame.Audio.At, Answer: name, Start: 1, End: 2, PCM: frame.Audio.PCM})
			continue
		}
		_ = session.Report(contract.VoiceReport{Type: frame.Control.Type, Item: name, Text: frame.Control.Text})
	}
}

// nextReport returns the next report that is not "alive".
func nextReport(t *testing.T, session *bus.VoiceSession) toIngress {
	t.Helper()
	for {
		if frame := next(t, session.Frames()); frame.Control == nil || frame.Control.Type != contract.VoiceAlive {
			return frame
		}
	}
}

func TestALineBringsFramesInOrderBothWays(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serveVoice(t, url, 4, echoes)
	c := voiceCaller(t, url)
	var lines sync.WaitGroup
	for n := range 4 {
		session := open(t, c, fmt.Sprint("line", n))
		lines.Go(func() {
			for i := range int64(400) {
				if err := session.Audio(i, []byte{byte(i), byte(i >> 8)}); err != nil {
					t.Error(err)
				}
				if err := session.Send(contract.VoiceCommand{Type: contract.VoiceSay, Text: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
		lines.Go(func() {
			for i := range int64(400) {
				audio, report := nextReport(t, session).Audio, nextReport(t, session).Control
				if audio == nil || audio.At != i || binary.LittleEndian.Uint16(audio.PCM) != uint16(i) || audio.Answer != fmt.Sprint("line", n) ||
					audio.Start != 1 || audio.End != 2 {
					t.Errorf("line %d, frame %d: %+v", n, i, audio)
				}
				if report == nil || report.Text != fmt.Sprint(i) || report.Item != fmt.Sprint("line", n) {
					t.Errorf("line %d, report %d: %+v", n, i, report)
				}
			}
		})
	}
	lines.Wait()
}

func TestAudioIsCutIntoFrames(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serveVoice(t, url, 1, echoes)
	session := open(t, voiceCaller(t, url), "a")
	if err := session.Audio(7, make([]byte, 2*(2*contract.MaxVoiceFrame+5))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ at, samples int64 }{
		{7, contract.MaxVoiceFrame}, {7 + contract.MaxVoiceFrame, contract.MaxVoiceFrame}, {7 + 2*contract.MaxVoiceFrame, 5},
	} {
		if got := nextReport(t, session).Audio; got == nil || got.At != want.at || int64(len(got.PCM)) != 2*want.samples {
			t.Fatalf("not %v: %+v", want, got)
		}
	}
	// A frame that cannot be sent does not end the session.
	for _, err := range []error{
		session.Audio(0, []byte{1}), session.Audio(-1, []byte{1, 2}),
		session.Send(contract.VoiceCommand{Type: contract.VoiceSay, Text: strings.Repeat("x", 2<<20)}),
	} {
		if err == nil {
			t.Error("an unreadable message was sent")
		}
	}
	if err := session.Audio(0, nil); err != nil {
		t.Error(err)
	}
	if err := session.Send(contract.VoiceCommand{Type: contract.VoiceStop}); err != nil {
		t.Fatal(err)
	}
	if got := nextReport(t, session).Control; got == nil || got.Type != contract.VoiceStop {
		t.Errorf("then came %+v", got)
	}
}

func TestAClosedLineReleasesItsSlot(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	last := make(chan toWorker, 1)
	serveVoice(t, url, 1, func(ctx context.Context, _ string, session *bus.WorkerVoiceSession) {
		var seen toWorker
		for frame := range session.Frames() {
			seen = frame
		}
		<-ctx.Done()
		if err := session.Report(contract.VoiceReport{Type: contract.VoiceAlive}); err == nil {
			t.Error("a closed line took a report")
		}
		last <- seen
	})
	c := voiceCaller(t, url)
	for n := range 20 {
		session := open(t, c, fmt.Sprint(n))
		session.Close()
		session.Close()
		if err := session.Send(contract.VoiceCommand{Type: contract.VoiceStop}); err == nil {
			t.Error("a closed line took a command")
		}
		if before := lost(t, session.Frames()); before != 0 {
			t.Errorf("%d frames on a silent line", before)
		}
		if got := receive(t, last); got.Control == nil || got.Control.Type != contract.VoiceClose {
			t.Errorf("the last message of the line is %+v", got.Control)
		}
	}
}

func TestALineThatTheWorkerEndsIsClosedAfterItsFrames(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serveVoice(t, url, 1, func(_ context.Context, _ string, session *bus.WorkerVoiceSession) {
		for range 10 {
			_ = session.Report(contract.VoiceReport{Type: contract.VoiceAlive})
		}
	})
	session := open(t, voiceCaller(t, url), "a")
	began := time.Now()
	if before := lost(t, session.Frames()); before != 10 || time.Since(began) > testkit.Within(time.Second) {
		t.Errorf("ended after %d frames and %s", before, time.Since(began))
	}
}

func TestOpeningWithoutAFreeSlot(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	c := voiceCaller(t, url)
	try := func(capability string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		session, err := c.Open(ctx, capability, []byte("b"))
		if err == nil {
			session.Close()
		}
		return err
	}
	if err := try("yes", 300*time.Millisecond); !errors.Is(err, bus.ErrNoVoiceWorker) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no subscriber: %v", err)
	}
	came := make(chan error, 1)
	go func() { came <- try("yes", 20*time.Second) }()
	serveVoice(t, url, 1, echoes)
	if err := receive(t, came); err != nil {
		t.Errorf("a worker came: %v", err)
	}
	first := open(t, c, "a")
	if err := try("yes", 300*time.Millisecond); !errors.Is(err, bus.ErrNoVoiceWorker) {
		t.Errorf("no free slot: %v", err)
	}
	if err := try("no", 20*time.Second); !errors.Is(err, bus.ErrVoiceRefused) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("refused: %v", err)
	}
	go func() { came <- try("yes", 20*time.Second) }()
	first.Close()
	if err := receive(t, came); err != nil {
		t.Errorf("a place came free: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Open(cancelled, "yes", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c.Close()
	if err := try("yes", 20*time.Second); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed: %v", err)
	}
}

func TestLinesAreSharedAmongWorkers(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	for range 3 {
		serveVoice(t, url, 3, echoes)
	}
	c := voiceCaller(t, url)
	for n := range 9 { // as many sessions as all workers together have slots
		open(t, c, fmt.Sprint(n))
	}
}

func TestALaggingReaderLosesItsLineAlone(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	ended := make(chan struct{}, 2)
	serveVoice(t, url, 8, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		if name == "good" {
			echoes(ctx, name, session)
			return
		}
		frames, size := 3000, 2 // three times as many frames as are kept for a reader
		if name == "bytes" {
			frames, size = 250, 2*contract.MaxVoiceFrame
		}
		for range frames {
			_ = session.Audio(contract.VoiceAudio{PCM: make([]byte, size)})
		}
		<-ctx.Done()
		ended <- struct{}{}
	})
	c := voiceCaller(t, url)
	good := open(t, c, "good")
	for name, bounds := range map[string][2]int{"frames": {1000, 1000}, "bytes": {80, 88}} {
		session := open(t, c, name)
		for n := range 3 { // the other session continues meanwhile
			if err := good.Audio(int64(n), []byte{1, 2}); err != nil {
				t.Fatal(err)
			}
			if got := nextReport(t, good).Audio; got == nil || got.At != int64(n) {
				t.Fatalf("%+v", got)
			}
		}
		receive(t, ended) // the session ends although its frames are not read
		if before := lost(t, session.Frames()); before < bounds[0] || before > bounds[1] {
			t.Errorf("%s: %d were kept for the reader", name, before)
		}
	}
}

func TestAWorkerThatLagsLosesItsLine(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	ended := make(chan int, 1)
	serveVoice(t, url, 1, func(ctx context.Context, _ string, session *bus.WorkerVoiceSession) {
		go keepAlive(ctx, session)
		<-ctx.Done()
		ended <- len(session.Frames())
	})
	session := open(t, voiceCaller(t, url), "a")
	for n := int64(0); session.Audio(n, []byte{1, 2}) == nil; n++ { // sends until the worker reports that the session has ended
		if n > 10_000_000 {
			t.Fatal("the line does not end")
		}
	}
	if before := receive(t, ended); before != 1000 {
		t.Errorf("%d frames were kept for the worker", before)
	}
	lost(t, session.Frames())
}

func TestAReopenedLineReplacesTheFirst(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	ends := make(chan struct{}, 8)
	serveVoice(t, url, 1, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		echoes(ctx, name, session)
		<-ctx.Done()
		ends <- struct{}{}
	})
	one, other := voiceCaller(t, url), voiceCaller(t, url)
	first := open(t, one, "a")
	second := open(t, one, "a")
	receive(t, ends)
	lost(t, first.Frames())
	first.Close() // does not affect the second session
	third := open(t, other, "a")
	receive(t, ends)
	lost(t, second.Frames())
	if err := third.Send(contract.VoiceCommand{Type: contract.VoiceSay, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := nextReport(t, third).Control; got == nil || got.Text != "x" {
		t.Errorf("%+v", got)
	}
	third.Close()
	receive(t, ends)
	open(t, one, "b") // the worker's only slot was released once
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := one.Open(ctx, "yes", []byte("c")); !errors.Is(err, bus.ErrNoVoiceWorker) {
		t.Errorf("a second place: %v", err)
	}
}

func TestAReplacedLineThatEndsLateAffectsNothing(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	ends, release := make(chan struct{}, 4), make(chan struct{})
	serveVoice(t, url, 2, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		echoes(ctx, name, session)
		ends <- struct{}{}
		<-release
	})
	c := voiceCaller(t, url)
	open(t, c, "a")
	second := open(t, c, "a") // the second session begins while the worker still serves the first session of this name
	receive(t, ends)
	release <- struct{}{}
	open(t, c, "a") // replaces the first session; the worker still has the latest session with this name
	lost(t, second.Frames())
	receive(t, ends)
	close(release)
}

func TestAStoppingVoiceWorkerLetsItsLinesGo(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	serving := func(ended chan<- string) func(context.Context, string, *bus.WorkerVoiceSession) {
		return func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
			echoes(ctx, name, session)
			ended <- name
		}
	}
	old, young := make(chan string, 4), make(chan string, 4)
	stop := serveVoice(t, url, 2, serving(old))
	c := voiceCaller(t, url)
	left, kept := open(t, c, "left"), open(t, c, "kept")
	stopYoung := serveVoice(t, url, 8, serving(young))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { stop(ctx); close(stopped) }()
	for _, session := range []*bus.VoiceSession{left, kept} {
		if got := nextReport(t, session).Control; got == nil || got.Type != contract.VoiceLeaving {
			t.Errorf("reported %+v", got)
		}
	}
	again := open(t, c, "left") // the session is opened with another worker
	left.Close()
	if name := receive(t, old); name != "left" {
		t.Errorf("%s ended", name)
	}
	if err := kept.Send(contract.VoiceCommand{Type: contract.VoiceSay, Text: "still here"}); err != nil {
		t.Error(err)
	}
	if got := nextReport(t, kept).Control; got == nil || got.Text != "still here" {
		t.Errorf("%+v", got)
	}
	select {
	case <-stopped:
		t.Error("stopped with an open line")
	default:
	}
	cancel()
	receive(t, stopped)
	if name := receive(t, old); name != "kept" {
		t.Errorf("%s ended", name)
	}
	lost(t, kept.Frames())
	again.Close()
	if name := receive(t, young); name != "left" {
		t.Errorf("%s ended", name)
	}
	stopYoung(t.Context()) // returns immediately: no session is open
	if m, err := raw(t, url).Request(contract.SubjectVoiceOpen, nil, 20*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("who has stopped answers still: %+v, %v", m, err)
	}
}

// raw returns a connection for messages that neither workers nor ingresses of Parley send.
func raw(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc := testkit.NATSConn(t, url)
	return nc
}
