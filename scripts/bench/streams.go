package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/shared/contract"
	"parley/shared/domain"
)

// streams measures the latency of partial answers on event streams. The bench publishes them in
// place of the worker: to streams of runs whose answers the model holds, and to as many bare NATS
// subscribers.
type streams struct {
	Streams int `default:"2000" help:"Event streams that are open at one ingress."`
	Rounds  int `default:"3" help:"Rounds of each side."`
}

// Name is the name of the load.
func (*streams) Name() string { return "streams" }

// Measure measures both sides in turn.
func (f *streams) Measure(ctx context.Context, s *loadEnv) error {
	provider, err := s.model(ctx, 0)
	if err != nil {
		return err
	}

	runs := strconv.Itoa(f.Streams + 1)
	config := parley.Config{Model: model.Name, Settings: map[string]string{"ORG_DISPATCH_WINDOW": runs, "WORKER_CONCURRENCY": runs}}
	maps.Copy(config.Settings, provider.Settings())
	p, _, err := s.parley(ctx, "parley", config)
	if err != nil {
		return err
	}

	nc, err := nats.Connect(s.servers.NATSURL(), nats.Name("bench"))
	if err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	defer nc.Close()

	var rounds [2][]values
	for range f.Rounds {
		bare, err := f.subscribed(ctx, nc)
		if err != nil {
			return fmt.Errorf("subscribers: %w", err)
		}
		ours, err := f.streamed(ctx, nc, p, provider)
		if err != nil {
			return fmt.Errorf("streams: %w", err)
		}
		rounds[0], rounds[1] = append(rounds[0], bare), append(rounds[1], ours)
	}

	name := fmt.Sprintf("%d streams", f.Streams)
	for _, m := range []struct {
		measure string
		goal    *goal
	}{{"pieces/s", ratioAtLeast(0.9)}, {"p50 ms", nil}, {"p99 ms", addsAtMost(5)}} {
		s.add(name, m.measure, column(rounds[0], m.measure), column(rounds[1], m.measure), m.goal)
	}
	return nil
}

// firstPiece is the position of a run's first delta in its log, after the event that the run has
// started.
const firstPiece = 2

// piece is the message of a run's nth piece, as a worker publishes it.
func piece(nth int, text string) []byte {
	data, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		panic(err) // never fails for a string
	}
	return contract.EventMessage(domain.EventChunk{
		Fence: 1, First: firstPiece + nth - 1, Lines: domain.AppendEventLine(nil, "message.delta", data),
	})
}

// streamed measures streams of the ingress.
func (f *streams) streamed(ctx context.Context, nc *nats.Conn, p *parley.Parley, provider *model.Model) (values, error) {
	provider.Hold()
	defer provider.Release()

	ctx, cancel := context.WithCancel(ctx)
	listeners, ctx := errgroup.WithContext(ctx)
	defer func() { _ = listeners.Wait() }() // they end with ctx
	defer cancel()

	var started atomic.Int64
	ids := make([]string, f.Streams)
	a := newAudience(len(ids), func(listener, nth int, text string) error {
		return nc.Publish(contract.SubjectEvents+ids[listener], piece(nth, text))
	})

	session := time.Now().UnixNano()
	err := gather(ctx, listeners, f.Streams, func(n int) error {
		message := fmt.Sprintf("%d listener %d", session, n)
		var run load.Run
		if err := p.Ask(ctx, p.ChatAsync(p.Agent, message, message), &run); err != nil {
			return err
		}
		ids[n] = run.ID
		return p.Events(run.ID).Listen(ctx, p.Base(), &load.Transcript{Started: func() { started.Add(1) }, Delta: a.receive})
	})
	if err == nil {
		err = until(ctx, "all streams have begun", func() bool { return int(started.Load()) == f.Streams })
	}
	if err != nil {
		return nil, err
	}
	return a.measure(ctx)
}

// subscribed measures bare subscribers, each on its own connection.
func (f *streams) subscribed(ctx context.Context, nc *nats.Conn) (out values, err error) {
	subject := func(listener int) string { return fmt.Sprintf("bench.pieces.%d", listener) }
	a := newAudience(f.Streams, func(listener, nth int, text string) error {
		return nc.Publish(subject(listener), piece(nth, text))
	})

	var all sync.WaitGroup
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			err = errors.Join(err, conn.Close())
		}
		all.Wait()
	}()

	address := strings.TrimPrefix(nc.ConnectedUrl(), "nats://")
	for n := range f.Streams {
		conn, in, err := subscribe(ctx, address, subject(n))
		if err != nil {
			return nil, err
		}
		open = append(open, conn)
		all.Go(func() { listen(conn, in, a.receive) })
	}
	return a.measure(ctx)
}

// subscribe opens a connection to NATS with one subscription, and as little overhead as a stream's
// connection has.
func subscribe(ctx context.Context, address, subject string) (net.Conn, *bufio.Reader, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to NATS: %w", err)
	}

	in := bufio.NewReader(conn)
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n", subject)
	for line := ""; err == nil && line != "PONG\r\n"; {
		line, err = in.ReadString('\n')
	}

	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("subscribing: %w", err), conn.Close())
	}
	return conn, in, nil
}

// listen receives messages until the connection is closed. A message that it cannot parse counts as
// missed, which fails the measurement.
func listen(conn net.Conn, in *bufio.Reader, receive func(text string) error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if line == "PING\r\n" {
			_, _ = io.WriteString(conn, "PONG\r\n") // the next read reports a broken connection
		}
		var subject string
		var size int
		if n, _ := fmt.Sscanf(line, "MSG %s 1 %d", &subject, &size); n != 2 {
			continue
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		_, event, _ := strings.Cut(string(body[:size]), "\n")
		var data struct {
			Text string `json:"text"`
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "message.delta ")), &data) != nil || receive(data.Text) != nil {
			return
		}
	}
}

const (
	fanTime     = time.Second             // during which all listeners receive piece after piece
	steadyTime  = 1500 * time.Millisecond // during which pieces arrive at a rate below saturation
	steadyEvery = 2 * time.Millisecond
	atATime     = 4 // pieces: 2,000 a second
)

// audience is a set of listeners, each of which receives its own pieces.
type audience struct {
	publish func(listener, nth int, text string) error
	sent    []int // by listener
	arrived chan struct{}

	mu     sync.Mutex
	delays *hdrhistogram.Histogram
}

func newAudience(size int, publish func(listener, nth int, text string) error) *audience {
	return &audience{publish: publish, sent: make([]int, size), arrived: make(chan struct{}, size), delays: load.NewLatencies()}
}

// send sends a piece to a listener. If at is not empty, it is the send time, and the delay is
// measured.
func (a *audience) send(listener int, at string) error {
	a.sent[listener]++
	return a.publish(listener, a.sent[listener], at+" ")
}

// receive is called by listeners.
func (a *audience) receive(text string) error {
	if at := strings.TrimSpace(text); at != "" {
		sent, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("received %q", text)
		}
		delay := time.Since(time.Unix(0, sent))
		a.mu.Lock()
		err = a.delays.RecordValue(delay.Nanoseconds())
		a.mu.Unlock()
		if err != nil {
			return fmt.Errorf("recording delay: %w", err)
		}
	}

	a.arrived <- struct{}{}
	return nil
}

// await waits until n pieces have arrived.
func (a *audience) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for got := range n {
		select {
		case <-a.arrived:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pieces have arrived: %w", got, n, context.Cause(ctx))
		}
	}
	return nil
}

// measure sends a piece to all listeners and waits until all have received it, repeatedly. Then it
// sends single pieces at a steady rate.
func (a *audience) measure(ctx context.Context) (values, error) {
	if err := a.all(ctx); err != nil { // warm up: allocate the buffers
		return nil, err
	}

	rounds, began := 0, time.Now()
	for ; time.Since(began) < fanTime; rounds++ {
		if err := a.all(ctx); err != nil {
			return nil, err
		}
	}

	perSecond := float64(rounds*len(a.sent)) / time.Since(began).Seconds()
	if err := a.steadily(ctx); err != nil {
		return nil, err
	}
	return values{"pieces/s": perSecond, "p50 ms": load.Millis(a.delays, 50), "p99 ms": load.Millis(a.delays, 99)}, nil
}

func (a *audience) all(ctx context.Context) error {
	for listener := range a.sent {
		if err := a.send(listener, ""); err != nil {
			return err
		}
	}
	return a.await(ctx, len(a.sent))
}

func (a *audience) steadily(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	total := int(steadyTime/steadyEvery) * atATime
	sent := make(chan error, 1)
	go func() {
		tick := time.NewTicker(steadyEvery)
		defer tick.Stop()
		for n := range total {
			if n%atATime == 0 {
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			if err := a.send(n%len(a.sent), strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if err := a.await(ctx, total); err != nil {
		return err
	}
	return <-sent
}
