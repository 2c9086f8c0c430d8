package retrieval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Dimensions of the vectors.
const Dimensions = 1024

// Embed gives the vector of a text: for each word and each sequence of three to five characters in it, one of 1024 directions and a
// sign by its hash, weighted by the logarithm of how often it is there; of length 1. Words that are written alike are near each
// other, and so are texts that share rare spellings. It knows no meanings. Words of up to three letters, which are
// grammar for the most part, have none.
func Embed(text string) []float32 {
	counts := map[string]float64{}
	for _, word := range words(text) {
		if len(word) <= 3 {
			continue
		}
		counts["w"+word] += 2
		padded := "^" + word + "$"
		for size := 3; size <= 5; size++ {
			for at := 0; at+size <= len(padded); at++ {
				counts[padded[at:at+size]] += 0.5
			}
		}
	}
	sums := make([]float64, Dimensions)
	h := fnv.New64a()
	for feature, n := range counts {
		h.Reset()
		h.Write([]byte(feature))
		sum := h.Sum64()
		sign := 1.0
		if sum>>63 == 1 {
			sign = -1
		}
		// Rounded, so that the order in which a map gives its keys does not show.
		sums[sum%Dimensions] += sign * math.Round(1024*math.Log1p(n)*math.Sqrt(float64(len(feature))))
	}
	length := 0.0
	for _, v := range sums {
		length += v * v
	}
	vector := make([]float32, Dimensions)
	if length == 0 {
		vector[0] = 1
		return vector
	}
	for i, v := range sums {
		vector[i] = float32(v / math.Sqrt(length))
	}
	return vector
}

// maxBody is more than any request of a worker.
const maxBody = 16 << 20

// ServeEmbeddings answers as an OpenAI-compatible service does.
func ServeEmbeddings(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var texts []string
	if err := json.Unmarshal(asked.Input, &texts); err != nil {
		var one string
		if err := json.Unmarshal(asked.Input, &one); err != nil {
			http.Error(w, "input is neither a text nor texts", http.StatusBadRequest)
			return
		}
		texts = []string{one}
	}
	type embedding struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	data := make([]embedding, len(texts))
	tokens := 0
	for i, text := range texts {
		data[i] = embedding{"embedding", i, Embed(text)}
		tokens += len(strings.Fields(text))
	}
	answer, err := json.Marshal(map[string]any{
		"object": "list", "model": asked.Model, "data": data, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // whoever asked may have gone
}

// embeddings is the service while it runs.
type embeddings struct {
	url   string
	asked atomic.Int64
	close func() error
}

func serveEmbeddings(ctx context.Context) (*embeddings, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for embeddings: %w", err)
	}
	e := &embeddings{url: "http://" + listener.Addr().String() + "/v1"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		ServeEmbeddings(w, r)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	e.close = func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return e, nil
}
