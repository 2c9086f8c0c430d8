package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// StreamSpec describes the requests of a load with streamed answers, and how to recognize the
// pieces of an answer.
type StreamSpec struct {
	Address string // host:port
	Path    string
	Headers map[string]string
	Body    string // contains KeyMark if each request needs its own key
	Field   string // JSON field of an event's data that contains the text of a piece
	Answer  string // the complete answer
	End     string // line of the event stream that follows a complete answer
}

// StreamClients contains the number of clients and the number of answers that each of them reads.
type StreamClients struct {
	Clients int
	Each    int           // answers that each client reads one after another; the first one is not measured
	Spread  time.Duration // time over which the clients start
}

// ReadStreams sends the clients' requests and reads the answers. Each client has one connection. A
// wrong or incomplete answer is an error. The latencies are the times from the requests to the first
// pieces. The elapsed time and the rate include the answers whose latency is not measured.
func ReadStreams(ctx context.Context, s StreamSpec, c StreamClients) (*Result, error) {
	runtime.GC() // so that the garbage collector does not run during the measurement
	nonce, readers := NewNonce(), make([]*streamReader, c.Clients)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range readers {
		readers[i] = &streamReader{spec: s, clients: c, number: i, field: []byte(`"` + s.Field + `":"`)}
		readers[i].key, readers[i].seq = newKey(nonce, i)
		group.Go(func() error { return readers[i].read(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}

	answered := int64(c.Clients * c.Each)
	result := &Result{Answered: answered, Measured: answered, Elapsed: time.Since(began), Latencies: NewLatencies()}
	for _, r := range readers {
		for _, took := range r.first {
			_ = result.Latencies.RecordValue(min(took, maxLatency).Nanoseconds()) // at most the histogram's limit
		}
	}
	return result, nil
}

// streamReader is one client. It reads its connection without net/http's transport, whose two
// goroutines for each connection would take CPU time from the measured processes.
type streamReader struct {
	spec    StreamSpec
	clients StreamClients
	number  int
	key     []byte // key of the current request
	seq     []byte // the part of key that contains the number of the request
	field   []byte // the bytes that precede a piece's text in an event's data
	conn    net.Conn
	in      *bufio.Reader
	first   []time.Duration
}

// read opens the client's connection and reads the client's answers. Clients open their connections
// one after another, over the duration in the field Spread. read records the time to the first
// piece of each answer. If the client reads several answers, read does not record the first
// answer's time.
func (r *streamReader) read(ctx context.Context) error {
	if err := awaitStart(ctx, r.clients.Spread, r.number, r.clients.Clients); err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.spec.Address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // so that a blocked read returns
	r.conn, r.in = conn, bufio.NewReader(conn)

	for n := range r.clients.Each {
		began := time.Now()
		first, err := r.answer(n)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("reading answers: %w", context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("client %d, answer %d: %w", r.number, n, err)
		case n > 0 || r.clients.Each == 1:
			r.first = append(r.first, first.Sub(began))
		}
	}
	return nil
}

// answer sends the nth request, reads the answer and returns the time at which its first piece
// arrived. An answer that differs from the expected one is an error.
func (r *streamReader) answer(n int) (first time.Time, err error) {
	if _, err := r.conn.Write(r.request(n)); err != nil {
		return first, fmt.Errorf("sending request: %w", err)
	}
	res, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return first, fmt.Errorf("reading response: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, err := io.ReadAll(res.Body)
		return first, errors.Join(fmt.Errorf("status %s: %s", res.Status, body), err)
	}

	answer, ended := make([]byte, 0, len(r.spec.Answer)), false
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // the final event contains the whole run and no piece of the answer
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return first, fmt.Errorf("reading answer: %w", err)
		}
		ended = ended || string(bytes.TrimSpace(line)) == r.spec.End
		before := len(answer)
		answer = appendPiece(answer, line, r.field)
		if before == 0 && len(answer) > 0 {
			first = time.Now()
		}
	}

	if string(answer) != r.spec.Answer || !ended {
		return first, fmt.Errorf("unexpected answer %q (complete: %t)", answer, ended)
	}
	return first, nil
}

// appendPiece appends the text of a piece to answer if the line contains one. The text is not
// unescaped, because the bench's texts contain no character that JSON escapes.
func appendPiece(answer, line, field []byte) []byte {
	if !bytes.HasPrefix(line, []byte("data: {")) {
		return answer
	}
	_, rest, found := bytes.Cut(line, field)
	if !found {
		return answer
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return append(answer, text...)
}

// request returns the bytes of the client's nth request.
func (r *streamReader) request(n int) []byte {
	counter(r.seq, int64(n))
	body := strings.ReplaceAll(r.spec.Body, KeyMark, string(r.key))
	out := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n", r.spec.Path, r.spec.Address)
	out = fmt.Appendf(out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	for name, value := range r.spec.Headers {
		out = fmt.Appendf(out, "%s: %s\r\n", name, value)
	}
	return append(append(out, "\r\n"...), body...)
}
