package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
)

// openBody is an example of a request body in another protocol's format. Such a body may contain
// fields that Parley does not support.
type openBody struct {
	Name  string            `json:"name" required:"true"`
	Text  *eitherBody       `json:"text"`
	Parts []openPart        `json:"parts"`
	Flag  *bool             `json:"flag"`
	Any   *json.RawMessage  `json:"any"`
	List  *[]string         `json:"list"`
	Map   map[string]string `json:"map"`
}

type openPart struct {
	Kind string `json:"kind" required:"true"`
}

type eitherBody struct {
	Whole string     `json:"Whole"`
	Parts []openPart `json:"Parts"`
}

func (eitherBody) Either() {}

// Unknown fields of another protocol are ignored. Known fields are decoded as strictly as those of
// Parley's own API.
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
		`{"name":"n","zz":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`: "body too_deep",
		"{\"name\":\"\xff\"}": "body invalid_json",
	} {
		found, got := &httpx.Problems{}, openBody{}
		httpx.DecodeOpen([]byte(body), &got, found)
		if len(found.List) == 0 {
			shown, err := json.Marshal(got)
			if err != nil || string(shown) != want {
				t.Errorf("%s = %s, %v", body, shown, err)
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

// Requests to the OpenAI-compatible API count against the rate limits of chats. Replays do not
// count.
func TestCompletionsAreLimited(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
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
	if over.header.Get("Retry-After") == "" || over.header.Get("X-Should-Retry") != "true" || over.header.Get("X-Parley-Run-Id") != "" {
		t.Errorf("headers %v", over.header)
	}
	again := ask("same").want(t, "a replay", 200, "")
	if again.header.Get("X-Parley-Run-Id") != first.header.Get("X-Parley-Run-Id") {
		t.Errorf("the replay is of %s", again.header.Get("X-Parley-Run-Id"))
	}
}

// A request to a wrong path of OpenAI's API gets an error that OpenAI's clients show and that lists
// the paths. The client gets this error even if its base URL lacks /v1 or has an additional prefix.
func TestWrongPathsOfV1(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for _, path := range []string{"/v1", "/v1/completions", "/v1/v1/models", "/chat/completions", "/responses", "/models/x", "/api/v1/models"} {
		got := a.from("POST", path, "{}", h.key)
		if message := got.text(t, "error.message"); got.status != 404 || !strings.Contains(message, "the base URL ends with /v1") ||
			!strings.Contains(message, "POST /v1/chat/completions") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	a.from("GET", "/v2/models", "", h.key).want(t, "another API", 404, "not_found")
}
