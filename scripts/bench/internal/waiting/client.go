package waiting

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"parley/scripts/bench/internal/parley"
)

const (
	patience  = 2 * time.Minute // of a client, with all that it waits for, the others too; the ingress lets a request wait for 55 s
	maxAnswer = 1 << 20
)

// client is one connection.
type client struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(fmt.Errorf("setting deadline: %w", err), conn.Close())
	}
	return &client{address: address, conn: conn, in: bufio.NewReader(conn)}, nil
}

// send sends a request and reads the head of its answer, which must be 2xx.
func (c *client) send(ctx context.Context, r parley.Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://"+c.address+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("making request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	if err := req.Write(c.conn); err != nil {
		return nil, fmt.Errorf("sending request: %w", err)
	}
	res, err := http.ReadResponse(c.in, req)
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	if res.StatusCode/100 != 2 {
		complaint, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return nil, errors.Join(fmt.Errorf("answer %s: %s", res.Status, bytes.TrimSpace(complaint)), err)
	}
	return res, nil
}

// ask sends a request and reads its answer, after which nothing more may have come.
func (c *client) ask(ctx context.Context, r parley.Request) ([]byte, error) {
	res, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	if n := c.in.Buffered(); n > 0 {
		return nil, fmt.Errorf("%d bytes after the answer", n)
	}
	return body, nil
}

// run is the run object, as far as it is looked at.
type run struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
}

// check fails unless the run has ended well, at the first attempt, with the answer to that message.
func (r run) check(message string) error {
	if r.Status != "completed" || r.Message != echo(message) || r.Attempts != 1 {
		return fmt.Errorf("the run asked %q is %s with %q at attempt %d", message, r.Status, r.Message, r.Attempts)
	}
	return nil
}

// echo is what the model answers.
func echo(message string) string { return "echo: " + message }

// await sends a request that waits for a run, and checks the answer.
func (c *client) await(ctx context.Context, r parley.Request, message string) error {
	body, err := c.ask(ctx, r)
	if err != nil {
		return err
	}
	var got run
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("reading run: %w", err)
	}
	return got.check(message)
}

// watch sends a request that is answered by a run's events, and checks them; started is called when the run has.
func (c *client) watch(ctx context.Context, r parley.Request, message string, started func()) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		return fmt.Errorf("a stream of %q", kind)
	}
	t := &transcript{started: started}
	if err := t.read(res.Body); err != nil {
		return err
	}
	return t.check(message)
}

// enqueue sends a request that is answered at once, and gives the run's id.
func (c *client) enqueue(ctx context.Context, r parley.Request) (id string, err error) {
	body, err := c.ask(ctx, r)
	if err != nil {
		return "", err
	}
	var got run
	if err := json.Unmarshal(body, &got); err != nil || got.ID == "" {
		return "", fmt.Errorf("reading run from %q: %w", body, err)
	}
	return got.ID, nil
}
