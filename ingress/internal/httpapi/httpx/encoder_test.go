package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// upperEncoder is an Encoder that writes the types of events in capitals.
type upperEncoder struct {
	ends, fails string // the event type that ends the stream, and a type that cannot be encoded
}

func (s upperEncoder) Append(b []byte, e domain.Event) ([]byte, bool, error) {
	if e.Type == s.fails {
		return b, true, errors.New("what?")
	}
	return append(b, strings.ToUpper(e.Type)+"\n\n"...), e.Type == s.ends, nil
}

func (upperEncoder) Cut(b []byte) []byte { return append(b, "CUT\n\n"...) }

// scriptedSource is a Source that returns the given events, one per call, and then an error.
type scriptedSource struct {
	calls [][]string
	end   error
	wait  time.Duration // delay of each call except the first
	next  time.Time
	n     int
}

func (s *scriptedSource) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	if s.n > 0 && s.wait > 0 {
		if s.next.IsZero() {
			s.next = time.Now().Add(s.wait)
		}
		early := until.Before(s.next)
		if !early {
			until = s.next
		}
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if early {
			return nil, nil
		}
		s.next = time.Time{}
	}
	if s.n == len(s.calls) {
		return nil, s.end
	}
	var events []domain.Event
	for _, kind := range s.calls[s.n] {
		events = append(events, domain.Event{Type: kind})
	}
	s.n++
	return events, nil
}

// However the stream of a run ends, the client gets a final message, which nothing follows.
func TestAnEncodedStreamHasAFinalEvent(t *testing.T) {
	t.Parallel()
	refused := func(*http.Request, auth.Need) (auth.Identity, error) {
		return auth.Identity{}, apierr.New(apierr.Unauthenticated, "no")
	}
	for name, tt := range map[string]struct {
		events scriptedSource
		to     upperEncoder
		permit SessionCheck
		want   string
	}{
		"ended by the encoder":  {scriptedSource{calls: [][]string{{"a"}, {"b", "c"}, {"d"}}, end: io.EOF}, upperEncoder{ends: "b"}, SessionCheck{}, "A B"},
		"ended in between":      {scriptedSource{calls: [][]string{{"a"}}, end: errors.New("stopping")}, upperEncoder{}, SessionCheck{}, "A CUT"},
		"never began":           {scriptedSource{end: io.EOF}, upperEncoder{}, SessionCheck{}, "CUT"},
		"what cannot be told":   {scriptedSource{calls: [][]string{{"a", "b", "c"}}, end: io.EOF}, upperEncoder{fails: "b"}, SessionCheck{}, "A CUT"},
		"a credential is over":  {scriptedSource{calls: [][]string{{"a"}, {"b"}}, wait: time.Hour, end: io.EOF}, upperEncoder{}, SessionCheck{Resolve: refused, Next: time.Now()}, "A CUT"},
		"it lives while others": {scriptedSource{calls: [][]string{{"a"}, {"b"}}, wait: 15 * time.Second, end: io.EOF}, upperEncoder{ends: "b"}, SessionCheck{}, "A : ping B"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if !tt.permit.Next.IsZero() {
					tt.permit.Next = time.Now().Add(time.Second)
				}
				rec := httptest.NewRecorder()
				c, _ := gin.CreateTestContext(rec)
				c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", nil)
				translated := &encodedEvents{events: &tt.events, to: tt.to, permit: tt.permit, log: zerolog.Nop()}
				SendStream(c, translated, appendBytes, &SessionCheck{})
				got := strings.Join(strings.Split(strings.TrimSuffix(rec.Body.String(), "\n\n"), "\n\n"), " ")
				if got != tt.want || rec.Header().Get("Content-Type") != ContentEvents {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// If the client has disconnected, no events are translated.
func TestAnEncodedStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	translated := &encodedEvents{events: &scriptedSource{end: io.EOF}, to: upperEncoder{}, log: zerolog.Nop()}
	if out, err := translated.Next(ctx, time.Now()); len(out) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", out, err)
	}
}
