package httpx

import (
	"context"
	"io"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/shared/domain"
)

// Encoder tells a run in another protocol's words.
type Encoder interface {
	// Append writes what an event means to b, and reports whether nothing may follow it.
	Append(b []byte, e domain.Event) (out []byte, ended bool, err error)
	// Cut writes to b that no more of the run can be told here, although it goes on.
	Cut(b []byte) []byte
}

// SendEncoded writes a run's events as an encoder puts them, for as long as the permit holds.
func SendEncoded(c *gin.Context, events Source[domain.Event], to Encoder, may Permit, log zerolog.Logger) {
	told := &encoded{events: events, to: to, may: may, log: log}
	SendStream(c, told, appendBytes, Permit{}) // told looks at the permit itself: its end has words of its own
}

func appendBytes(b, more []byte) []byte { return append(b, more...) }

// encoded is a source of what an encoder makes of another's events.
type encoded struct {
	events Source[domain.Event]
	to     Encoder
	may    Permit
	log    zerolog.Logger
	ended  bool
}

// Next gives what the next events mean. A client is always told the end: those of other protocols do not know by
// themselves that a stream which just ends was none.
func (s *encoded) Next(ctx context.Context, until time.Time) ([][]byte, error) {
	if s.ended {
		return nil, io.EOF
	}
	events, err := s.events.Next(ctx, s.may.Earlier(until))
	out := s.encode(events)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !s.ended && (err != nil || !s.may.Holds(time.Now())) {
		out = s.cut(out)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return [][]byte{out}, nil
}

func (s *encoded) encode(events []domain.Event) (out []byte) {
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

func (s *encoded) cut(out []byte) []byte {
	s.ended = true
	return s.to.Cut(out)
}
