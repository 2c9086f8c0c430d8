// Package realtimeclient is a client of /v1/realtime, for tests and benches: what it sends is what they say, and each event keeps the
// moment at which it came.
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

// Options say where a connection goes, and as whom.
type Options struct {
	BaseURL string // of the service: http://127.0.0.1:8080
	Key     string // an API key, or a client secret
	Model   string // the agent
	Session string // "": one of the connection's own
	Header  http.Header
}

// Client is an open connection. One goroutine may send while another one reads.
type Client struct {
	socket *websocket.Conn
	stop   context.CancelFunc

	mu     sync.Mutex
	queue  []Event
	ended  error         // why no more will come
	notify chan struct{} // has a place for one: something is new
}

// RefusedError is an answer that was no upgrade.
type RefusedError struct {
	Status int
	Body   string
}

// Error says what was answered.
func (r *RefusedError) Error() string { return fmt.Sprintf("refused: %d %s", r.Status, r.Body) }

// Dial opens a connection, for as long as ctx lasts. An answer that is no upgrade is a *RefusedError.
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

func refusal(res *http.Response, err error) error {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Errorf("dialing: %w", err)
	}
	defer res.Body.Close()
	var body strings.Builder
	raw := make([]byte, 4<<10)
	n, _ := res.Body.Read(raw) // the library keeps the first KiB of it
	body.Write(raw[:n])
	return &RefusedError{Status: res.StatusCode, Body: body.String()}
}

// read takes events off the connection as they come, so that their times are those of their coming.
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

// Next gives the next event; the error is why the connection has ended, or ctx.
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

// Until reads up to an event of one of the types, and gives it with those before it.
func (c *Client) Until(ctx context.Context, types ...string) (last Event, all []Event, err error) {
	for {
		if last, err = c.Next(ctx); err != nil {
			return last, all, fmt.Errorf("waiting for %s behind %s: %w", strings.Join(types, ", "), Types(all), err)
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

// SendRaw sends a message, whatever it is.
func (c *Client) SendRaw(ctx context.Context, kind websocket.MessageType, raw []byte) error {
	if err := c.socket.Write(ctx, kind, raw); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

// Append sends audio as it is: samples of 16 bit at 24 kHz.
func (c *Client) Append(ctx context.Context, pcm []byte) error {
	return c.Send(ctx, map[string]any{"type": "input_audio_buffer.append", "audio": base64.StdEncoding.EncodeToString(pcm)})
}

// Speak sends audio at the pace at which it would be spoken, 100 ms at a time, and returns when the last piece is out.
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

// Ask sends a text and has it answered.
func (c *Client) Ask(ctx context.Context, text string) error {
	item := map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}}
	if err := c.Send(ctx, map[string]any{"type": "conversation.item.create", "item": item}); err != nil {
		return err
	}
	return c.Send(ctx, map[string]any{"type": "response.create"})
}

// Update sends a session.update.
func (c *Client) Update(ctx context.Context, session map[string]any) error {
	session["type"] = "realtime"
	return c.Send(ctx, map[string]any{"type": "session.update", "session": session})
}

// Close ends the connection as clients do that have said goodbye.
func (c *Client) Close() error {
	defer c.stop()
	if err := c.socket.Close(websocket.StatusNormalClosure, ""); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}

// Leave ends the connection without a word.
func (c *Client) Leave() {
	c.stop()
	_ = c.socket.CloseNow() // there is nothing left to say
}

// CloseCode gives the status that the service closed the connection with, in an error of Next or Until; -1 when it did not.
func CloseCode(err error) int { return int(websocket.CloseStatus(err)) }
