package embed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/shared/testkit/openaistub"
	"parley/shared/wordvector"
	"parley/workers/internal/embed"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

// Compute returns the vectors as the service sends them, with the requested number of dimensions.
func TestCompute(t *testing.T) {
	t.Parallel()
	e := embedder(t, openaistub.New(), remote.Limits{})
	for _, name := range []string{"stub-embedding", "openai/stub-embedding"} {
		got, err := e.Compute(t.Context(), embed.Request{Model: name, Texts: []string{"a ladder", "two ladders"}, Dimensions: 32})
		if err != nil || got.Model != "openai/stub-embedding" || got.InputTokens != 4 || got.Estimated || len(got.List) != 2 ||
			!slices.Equal(got.List[1], wordvector.Vector("two ladders", 32)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}

	scaled := embedder(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent map[string]any
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent["dimensions"] != nil {
			t.Errorf("%v, %v", sent, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"data":[{"index":1,"embedding":[0,0]},{"index":0,"embedding":[3,4]}]}`)
	}), remote.Limits{})
	long := strings.Repeat("word ", 4_000)
	got, err := scaled.Compute(t.Context(), embed.Request{Model: "stub-embedding", Texts: []string{long, "b"}})
	if err != nil || !slices.Equal(got.List[0], []float32{3, 4}) || !got.Estimated || got.InputTokens != 20_000/4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The offline model needs no service. If no model is configured, the error for any other name
// refers to the setting EMBEDDINGS_MODEL. If a different model is configured, the error names that
// model.
func TestComputeOffline(t *testing.T) {
	t.Parallel()
	var none *embed.Embedder
	got, err := none.Compute(t.Context(), embed.Request{Model: embed.Offline, Texts: []string{"a ladder", "the ladder"}})
	if err != nil || len(got.List) != 2 || len(got.List[0]) != 256 || got.InputTokens < 2 || distance(got.List[0], got.List[1]) > 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = none.Compute(t.Context(), embed.Request{Model: embed.Offline, Texts: []string{"a"}, Dimensions: 3}); err != nil || len(got.List[0]) != 3 {
		t.Errorf("%+v, %v", got, err)
	}

	configured := embedder(t, openaistub.New(), remote.Limits{})
	for e, want := range map[*embed.Embedder]struct {
		kind llm.Kind
		text string
	}{none: {llm.KindNotConfigured, "EMBEDDINGS_MODEL"}, configured: {llm.KindUnknownModel, "openai/stub-embedding"}} {
		_, err := e.Compute(t.Context(), embed.Request{Model: "text-embedding-3-small", Texts: []string{"a"}})
		if failed, ok := errors.AsType[*llm.Error](err); !ok || failed.Kind != want.kind || !failed.Unused || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%v", err)
		}
	}
}

func TestVectorsOfAServiceThatFails(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"one too few": `{"index":0,"embedding":[1]}`,
		"one twice":   `{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}`,
		"two sizes":   `{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}`,
		"too large":   `{"index":0,"embedding":[1]},{"index":1,"embedding":[1e300]}`,
		"empty":       `{"index":0,"embedding":[]},{"index":1,"embedding":[]}`,
	} {
		e := embedder(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"data":[%s]}`, data)
		}), remote.Limits{})
		_, err := e.Compute(t.Context(), embed.Request{Model: "stub-embedding", Texts: []string{"a", "b"}})
		if failed, ok := errors.AsType[*llm.Error](err); !ok || failed.Kind != llm.KindBadResponse {
			t.Errorf("%s: %v", name, err)
		}
	}
}
