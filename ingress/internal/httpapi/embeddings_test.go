package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/secrets"
)

// vector returns a vector that identifies a text: its length and a constant fraction.
func vector(text string) []byte {
	numbers := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(len(text))))
	return binary.LittleEndian.AppendUint32(numbers, math.Float32bits(0.1))
}

// embedsLengths returns the reply of a worker to a request. The reply contains the result of the
// function vector for each of the first texts, up to the number in the argument most.
func embedsLengths(body []byte, most int) []byte {
	var asked contract.EmbedRequest
	err := json.Unmarshal(body, &asked)
	reply := contract.EmbedReply{Model: "openai/lengths"}
	for _, text := range asked.Texts[:min(len(asked.Texts), most)] {
		reply.Vectors, reply.InputTokens = append(reply.Vectors, vector(text)), reply.InputTokens+2
	}
	raw, failed := json.Marshal(reply)
	if errors.Join(err, failed) != nil {
		return nil
	}
	return raw
}

// answerEmbeddings responds to embedding calls like a worker.
func (a *runEnv) answerEmbeddings() {
	a.t.Helper()
	stop, err := a.bus.ServeTool(contract.KindEmbed, bus.ToolOptions{Slots: 8, Queue: 64}, func(_ context.Context, m bus.ToolMessage) ([]byte, bool) {
		return embedsLengths(m.Body, math.MaxInt), true
	})
	must(a.t, err)
	a.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stop(ctx)
	})
}

// embedCalls is a WorkerCaller that records the calls. If the field reply or the field err is set,
// each call returns both. Otherwise a call returns vectors of the first texts, up to the number in
// the field most.
type embedCalls struct {
	reply string
	err   error
	most  int

	mu     sync.Mutex
	claims contract.EmbedClaims
	asked  []contract.EmbedRequest
}

func (e *embedCalls) Call(_ context.Context, kind, capability string, body []byte, _ time.Time) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		return nil, err
	}
	raw, err := signer.Verify(capability, body)
	var asked contract.EmbedRequest
	if err = errors.Join(err, contract.ReadClaims(raw, &e.claims), json.Unmarshal(body, &asked)); err != nil || kind != contract.KindEmbed {
		return nil, fmt.Errorf("a call that a worker refuses: %s: %w", kind, err)
	}
	if e.asked = append(e.asked, asked); e.reply != "" || e.err != nil {
		return []byte(e.reply), e.err
	}
	return embedsLengths(body, e.most), nil
}

// With both forms of input and both encodings, the response contains the vectors of all texts in
// order. If a worker returns only some vectors, it is called again for the others.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	workers := &embedCalls{most: 30}
	a.rebuild(func(d *Deps) { d.Searches = workers })

	got := a.ok("POST", "/v1/embeddings", `{"model":"lengths","input":"four","dimensions":2,"user":"u"}`, h.key)
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[4,0.1]}],"model":"openai/lengths",` +
		`"usage":{"prompt_tokens":2,"total_tokens":2}}`
	if string(got.body) != want {
		t.Errorf("%s", got.body)
	}
	if c := workers.claims; c.OrganizationID != h.org || c.KeyID == "" || workers.asked[0].Dimensions != 2 || workers.asked[0].Model != "lengths" {
		t.Errorf("%+v, %+v", c, workers.asked)
	}

	texts := make([]string, 100)
	for i := range texts {
		texts[i] = strings.Repeat("<", i+1)
	}
	input, err := json.Marshal(texts)
	must(t, err)
	workers.asked = nil
	got = a.ok("POST", "/v1/embeddings", `{"model":"lengths","encoding_format":"base64","input":`+string(input)+`}`, h.memberKey, h.header)
	var list []struct {
		Index     int    `json:"index"`
		Embedding string `json:"embedding"`
	}
	must(t, json.Unmarshal(got.raw(t, "data"), &list))
	for i, one := range list {
		if one.Embedding != base64.StdEncoding.EncodeToString(vector(texts[i])) || one.Index != i {
			t.Errorf("vector %d: %+v", i, one)
		}
	}
	if len(list) != 100 || got.json(t, "usage.prompt_tokens") != 200.0 || len(workers.asked) != 4 || len(workers.asked[0].Texts) != 40 {
		t.Errorf("%d vectors after %d calls: %s", len(list), len(workers.asked), got.body[len(got.body)-80:])
	}

	// A call has a maximum number of texts and a maximum number of characters.
	workers.asked = nil
	long := strings.Repeat("ü", 60_000)
	a.ok("POST", "/v1/embeddings", `{"model":"lengths","input":["`+long+`","`+long+`"]}`, h.key)
	if len(workers.asked) != 2 {
		t.Errorf("%d calls for two long texts", len(workers.asked))
	}
}

// The error for an invalid request names the field, and no worker is called.
func TestFaultyEmbeddings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	workers := &embedCalls{most: 30}
	a.rebuild(func(d *Deps) { d.Searches = workers })
	for body, want := range map[string]string{
		`{"input":"a"}`:                                                   "invalid_request model",
		`{"model":"","input":"a"}`:                                        "invalid_request model",
		`{"model":"m"}`:                                                   "invalid_request input",
		`{"model":"m","input":null}`:                                      "invalid_request input",
		`{"model":"m","input":5}`:                                         "invalid_request input",
		`{"model":"m","input":[]}`:                                        "invalid_request input",
		`{"model":"m","input":""}`:                                        "invalid_request input",
		`{"model":"m","input":["a",""]}`:                                  "invalid_request input[1]",
		`{"model":"m","input":[1,2]}`:                                     "invalid_request input[0]",
		`{"model":"m","input":["a",[1,2]]}`:                               "invalid_request input[1]",
		`{"model":"m","input":"` + strings.Repeat("x", 100_001) + `"}`:    "invalid_request input",
		`{"model":"m","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`: "invalid_request input",
		`{"model":"m","input":"a","encoding_format":"int8"}`:              "invalid_request encoding_format",
		`{"model":"m","input":"a","dimensions":0}`:                        "invalid_request dimensions",
		`{"model":"m","input":"a","dimensions":16385}`:                    "invalid_request dimensions",
		`{"model":"m","input":"a","dimensions":1.5}`:                      "invalid_request dimensions",
	} {
		a.from("POST", "/v1/embeddings", body, h.key).want(t, body[:min(len(body), 80)], 400, want)
	}
	a.from("POST", "/v1/embeddings", `{"input":"`+strings.Repeat("x", httpx.MaxMessageBody)+`"}`, h.key).want(t, "a large body", 413, "payload_too_large")
	a.from("POST", "/v1/embeddings", `x`, h.key, "Content-Type: text/plain").want(t, "text", 415, "unsupported_media_type")
	if got := a.from("POST", "/v1/embeddings", `{"model":"m","input":[[1]]}`, h.key); !strings.Contains(string(got.body), "check_embedding_ctx_length=False") {
		t.Errorf("tokens: %s", got.body)
	}
	if len(workers.asked) > 0 {
		t.Errorf("workers were called: %+v", workers.asked)
	}
}

// If a worker reports a failure, the client gets an error with the same code.
func TestFailedEmbeddings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	const body = `{"model":"m","input":"a"}`
	for reply, want := range map[string]struct {
		status int
		code   string
	}{
		`{"failure":{"code":"not_found","message":"no embeddings model is configured","field":"model"}}`: {404, "model_not_found"},
		`{"failure":{"code":"invalid_request","message":"too long","field":"input"}}`:                    {400, "invalid_request"},
		`{"failure":{"code":"rate_limited","message":"slowly","retryAfter":7000000000}}`:                 {429, "rate_limited"},
		`{"failure":{"code":"unavailable","message":"away"}}`:                                            {503, "unavailable"},
		`{"lacking":{"id":"bud_1","metric":"tokens","period":"day","limit":5}}`:                          {429, "budget_exceeded"},
		`{}`: {503, "unavailable"},
		`<`:  {500, "internal"},
	} {
		a.rebuild(func(d *Deps) { d.Searches = &embedCalls{reply: reply} })
		got := a.from("POST", "/v1/embeddings", body, h.key)
		if got.status != want.status || got.text(t, "error.code") != want.code {
			t.Errorf("%s: %d %s", reply, got.status, got.body)
		}
	}
	a.rebuild(func(d *Deps) { d.Searches = &embedCalls{err: bus.ErrNoToolWorker} })
	if got := a.from("POST", "/v1/embeddings", body, h.key); got.status != 503 || !strings.Contains(got.text(t, "error.message"), "no worker") {
		t.Errorf("without a worker: %d %s", got.status, got.body)
	}
}
