package load

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"parley/scripts/bench/internal/latency"
)

// readBuffer holds a whole answer, so that it is looked at without being copied.
const readBuffer = 64 << 10

var errMalformed = errors.New("answer is no HTTP/1.1")

// connection is one client: one request at a time, each with its own key.
type connection struct {
	conn   net.Conn
	in     *bufio.Reader
	raw    []byte // the request
	seq    []byte // the part of raw that counts
	n      int64
	keys   int64 // 0: each request has its own
	walk   int64 // where among the keys
	expect []byte
	status int

	answered  int64
	failed    map[string]int64
	latencies latency.Histogram
}

func newConnection(conn net.Conn, request []byte, key int, prefix string, s Spec) *connection {
	raw := bytes.Clone(request)
	place := raw[key : key+len(KeyMark)]
	copy(place, prefix)
	return &connection{
		conn: conn, in: bufio.NewReaderSize(conn, readBuffer), raw: raw, seq: place[len(prefix):], keys: s.Keys,
		expect: []byte(s.Expect), status: cmp.Or(s.Status, http.StatusOK), failed: map[string]int64{},
	}
}

// work sends requests until end; answers that come between start and end are measured.
func (c *connection) work(start, end time.Time) error {
	if err := c.conn.SetDeadline(end.Add(patience)); err != nil {
		return fmt.Errorf("setting deadline: %w", err)
	}
	for now := time.Now(); now.Before(end); {
		sent := now
		right, err := c.ask()
		if err != nil {
			return err
		}
		now = time.Now()
		if right && now.After(start) && now.Before(end) {
			c.latencies.Record(now.Sub(sent))
		}
	}
	return nil
}

// ask sends the next request, reads its answer and counts it.
func (c *connection) ask() (right bool, err error) {
	counter(c.seq, c.next())
	if _, err := c.conn.Write(c.raw); err != nil {
		return false, fmt.Errorf("sending request: %w", err)
	}
	wrong, err := c.answer()
	if err != nil {
		return false, fmt.Errorf("reading answer: %w", err)
	}
	if wrong != "" {
		c.failed[wrong]++
		return false, nil
	}
	c.answered++
	return true, nil
}

// next is the number of the next request's key.
func (c *connection) next() int64 {
	if c.keys > 0 {
		c.walk = c.walk*6364136223846793005 + 1442695040888963407 // Knuth's: any will do that jumps about
		return 1 + (c.walk>>33&math.MaxInt32)%c.keys
	}
	c.n++
	return c.n
}

// answer reads one and tells what is wrong with it, if anything.
func (c *connection) answer() (wrong string, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return "", errMalformed
	}
	code, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return "", errMalformed
	}
	length, err := c.headers()
	if err != nil {
		return "", err
	}
	right, err := c.body(length)
	switch {
	case err != nil:
		return "", err
	case code != c.status:
		return status(code), nil
	case !right:
		return "answer is not as expected", nil
	}
	return "", nil
}

// headers reads to the end of the headers and gives the body's length, -1 when it comes in chunks.
func (c *connection) headers() (length int, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		switch {
		case !found:
			return length, nil
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, errMalformed
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
}

// body reads the body and tells whether it holds what is expected.
func (c *connection) body(length int) (bool, error) {
	if length < 0 {
		return c.chunks()
	}
	if length > readBuffer {
		return false, fmt.Errorf("an answer of %d bytes is longer than any that is measured here", length)
	}
	body, err := c.in.Peek(length)
	if err != nil {
		return false, err
	}
	right := bytes.Contains(body, c.expect)
	_, err = c.in.Discard(length)
	return right, err
}

func (c *connection) chunks() (bool, error) {
	body, err := io.ReadAll(httputil.NewChunkedReader(c.in))
	if err != nil {
		return false, err
	}
	if _, err := c.in.ReadSlice('\n'); err != nil { // the empty line after the last chunk
		return false, err
	}
	return bytes.Contains(body, c.expect), nil
}
