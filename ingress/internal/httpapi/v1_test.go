package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// openBody is a body of another's protocol.
type openBody struct {
	Name  string            `json:"name" need:"yes"`
	Text  *eitherBody       `json:"text"`
	Parts []openPart        `json:"parts"`
	Flag  *bool             `json:"flag"`
	Any   *json.RawMessage  `json:"any"`
	List  *[]string         `json:"list"`
	Map   map[string]string `json:"map"`
}

type openPart struct {
	Kind string `json:"kind" need:"yes"`
}

type eitherBody struct {
	Whole string     `json:"Whole"`
	Parts []openPart `json:"Parts"`
}

func (eitherBody) Either() {}

// What another's protocol says beyond what is known is passed over; what is known is read as strictly as our own.
func TestOpenBodies(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"name":"n"}`: `{"name":"n","text":null,"parts":null,"flag":null,"any":null,"list":null,"map":null}`,
		`{"name":"n","NAME":1,"zz":{"a":[1,{"b":null}],"a":2},"zz":3}`:                        `{"name":"n","text":null,"parts":null,"flag":null,"any":null,"list":null,"map":null}`,
		`{"name":"n","text":"t","any":null,"flag":null,"list":null}`:                          `{"name":"n","text":{"Whole":"t","Parts":null},"parts":null,"flag":null,"any":null,"list":null,"map":null}`,
		`{"name":"n","text":[{"kind":"k","more":1}],"flag":true,"any":{"x":[]},"list":["a"]}`: `{"name":"n","text":{"Whole":"","Parts":[{"kind":"k"}]},"parts":null,"flag":true,"any":{"x":[]},"list":["a"],"map":null}`,
		`{"name":"n","text":null,"map":{"a":"b"},"parts":[]}`:                                 `{"name":"n","text":null,"parts":[],"flag":null,"any":null,"list":null,"map":{"a":"b"}}`,
		`{}`:                               "name required",
		`{"name":"n","name":"m"}`:          "name duplicate",
		`{"name":"n","text":5}`:            "text invalid_type must be a string or a list",
		`{"name":"n","text":{}}`:           "text invalid_type must be a string or a list",
		`{"name":"n","text":[{"x":1},{}]}`: "text[0].kind required; text[1].kind required",
		`{"name":"n","text":["x"]}`:        "text[0] invalid_type must be an object",
		`{"name":1,"flag":"x","list":[1]}`: "name invalid_type; flag invalid_type; list[0] invalid_type",
		`{"name":"n","zz":{"a":}}`:         "body invalid_json",
		`{"name":"n"} x`:                   "body invalid_json",
		`{"name":"n","zz":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "body too_deep",
		"{\"name\":\"\xff\"}": "body invalid_json",
	} {
		found, got := &httpx.Problems{}, openBody{}
		httpx.DecodeOpen([]byte(body), &got, found)
		if len(found.List) == 0 {
			shown, err := json.Marshal(got)
			if err != nil || string(shown) != want {
				t.Errorf("%s gave %s, %v", body, shown, err)
			}
			continue
		}
		var wrong []string
		for i, part := range strings.Split(want, "; ") {
			if i < len(found.List) {
				f := found.List[i]
				if text := f.Field + " " + f.Code + " " + f.Message; !strings.HasPrefix(text, part) {
					wrong = append(wrong, text)
				}
			}
		}
		if len(wrong) > 0 || len(found.List) != len(strings.Split(want, "; ")) {
			t.Errorf("%s: %+v, want %s", body, found.List, want)
		}
	}
}

// shouting tells events in capitals.
type shouting struct {
	ends, fails string // types that end it, or that it cannot tell
}

func (s shouting) Append(b []byte, e domain.Event) ([]byte, bool, error) {
	if e.Type == s.fails {
		return b, true, errors.New("what?")
	}
	return append(b, strings.ToUpper(e.Type)+"\n\n"...), e.Type == s.ends, nil
}

func (shouting) Cut(b []byte) []byte { return append(b, "CUT\n\n"...) }

// script gives events call by call, and then an error.
type script struct {
	calls [][]string
	end   error
	wait  time.Duration // before each call but the first
	next  time.Time
	n     int
}

func (s *script) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
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

// However a run's stream ends, its reader is told; and nothing comes behind what an encoder ended with.
func TestAnEncodedStreamIsToldItsEnd(t *testing.T) {
	t.Parallel()
	refused := func(*http.Request, auth.Need) (auth.Identity, error) {
		return auth.Identity{}, apierr.New(apierr.Unauthenticated, "no")
	}
	for name, tt := range map[string]struct {
		events script
		to     shouting
		may    httpx.Permit
		want   string
	}{
		"ended by the encoder":  {script{calls: [][]string{{"a"}, {"b", "c"}, {"d"}}, end: io.EOF}, shouting{ends: "b"}, httpx.Permit{}, "A B"},
		"ended in between":      {script{calls: [][]string{{"a"}}, end: errors.New("stopping")}, shouting{}, httpx.Permit{}, "A CUT"},
		"never began":           {script{end: io.EOF}, shouting{}, httpx.Permit{}, "CUT"},
		"what cannot be told":   {script{calls: [][]string{{"a", "b", "c"}}, end: io.EOF}, shouting{fails: "b"}, httpx.Permit{}, "A CUT"},
		"a credential is over":  {script{calls: [][]string{{"a"}, {"b"}}, wait: time.Hour, end: io.EOF}, shouting{}, httpx.Permit{Resolve: refused, Next: time.Now()}, "A CUT"},
		"it lives while others": {script{calls: [][]string{{"a"}, {"b"}}, wait: 15 * time.Second, end: io.EOF}, shouting{ends: "b"}, httpx.Permit{}, "A : ping B"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if !tt.may.Next.IsZero() {
					tt.may.Next = time.Now().Add(time.Second)
				}
				rec := httptest.NewRecorder()
				c, _ := gin.CreateTestContext(rec)
				c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", nil)
				told := &encoded{events: &tt.events, to: tt.to, may: tt.may, log: zerolog.Nop()}
				httpx.SendStream(c, told, appendBytes, httpx.Permit{})
				got := strings.Join(strings.Split(strings.TrimSuffix(rec.Body.String(), "\n\n"), "\n\n"), " ")
				if got != tt.want || rec.Header().Get("Content-Type") != httpx.ContentEvents {
					t.Errorf("told %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// A client that has gone is told nothing, and the encoder's stream ends with it.
func TestAnEncodedStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	told := &encoded{events: &script{end: io.EOF}, to: shouting{}, log: zerolog.Nop()}
	if out, err := told.Next(ctx, time.Now()); len(out) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", out, err)
	}
}

// Requests of OpenAI's protocol are limited as chats are, and replays of a key are free.
func TestCompletionsAreLimited(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h := a.newHouse("home")
	agentID := a.newAgent(h)
	limits := a.tallied(4)
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"m"}]}`, agentID)
	ask := func(key string) answer {
		return a.from("POST", "/v1/chat/completions", body, h.memberKey, h.header, "Idempotency-Key: "+key)
	}
	first := ask("same").want(t, "the first", 200, "")
	for n := range limits.User - 1 {
		if got := ask(fmt.Sprint("k", n)); got.status != 200 {
			t.Fatalf("request %d: %d %s", n+2, got.status, got.body)
		}
	}
	over := ask("one more").want(t, "one too many", 429, "rate_limited")
	if over.header.Get("Retry-After") == "" || over.header.Get(headerShouldRetry) != "true" || over.header.Get(headerRunID) != "" {
		t.Errorf("headers %v", over.header)
	}
	again := ask("same").want(t, "a replay", 200, "")
	if again.header.Get(headerRunID) != first.header.Get(headerRunID) {
		t.Errorf("the replay is of %s", again.header.Get(headerRunID))
	}
}
