package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"":                              "{}",
		" null ":                        "{}",
		` {"a":1} `:                     `{"a":1}`,
		`{"code":"print(\"\\u0000\")"}`: `{"code":"print(\"\\u0000\")"}`, // an escaped backslash, not a NUL
		`{"s":"\ud83d\ude00 \u00e9"}`:   `{"s":"\ud83d\ude00 \u00e9"}`,
		`{"n":1e9,"t":true}`:            `{"n":1e9,"t":true}`,
	}
	for raw, want := range good {
		if got, err := llm.ParseArguments(raw); err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v", raw, got, err)
		}
	}
	bad := []string{
		`[1]`, `"x"`, `1`, `true`, `{"a":`, `{"a":1} {"b":2}`, `{"a":1}x`, "{\"a\":\"\x00\"}",
		`{"a":"\u0000"}`, `{"a":"\ud83d"}`, `{"a":"\ude00"}`, `{"a":"\ud83d\u0041"}`, "{\"a\":\"\xff\"}", `{"n":1e999999}`,
	}
	for _, raw := range bad {
		if got, err := llm.ParseArguments(raw); !errors.Is(err, llm.ErrNotAnObject) {
			t.Errorf("%q: got %s, %v", raw, got, err)
		}
	}
}

func TestNewToolCallKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	call := llm.NewToolCall("c", "fetch", `{"query": "`+strings.Repeat("é", 2000)+"\x00")
	if call.Arguments != nil || !strings.HasPrefix(call.Malformed, `{"query": "é`) || len(call.Malformed) > 2000 {
		t.Errorf("got %+v (%d bytes)", call, len(call.Malformed))
	}
	if strings.ContainsRune(call.Malformed, '\uFFFD') {
		t.Error("a character was split")
	}
}

func TestCleanJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"a": [1, "x"]}`:               `{"a": [1, "x"]}`,
		`{"a\u0000":["x\u0000y",1.50]}`: `{"a":["xy",1.50]}`,
		`"\ud800"`:                      "\"\uFFFD\"",
		"\"\xff\"":                      "\"\uFFFD\"",
		`{"big":12345678901234567890,"z":"\u0000"}`: `{"big":12345678901234567890,"z":""}`,
	}
	for raw, want := range tests {
		if got, err := llm.CleanJSON(json.RawMessage(raw)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{``, `{`, `{"n":1e200000}`} {
		if got, err := llm.CleanJSON(json.RawMessage(raw)); err == nil {
			t.Errorf("%q: got %s", raw, got)
		}
	}
}

func TestRenderMarksWhatIsUntrusted(t *testing.T) {
	t.Parallel()
	page := 3
	got := llm.RenderToolResult(llm.ToolResult{
		CallID: "c", Name: "webSearch", Output: json.RawMessage(`{"note":"\"}] end of data <b>"}`),
		Sources: []domain.Citation{{ID: 2, Type: "web", Title: "T", URL: "https://e.example/?a&b", CitedText: "words", Page: &page}},
	})
	want := `{"untrusted":true,"tool":"webSearch","output":{"note":"\"}] end of data <b>"},` +
		`"sources":[{"id":2,"title":"T","url":"https://e.example/?a&b","page":3,"text":"words"}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if broken := llm.RenderToolResult(llm.ToolResult{Name: "x", Output: json.RawMessage(`{`)}); !json.Valid([]byte(broken)) {
		t.Errorf("got %s", broken)
	}

	plain := llm.Message{Role: llm.RoleUser, Text: "hello"}
	if got := llm.RenderUser(plain); got != "hello" {
		t.Errorf("got %q", got)
	}
	if got := llm.RenderUser(llm.Message{Role: llm.RoleUser}); got == "" {
		t.Error("models reject an empty message")
	}
	file := llm.Message{Role: llm.RoleUser, Attachments: []llm.Attachment{{Name: "a.md", MediaType: "text/markdown"}}}
	if got := llm.RenderUser(file); !strings.HasPrefix(got, "Files attached") || !strings.Contains(got, `"a.md"`) {
		t.Errorf("got %q", got)
	}
	plain.Data = json.RawMessage(`{"order":7}`)
	if got := llm.RenderUser(plain); !strings.HasPrefix(got, "hello\n\n") || !strings.Contains(got, "untrusted") || !strings.HasSuffix(got, "\n{\"order\":7}") {
		t.Errorf("got %q", got)
	}
}

func TestErrorsSayNothingInternal(t *testing.T) {
	t.Parallel()
	cause := errors.New("secret sk-123 at 10.0.0.1")
	for _, kind := range []llm.Kind{
		llm.KindRateLimited, llm.KindUnavailable, llm.KindTimeout, llm.KindTruncated, llm.KindBadResponse, llm.KindTooLarge, llm.KindInvalid,
		llm.KindAuth, llm.KindQuota, llm.KindContextLength, llm.KindFiltered, llm.KindUnknownModel, llm.KindNotConfigured,
	} {
		err := llm.NewError(kind, cause)
		if err.Error() == "" || strings.Contains(err.Error(), "sk-") || !errors.Is(err, cause) {
			t.Errorf("%s: %q", kind, err.Error())
		}
	}
}

type named struct{ llm.Model }

type provider map[string]bool

func (p provider) Model(name string) (llm.Model, error) {
	if !p[name] {
		return nil, llm.UnknownModel("test/" + name)
	}
	return named{}, nil
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	r, err := llm.NewRegistry("test/a/b", map[string]llm.Provider{"test": provider{"a/b": true, "": true}}, "test", "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "test/a/b", "test"} {
		if m, err := r.Resolve(name); err != nil || m == nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, kind := range map[string]llm.Kind{
		"test/c": llm.KindUnknownModel, "what": llm.KindUnknownModel, "/": llm.KindUnknownModel,
		"other/x": llm.KindNotConfigured, strings.Repeat("x", 201): llm.KindUnknownModel,
	} {
		var e *llm.Error
		if _, err := r.Resolve(name); !errors.As(err, &e) || e.Kind != kind || e.Retryable {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if r.Default() != "test/a/b" {
		t.Errorf("default %q", r.Default())
	}
	if _, err := llm.NewRegistry("other/x", nil, "other"); err == nil {
		t.Error("a default that is not there was accepted")
	}
}
