package openai

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	firstBuffer = 1 << 10  // bytes of a stream's buffer before it grows
	maxLine     = 32 << 20 // bytes; the limit of the response is usually lower

	// endTime is the time for which the end of the response is awaited after the last event. If it
	// has come, the connection serves another call.
	endTime = 100 * time.Millisecond
)

// chunkStream reads the chunks of an answer. The SDK's own stream allocates each event and parses it
// three times, which took two thirds of a worker's time for a piece of an answer.
type chunkStream struct {
	body    io.ReadCloser
	lines   *bufio.Scanner
	data    []byte // of the current event
	current chunk
	done    bool
	err     error
}

// eventError is an event with an error instead of a chunk.
type eventError struct{ data []byte }

func (*eventError) Error() string { return "error event in stream" }

// stream makes the call, stores its response in res if there is one, and returns the chunks of the
// answer.
func (p *Provider) stream(ctx context.Context, params sdk.ChatCompletionNewParams, res **http.Response) *chunkStream {
	_, err := p.chat.New(ctx, params, option.WithJSONSet("stream", true), option.WithResponseBodyInto(res))
	s := &chunkStream{err: err}
	if *res != nil {
		s.body, s.lines = (*res).Body, bufio.NewScanner((*res).Body)
		s.lines.Buffer(make([]byte, 0, firstBuffer), maxLine)
	}
	return s
}

// Next reads the next chunk. It returns false at the end of the stream or after an error.
func (s *chunkStream) Next() bool {
	if s.done || s.err != nil || s.lines == nil {
		return false
	}

	s.data = s.data[:0]
	for s.lines.Scan() {
		line := s.lines.Bytes()
		if len(line) == 0 && len(s.data) > 0 {
			return s.decode()
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); string(name) == "data" {
			s.data = append(append(s.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	s.err = s.lines.Err()
	return false
}

// decode decodes the current event.
func (s *chunkStream) decode() bool {
	if bytes.HasPrefix(s.data, []byte("[DONE]")) {
		s.done = true
		s.awaitEnd()
		return false
	}

	// The chunk reuses the memory of the one before.
	clear(s.current.Choices)
	s.current = chunk{Choices: s.current.Choices[:0]}
	if s.err = decodeChunk(s.data, &s.current); s.err == nil && len(s.current.Error) > 0 && s.current.Error.Kind() != 'n' {
		s.err = &eventError{bytes.Clone(s.data)}
	}
	return s.err == nil
}

// awaitEnd reads the end of the response. net/http closes the connection of a response that was not
// read to its end.
func (s *chunkStream) awaitEnd() {
	late := time.AfterFunc(endTime, func() { _ = s.body.Close() })
	defer late.Stop()
	for s.lines.Scan() { // the rest of the stream has no meaning
	}
}

// Current returns the chunk that Next has read. It is valid until the next call of Next.
func (s *chunkStream) Current() *chunk { return &s.current }

// Err returns the error that ended the stream, or nil.
func (s *chunkStream) Err() error { return s.err }

// Close closes the response.
func (s *chunkStream) Close() {
	if s.body != nil {
		_ = s.body.Close()
	}
}
