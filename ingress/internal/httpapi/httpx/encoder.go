package httpx

import (
	"context"
	"io"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/shared/domain"
)

// Encoder translates a run's events into another protocol's format. An encoder has the state of one
// stream and is used by one goroutine.
type Encoder interface {
	// Append appends the translation of e to b. ended is true if e is the last event of the stream.
	Append(b []byte, e domain.Event) (out []byte, ended bool, err error)
	// Cut appends to b the protocol's message for a stream that ends although the run continues.
	Cut(b []byte) []byte
}

// SendEncoded streams a run's events through an encoder. The stream ends with the last event of the
// run, or when the session check fails.
func SendEncoded(c *gin.Context, events Source[domain.Event], to Encoder, permit SessionCheck, log zerolog.Logger) {
	source := &encodedEvents{events: events, to: to, permit: permit, log: log}
	SendStream(c, source, appendBytes, &SessionCheck{}) // source checks the session itself, because it can report a failed check with Cut
}

// appendBytes appends events of an encoded stream, which are already bytes.
func appendBytes(b, more []byte) []byte { return append(b, more...) }

// encodedEvents is a Source that translates the events of another Source.
type encodedEvents struct {
	events Source[domain.Event]
	to     Encoder
	permit SessionCheck

	log   zerolog.Logger
	ended bool // the last message was returned
}

// Next returns the translation of the next events. If the session check or the source fails, the
// stream ends with the message of Encoder.Cut, because clients would otherwise consider the output
// complete.
func (s *encodedEvents) Next(ctx context.Context, until time.Time) ([][]byte, error) {
	if s.ended {
		return nil, io.EOF
	}

	events, err := s.events.Next(ctx, s.permit.Earlier(until))

	out := s.encode(events)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !s.ended && (err != nil || !s.permit.Holds(time.Now())) {
		out = s.cut(out)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return [][]byte{out}, nil
}

// encode returns the translation of the events, up to the event that ends the stream. If an event
// cannot be translated, the stream ends with the message of Encoder.Cut.
func (s *encodedEvents) encode(events []domain.Event) (out []byte) {
	for _, e := range events {
		var err error
		if out, s.ended, err = s.to.Append(out, e); err != nil {
			s.log.Error().Err(err).Str("event", e.Type).Msg("cannot encode an event in the requested format")
			return s.cut(out)
		}
		if s.ended {
			return out
		}
	}

	return out
}

// cut appends the message of Encoder.Cut and ends the stream.
func (s *encodedEvents) cut(out []byte) []byte {
	s.ended = true
	return s.to.Cut(out)
}
