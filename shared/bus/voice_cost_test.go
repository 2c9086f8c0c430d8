package bus_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/testkit"
)

//nolint:paralleltest // it counts the goroutines and bytes of the whole process
func TestLinesReleaseTheirResources(t *testing.T) {
	server := testkit.NATS(t)
	served := make(chan struct{}, 8)
	serveVoice(t, server, 4, func(ctx context.Context, name string, session *bus.WorkerVoiceSession) {
		for frame := range session.Frames() {
			if frame.Audio != nil {
				_ = session.Audio(contract.VoiceAudio{At: frame.Audio.At, Answer: name, PCM: frame.Audio.PCM})
			}
		}
		<-ctx.Done()
		served <- struct{}{}
	})
	c := voiceCaller(t, server)
	use := func(times int) {
		for n := range times {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			session, err := c.Open(ctx, "yes", fmt.Append(nil, n))
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if err := session.Audio(0, make([]byte, 960)); err != nil {
				t.Fatal(err)
			}
			next(t, session.Frames())
			session.Close()
			receive(t, served)
		}
	}
	use(100)
	goroutines, bytes := settledMemory(t, 0)
	use(1000)
	afterwards, more := settledMemory(t, goroutines)
	if afterwards > goroutines || more > bytes+2<<20 { // a session that is not released would take at least 16 KiB
		t.Errorf("%d goroutines and %d KiB became %d and %d KiB", goroutines, bytes>>10, afterwards, more>>10)
	}
}

// settledMemory waits until the number of goroutines has decreased to want or no longer decreases,
// and returns the numbers of goroutines and of heap bytes.
func settledMemory(t *testing.T, want int) (goroutines int, bytes uint64) {
	t.Helper()
	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	goroutines = runtime.NumGoroutine()
	for range 100 {
		if goroutines = min(goroutines, runtime.NumGoroutine()); goroutines <= want {
			break
		}
		receive(t, check.C)
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return goroutines, stats.HeapAlloc
}

// BenchmarkVoiceFrames sends a frame of 20 ms every 20 ms in both directions of 100 sessions,
// and reports the time per frame and direction.
func BenchmarkVoiceFrames(b *testing.B) {
	url := testkit.NATS(b)
	const sessions, pace = 100, 20 * time.Millisecond
	var all latencies
	var running sync.WaitGroup
	worker, ingress := benchmarkBus(b, url), benchmarkBus(b, url)
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	stop, err := worker.ServeVoice(bus.VoiceOptions{
		Slots: sessions,
		Admit: func(_ string, body []byte) (string, bool) { return string(body), true },
		Serve: func(_ context.Context, _ []byte, session *bus.WorkerVoiceSession) {
			for frame := range session.Frames() {
				if frame.Audio != nil {
					all.add(frame.Audio.PCM)
					_ = session.Audio(contract.VoiceAudio{Answer: "answer_0123456789", PCM: stamped()})
				}
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer stop(ctx)
	c, err := ingress.NewVoiceCaller()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for n := range sessions {
		session, err := c.Open(ctx, "yes", fmt.Append(nil, n))
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() { exchangeFrames(b, session, pace, &all) })
	}
	running.Wait()
	all.report(b)
}

func benchmarkBus(b *testing.B, url string) *bus.Bus {
	b.Helper()
	made, err := bus.Dial(url, "benchmark", zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(made.Close)
	return made
}

// exchangeFrames sends b.N frames at intervals of pace and receives the replies.
func exchangeFrames(b *testing.B, session *bus.VoiceSession, pace time.Duration, all *latencies) {
	b.Helper()
	defer session.Close()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for range b.N {
			frame, ok := <-session.Frames()
			if !ok || frame.Audio == nil {
				b.Error("the line is lost")
				return
			}
			all.add(frame.Audio.PCM)
		}
	}()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := range b.N {
		<-tick.C
		if err := session.Audio(int64(n)*480, stamped()); err != nil {
			b.Error(err)
			return
		}
	}
	<-heard
}

// latencies collects the latencies of frames. Each frame contains the time at which it was sent.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func stamped() []byte {
	pcm := make([]byte, 960)
	binary.LittleEndian.PutUint64(pcm, uint64(time.Now().UnixNano()))
	return pcm
}

func (l *latencies) add(pcm []byte) {
	took := time.Since(time.Unix(0, int64(binary.LittleEndian.Uint64(pcm))))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
}

func (l *latencies) report(b *testing.B) {
	b.Helper()
	slices.Sort(l.all)
	for name, part := range map[string]float64{"p50-µs": 0.5, "p99-µs": 0.99, "max-µs": 1} {
		b.ReportMetric(float64(l.all[int(part*float64(len(l.all)-1))].Microseconds()), name)
	}
}
