// Package realtimeclient is a client of Parley's WebSocket API /v1/realtime for tests and
// benchmarks. It sends exactly the messages that it is given, and records the arrival time of each
// event. It is deliberately independent of the service's own types, so that it sees the protocol as
// a client does.
package realtimeclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Options select the service, the agent, the session and the credentials.
type Options struct {
	BaseURL string // for example http://127.0.0.1:8080
	Key     string // an API key or a client secret
	Model   string // ID of the agent
	Session string // ID of the session; empty: a new session
	Header  http.Header
}

// Client is an open connection. One goroutine may send while another goroutine reads.
type Client struct {
	socket *websocket.Conn
	stop   context.CancelFunc

	mu     sync.Mutex
	queue  []Event
	ended  error         // reason why the connection ended
	notify chan struct{} // signals a new event; its capacity is 1
}

// RefusedError reports that the service responded without upgrading the connection to WebSocket.
type RefusedError struct {
	Status int
	Body   string
}

// Error returns a message with the status and the body of the response.
func (r *RefusedError) Error() string { return fmt.Sprintf("refused: %d %s", r.Status, r.Body) }

// Dial opens a connection that lasts until ctx ends. If the service refuses it, the error is a
// *RefusedError.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	query := url.Values{"model": {opts.Model}}
	if opts.Session != "" {
		query.Set("session_id", opts.Session)
	}

	header := opts.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if opts.Key != "" {
		header.Set("Authorization", "Bearer "+opts.Key)
	}

	address := "ws" + strings.TrimPrefix(opts.BaseURL, "http") + "/v1/realtime?" + query.Encode()
	socket, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return nil, refusal(res, err)
	}

	socket.SetReadLimit(-1)
	ctx, stop := context.WithCancel(ctx)
	c := &Client{socket: socket, stop: stop, notify: make(chan struct{}, 1)}
	go c.read(ctx)
	return c, nil
}

// refusal converts an error of dialing: a response without an upgrade becomes a RefusedError.
func refusal(res *http.Response, err error) error {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Errorf("dialing: %w", err)
	}
	defer res.Body.Close()
	var body strings.Builder
	raw := make([]byte, 4<<10)
	n, _ := res.Body.Read(raw) // the body contains at most its first KiB, because the library keeps no more
	body.Write(raw[:n])
	return &RefusedError{Status: res.StatusCode, Body: body.String()}
}

// read receives events as soon as they arrive, so that their recorded times are accurate.
func (c *Client) read(ctx context.Context) {
	for {
		_, raw, err := c.socket.Read(ctx)
		var e Event
		if err == nil {
			e.At = time.Now()
			e.Raw = raw
			if err = json.Unmarshal(raw, &e); err != nil {
				err = fmt.Errorf("reading event %.200s: %w", raw, err)
			}
		}
		c.mu.Lock()
		if err != nil {
			c.ended = err
		} else {
			c.queue = append(c.queue, e)
		}
		c.mu.Unlock()
		select {
		case c.notify <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Next returns the next event. If the connection or ctx has ended, it returns the reason.
func (c *Client) Next(ctx context.Context) (Event, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			e := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return e, nil
		}
		err := c.ended
		c.mu.Unlock()
		if err != nil {
			return Event{}, err
		}
		select {
		case <-c.notify:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Until reads events until one of them has one of the given types. It returns this event as last,
// and all events that it has read.
func (c *Client) Until(ctx context.Context, types ...string) (last Event, all []Event, err error) {
	for {
		if last, err = c.Next(ctx); err != nil {
			return last, all, fmt.Errorf("waiting for %s after %s: %w", strings.Join(types, ", "), Types(all), err)
		}
		all = append(all, last)
		if slices.Contains(types, last.Type) {
			return last, all, nil
		}
	}
}

// Send sends an event.
func (c *Client) Send(ctx context.Context, event any) error {
	raw, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("writing event: %w", err)
	}
	return c.SendRaw(ctx, websocket.MessageText, raw)
}

// SendRaw sends a message of any kind and content.
func (c *Client) SendRaw(ctx context.Context, kind websocket.MessageType, raw []byte) error {
	if err := c.socket.Write(ctx, kind, raw); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

// Append sends audio without delay. The audio consists of 16-bit samples at 24 kHz.
func (c *Client) Append(ctx context.Context, pcm []byte) error {
	return c.Send(ctx, map[string]any{"type": "input_audio_buffer.append", "audio": base64.StdEncoding.EncodeToString(pcm)})
}

// Speak sends audio in real time, 100 ms at a time, and returns after the last piece.
func (c *Client) Speak(ctx context.Context, pcm []byte) error {
	const piece = BytesPerSecond / 10
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	for len(pcm) > 0 {
		n := min(piece, len(pcm))
		if err := c.Append(ctx, pcm[:n]); err != nil {
			return err
		}
		pcm = pcm[n:]
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Ask sends a text message and requests a response.
func (c *Client) Ask(ctx context.Context, text string) error {
	item := map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}}
	if err := c.Send(ctx, map[string]any{"type": "conversation.item.create", "item": item}); err != nil {
		return err
	}
	return c.Send(ctx, map[string]any{"type": "response.create"})
}

// Update sends a session.update event with the given fields. It adds the type to the map.
func (c *Client) Update(ctx context.Context, session map[string]any) error {
	session["type"] = "realtime"
	return c.Send(ctx, map[string]any{"type": "session.update", "session": session})
}

// Close closes the connection with a WebSocket closing handshake.
func (c *Client) Close() error {
	defer c.stop()
	if err := c.socket.Close(websocket.StatusNormalClosure, ""); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}

// Leave drops the connection without a closing handshake.
func (c *Client) Leave() {
	c.stop()
	_ = c.socket.CloseNow() // without a closing handshake
}

// CloseCode returns the WebSocket close status in an error of Next or Until. It returns -1 if the
// error contains none.
func CloseCode(err error) int { return int(websocket.CloseStatus(err)) }
