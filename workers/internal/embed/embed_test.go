package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/embed"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

const key = "sk-very-secret-key"

func embedder(t *testing.T, handler http.Handler, limits remote.Limits) *embed.Embedder {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	e, err := embed.New(embed.Config{Model: "openai/stub-embedding", OpenAIAPIKey: key, OpenAIBaseURL: server.URL + "/v1", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   embed.Config
		model string
		wrong string // text that must occur in the error
	}{
		"none":             {embed.Config{OpenAIAPIKey: key}, "", ""},
		"openai":           {embed.Config{Model: "openai/text-embedding-3-small", OpenAIAPIKey: key}, "openai/text-embedding-3-small", ""},
		"another server":   {embed.Config{Model: "openai/bge-m3", OpenAIBaseURL: "http://127.0.0.1:1/v1"}, "openai/bge-m3", ""},
		"another provider": {embed.Config{Model: "voyage/voyage-4", OpenAIAPIKey: key}, "", "EMBEDDINGS_MODEL"},
		"no provider":      {embed.Config{Model: "text-embedding-3-small", OpenAIAPIKey: key}, "", "EMBEDDINGS_MODEL"},
		"no name":          {embed.Config{Model: "openai/", OpenAIAPIKey: key}, "", "EMBEDDINGS_MODEL"},
		"no service":       {embed.Config{Model: "openai/x"}, "", "OPENAI_API_KEY"},
		"no address":       {embed.Config{Model: "openai/x", OpenAIBaseURL: "ftp://user:secret@host"}, "", "OPENAI_BASE_URL"},
	} {
		e, err := embed.New(c.cfg)
		if e.Model() != c.model || (err == nil) != (c.wrong == "") {
			t.Errorf("%s: %q, %v", name, e.Model(), err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *embed.Embedder
	none.Close()
	_, err := none.Embed(t.Context(), []string{"a"})
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindNotConfigured || e.Retryable {
		t.Errorf("no model: %v", err)
	}
}

// seen is a request that the test's server has received.
type seen struct {
	Model  string   `json:"model"`
	Input  []string `json:"input"`
	Format string   `json:"encoding_format"`
}

func TestBatches(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	stub.RequireKey(key)
	var asked []seen
	e := embedder(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var one seen
		if err := errors.Join(err, json.Unmarshal(body, &one)); err != nil {
			t.Error(err)
		}
		asked = append(asked, one)
		r.Body = io.NopCloser(bytes.NewReader(body))
		stub.ServeHTTP(w, r)
	}), remote.Limits{})
	var texts []string
	for n := range 100 {
		texts = append(texts, fmt.Sprintf("short text %d", n))
	}
	for n := range 30 {
		texts = append(texts, fmt.Sprintf("%d ", n)+strings.Repeat("ü界 ", 4_000))
	}
	vectors, err := e.Embed(t.Context(), texts)
	if err != nil || len(vectors) != len(texts) {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	at := 0
	for _, one := range asked {
		characters := 0
		for _, text := range one.Input {
			characters += utf8.RuneCountInString(text)
			if !strings.HasPrefix(texts[at], text) || utf8.RuneCountInString(text) > 8_000 || text != texts[at] && utf8.RuneCountInString(text) != 8_000 {
				t.Errorf("text %d became one of %d characters", at, utf8.RuneCountInString(text))
			}
			if want := modelstub.Vector(text); distance(vectors[at], want) > 1e-6 {
				t.Errorf("text %d has another's vector", at)
			}
			at++
		}
		if len(one.Input) > 64 || characters > 100_000 || one.Model != "stub-embedding" || one.Format != "float" {
			t.Errorf("a request of %d texts, %d characters, %s, %s", len(one.Input), characters, one.Model, one.Format)
		}
	}
	if at != len(texts) || len(asked) > 6 {
		t.Errorf("%d of %d texts in %d requests", at, len(texts), len(asked))
	}
	if vectors, err = e.Embed(t.Context(), nil); err != nil || len(vectors) != 0 {
		t.Errorf("%v, %v", vectors, err)
	}
	if _, err = e.Embed(t.Context(), []string{"a", " \n\x00"}); err == nil || len(asked) > 6 {
		t.Errorf("an empty text: %v", err)
	}
}

func TestAnswersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	vector := func(index int, numbers string) string {
		return fmt.Sprintf(`{"index":%d,"embedding":%s}`, index, numbers)
	}
	for name, c := range map[string]struct {
		data  string
		media string
		final bool // true if a retry cannot succeed
		works bool
	}{
		"two":               {vector(0, "[3,4]") + "," + vector(1, "[0,-2]"), "", false, true},
		"the other order":   {vector(1, "[0,-2]") + "," + vector(0, "[3,4]"), "", false, true},
		"large and small":   {vector(1, "[0,-1e-300]") + "," + vector(0, "[3e300,4e300]"), "", false, true},
		"one too few":       {vector(0, "[3,4]"), "", false, false},
		"one too many":      {vector(0, "[3,4]") + "," + vector(1, "[1,0]") + "," + vector(2, "[1,0]"), "", false, false},
		"one twice":         {vector(1, "[3,4]") + "," + vector(1, "[1,0]"), "", false, false},
		"none of the texts": {vector(0, "[3,4]") + "," + vector(2, "[1,0]"), "", false, false},
		"before them":       {vector(0, "[3,4]") + "," + vector(-1, "[1,0]"), "", false, false},
		"two sizes":         {vector(0, "[3,4]") + "," + vector(1, "[1,0,0]"), "", false, false},
		"nothing in it":     {vector(0, "[]") + "," + vector(1, "[]"), "", false, false},
		"zeros":             {vector(0, "[3,4]") + "," + vector(1, "[0,0]"), "", false, false},
		"no number":         {vector(0, "[3,4]") + "," + vector(1, "[NaN,1]"), "", false, false},
		"beyond numbers":    {vector(0, "[3,4]") + "," + vector(1, "[1e999,1]"), "", false, false},
		"no vector":         {vector(0, "[3,4]") + "," + vector(1, `"words"`), "", false, false},
		"too large":         {vector(0, "["+strings.Repeat("1,", 20_000)+"1]") + "," + vector(1, "[1]"), "", false, false},
		"a page":            {"<html>" + key, "text/html", true, false},
	} {
		e := embedder(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if w.Header().Set("Content-Type", "application/json"); c.media != "" {
				w.Header().Set("Content-Type", c.media)
			}
			_, _ = fmt.Fprintf(w, `{"object":"list","model":"m","data":[%s],"usage":{"prompt_tokens":1,"total_tokens":1}}`, c.data)
		}), remote.Limits{})
		vectors, err := e.Embed(t.Context(), []string{"a secret text", "another"})
		if c.works {
			if err != nil || distance(vectors[0], []float32{.6, .8}) > 1e-6 || distance(vectors[1], []float32{0, -1}) > 1e-6 {
				t.Errorf("%s: %v, %v", name, vectors, err)
			}
			continue
		}
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || failed.Retryable == c.final || vectors != nil {
			t.Errorf("%s: %v, %v", name, vectors, err)
			continue
		}
		quiet(t, name, err)
	}
}

func TestALaterVectorOfAnotherSize(t *testing.T) {
	t.Parallel()
	numbers := "[1,2]"
	e := embedder(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"data":[{"index":0,"embedding":%s}]}`, numbers)
	}), remote.Limits{})
	if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	numbers = "[1,2,3]"
	_, err := e.Embed(t.Context(), []string{"a"})
	if failed, ok := errors.AsType[*llm.Error](err); !ok || failed.Kind != llm.KindBadResponse {
		t.Errorf("got %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for fault, c := range map[string]struct {
		kind  llm.Kind
		retry bool
		after time.Duration
	}{
		"429=7":   {llm.KindRateLimited, true, 7 * time.Second},
		"500":     {llm.KindUnavailable, true, 0},
		"503=2":   {llm.KindUnavailable, true, 2 * time.Second},
		"quota":   {llm.KindQuota, false, 0},
		"401":     {llm.KindAuth, false, 0},
		"404":     {llm.KindUnknownModel, false, 0},
		"400":     {llm.KindInvalid, false, 0},
		"context": {llm.KindContextLength, false, 0},
		"refuse":  {llm.KindUnavailable, true, 0},
		"html":    {llm.KindBadResponse, false, 0},
		"hang":    {llm.KindTimeout, true, 0},
	} {
		limits := remote.Limits{}
		if fault == "hang" {
			limits.Total = 100 * time.Millisecond
		}
		e := embedder(t, openaistub.New(), limits)
		vectors, err := e.Embed(t.Context(), []string{"fault " + fault + ": a secret text"})
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || vectors != nil || failed.Kind != c.kind || failed.Retryable != c.retry || failed.RetryAfter != c.after {
			t.Errorf("%s: %+v", fault, err)
			continue
		}
		quiet(t, fault, err)
	}
	nobody, err := embed.New(embed.Config{
		Model: "openai/x", OpenAIAPIKey: key, OpenAIBaseURL: "http://127.0.0.1:9/v1",
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = nobody.Embed(t.Context(), []string{"a secret text"})
	if failed, ok := errors.AsType[*llm.Error](err); !ok || !failed.Retryable || failed.Kind != llm.KindUnavailable {
		t.Errorf("without a server: %v", err)
	}
	quiet(t, "nobody", err)
}

func TestTheCallersEndIsNoFailure(t *testing.T) {
	t.Parallel()
	e := embedder(t, openaistub.New(), remote.Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := e.Embed(ctx, []string{"fault hang: a"})
	if _, failed := errors.AsType[*llm.Error](err); failed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// quiet checks that an error and its causes contain neither the key nor the test's secret text.
func quiet(t *testing.T, name string, err error) {
	t.Helper()
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if text := fmt.Sprintf("%v %+v", cause, cause); strings.Contains(text, key) || strings.Contains(text, "secret text") {
			t.Errorf("%s: the error contains a secret: %s", name, text)
		}
	}
}

func distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	sum := 0.0
	for n := range a {
		sum += float64(a[n]-b[n]) * float64(a[n]-b[n])
	}
	return math.Sqrt(sum)
}
