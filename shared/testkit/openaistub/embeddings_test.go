package openaistub_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
)

type embedded struct {
	Object string `json:"object"`
	Model  string `json:"model"`
	Data   []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
}

func embeddings(t *testing.T, stub http.Handler, body string) (int, embedded) {
	t.Helper()
	res := httptest.NewRecorder()
	stub.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/embeddings", strings.NewReader(body)))
	var got embedded
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return res.Code, got
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	status, got := embeddings(t, stub, `{"model":"m","input":["a ladder","two ladders"]}`)
	if status != http.StatusOK || got.Object != "list" || got.Model != "m" || len(got.Data) != 2 || got.Usage.Total != 4 {
		t.Fatalf("%d, %+v", status, got)
	}
	for n, text := range []string{"a ladder", "two ladders"} {
		if got.Data[n].Index != n || cosine(got.Data[n].Embedding, modelstub.Vector(text)) < 0.9999 {
			t.Errorf("text %d has another's vector", n)
		}
	}
	if status, got = embeddings(t, stub, `{"model":"m","input":"alone"}`); status != http.StatusOK || len(got.Data) != 1 {
		t.Errorf("%d, %+v", status, got)
	}
	for body, want := range map[string]int{
		`{"input":[]}`: http.StatusBadRequest, `{"input":["a"," "]}`: http.StatusBadRequest, `{"input":7}`: http.StatusBadRequest, `{`: http.StatusBadRequest,
		`{"input":["a","fault 429*1: b"]}`: http.StatusTooManyRequests, `{"input":["fault quota: b"]}`: http.StatusTooManyRequests,
	} {
		if status, got = embeddings(t, stub, body); status != want || got.Error.Code == "" || len(got.Data) != 0 {
			t.Errorf("%s: %d, %+v", body, status, got)
		}
	}
	if status, _ = embeddings(t, stub, `{"input":["fault 429*1: b"]}`); status != http.StatusOK || stub.Count("fault 429*1: b") != 2 {
		t.Errorf("the second time: %d after %d", status, stub.Count("fault 429*1: b"))
	}
}

func TestVectorsOfLikeTextsAreAlike(t *testing.T) {
	t.Parallel()
	question := modelstub.Vector("How often are ladders inspected?")
	near, far := modelstub.Vector("Every ladder is inspected monthly."), modelstub.Vector("Our warranty covers two years.")
	if cosine(question, near) < 0.3 || cosine(question, far) > 0.2 {
		t.Errorf("near %.2f, far %.2f", cosine(question, near), cosine(question, far))
	}
	for _, text := range []string{"", "?!", "a", "保修期", strings.Repeat("words and more ", 10_000)} {
		v := modelstub.Vector(text)
		if len(v) != modelstub.VectorSize || math.Abs(cosine(v, v)-1) > 1e-5 || cosine(v, modelstub.Vector(text)) < 0.9999 {
			t.Errorf("%.10q: length %.3f", text, cosine(v, v))
		}
	}
}

func cosine(a, b []float32) float64 {
	sum := 0.0
	for n := range a {
		sum += float64(a[n]) * float64(b[n])
	}
	return sum
}
