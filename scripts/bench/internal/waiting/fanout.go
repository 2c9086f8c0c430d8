package waiting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/shared/contract"
	"parley/shared/domain"
)

// firstToken is the place of a run's first token in its log: behind that it has started.
const firstToken = 2

// fanOut publishes tokens in the worker's stead, to streams of runs that the model holds and to bare subscribers of
// NATS: as many connections on either side, and the same messages.
func (q *queue) fanOut(ctx context.Context, natsURL string) error {
	nc, err := nats.Connect(natsURL, nats.Name("bench"))
	if err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	defer nc.Close()
	bare, err := q.subscribed(ctx, nc)
	if err != nil {
		return fmt.Errorf("subscribers: %w", err)
	}
	streams, err := q.streamed(ctx, nc)
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	q.fan.Add(bare, streams)
	return nil
}

// token is the message of a run's nth token, as a worker publishes it.
func token(nth int, text string) []byte {
	data, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		panic(err) // a text always marshals
	}
	return contract.EventMessage(domain.EventChunk{
		Fence: 1, First: firstToken + nth - 1, Lines: domain.AppendEventLine(nil, "message.delta", data),
	})
}

// streamed measures streams of the ingress.
func (q *queue) streamed(ctx context.Context, nc *nats.Conn) (out report.FanOutSide, err error) {
	clients, err := connect(ctx, q.parley.Address(), q.config.Streams, ready)
	if err != nil {
		return report.FanOutSide{}, err
	}
	defer clients.close()
	ids := make([]string, q.config.Streams)
	a := newAudience(len(ids), func(listener, nth int, text string) error {
		return nc.Publish(contract.SubjectEvents+ids[listener], token(nth, text))
	})
	if err := q.model.Hold(ctx); err != nil {
		return report.FanOutSide{}, err
	}
	defer func() { err = errors.Join(err, q.model.Release(context.WithoutCancel(ctx))) }()
	err = clients.start(ctx, func(n int, c *client) error {
		message := q.message("hears", n)
		id, err := c.enqueue(ctx, q.parley.ChatAsync(message, message))
		if err != nil {
			return err
		}
		ids[n] = id
		return c.listen(ctx, q.parley.Events(id), &transcript{started: clients.begun, delta: a.hear})
	})
	if err == nil {
		err = until(ctx, "all streams have begun", func() (bool, error) { return clients.waits(len(ids)) })
	}
	if err != nil {
		return report.FanOutSide{}, err
	}
	return a.measure(ctx)
}

// subscribed measures bare subscribers, each on a connection of its own.
func (q *queue) subscribed(ctx context.Context, nc *nats.Conn) (out report.FanOutSide, err error) {
	const prefix = "bench.tokens."
	subject := func(listener int) string { return fmt.Sprintf("%s%d", prefix, listener) }
	a := newAudience(q.config.Streams, func(listener, nth int, text string) error {
		return nc.Publish(subject(listener), token(nth, text))
	})
	var all sync.WaitGroup
	var open []*subscriber
	defer func() {
		for _, s := range open {
			err = errors.Join(err, s.conn.Close())
		}
		all.Wait()
	}()
	address := strings.TrimPrefix(nc.ConnectedUrl(), "nats://")
	for n := range q.config.Streams {
		s, err := subscribe(ctx, address, subject(n))
		if err != nil {
			return out, err
		}
		open = append(open, s)
		all.Go(func() { s.listen(a.hear) })
	}
	return a.measure(ctx)
}

// subscriber is one connection to NATS with one subscription, and as little around it as around a stream's.
type subscriber struct {
	conn net.Conn
	in   *bufio.Reader
}

func subscribe(ctx context.Context, address, subject string) (*subscriber, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	s := &subscriber{conn: conn, in: bufio.NewReader(conn)}
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n", subject)
	for line := ""; err == nil && line != "PONG"; {
		line, err = s.line()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribing: %w", err), conn.Close())
	}
	return s, nil
}

func (s *subscriber) line() (string, error) {
	line, err := s.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// listen hears messages until the connection is closed; one that is not understood is not heard, and so missed.
func (s *subscriber) listen(hear func(text string) error) {
	for {
		line, err := s.line()
		if err != nil {
			return
		}
		if line == "PING" {
			_, _ = io.WriteString(s.conn, "PONG\r\n") // a broken connection shows at the next line
		}
		subject, size := "", 0
		if n, _ := fmt.Sscanf(line, "MSG %s 1 %d", &subject, &size); n != 2 {
			continue
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(s.in, body); err != nil {
			return
		}
		_, event, _ := strings.Cut(string(body[:size]), "\n")
		var data struct {
			Text string `json:"text"`
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "message.delta ")), &data) != nil || hear(data.Text) != nil {
			return
		}
	}
}

// listen sends a request that is answered by a run's events, and hands them to a transcript until the connection ends.
func (c *client) listen(ctx context.Context, r parley.Request, t *transcript) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return t.read(res.Body)
}
