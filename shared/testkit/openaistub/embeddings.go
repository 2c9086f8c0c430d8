package openaistub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"parley/shared/testkit/modelstub"
	"parley/shared/wordvector"
)

// embed serves POST …/embeddings. The last text is the request's prompt: requests are counted by
// this text. The directives in this text, or a script, can cause faults.
func (s *Server) embed(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		modelstub.WriteJSON(w, http.StatusBadRequest, failure("invalid_request_error", "invalid_body", err.Error()))
		return
	}
	model, texts, size, err := readInput(body)
	if err != nil {
		modelstub.WriteJSON(w, http.StatusBadRequest, failure("invalid_request_error", "invalid_json", err.Error()))
		return
	}
	req := Request{Model: model, Messages: []Message{{Role: "user", Content: texts[len(texts)-1]}}}
	s.Serve(w, r, req, vectors{texts: texts, size: size})
}

// readInput parses both forms of input: a string, or a list of strings.
func readInput(body []byte) (model string, texts []string, size int, err error) {
	wire := struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
	}{Dimensions: modelstub.VectorSize}
	if err := json.Unmarshal(body, &wire); err != nil {
		return "", nil, 0, fmt.Errorf("reading request: %w", err)
	}

	var one string
	if json.Unmarshal(wire.Input, &one) == nil {
		texts = []string{one}
	} else if err := json.Unmarshal(wire.Input, &texts); err != nil {
		return "", nil, 0, fmt.Errorf("reading input: %w", err)
	}

	if wire.Dimensions < 1 || wire.Dimensions > 4096 {
		return "", nil, 0, fmt.Errorf("%d dimensions", wire.Dimensions)
	}
	if len(texts) == 0 || len(texts) > 2048 {
		return "", nil, 0, fmt.Errorf("the input has %d texts", len(texts))
	}

	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			return "", nil, 0, errors.New("the input has an empty text")
		}
	}

	return wire.Model, texts, wire.Dimensions, nil
}

// vectors encodes the embeddings of texts. It encodes failures in the same way as the type wire.
type vectors struct {
	wire

	texts []string
	size  int
}

type embedding struct {
	Object    string    `json:"object"`
	Index     int       `json:"index"`
	Embedding []float32 `json:"embedding"`
}

// Answer writes the vectors.
func (v vectors) Answer(w http.ResponseWriter, _ *http.Request, req Request, _ Reply) {
	list := make([]embedding, len(v.texts))
	words := 0
	for n, text := range v.texts {
		list[n] = embedding{Object: "embedding", Index: n, Embedding: wordvector.Vector(text, v.size)}
		words += len(strings.Fields(text))
	}
	modelstub.WriteJSON(w, http.StatusOK, encode(map[string]any{
		"object": "list", "model": req.Model, "data": list,
		"usage": map[string]int{"prompt_tokens": words, "total_tokens": words},
	}))
}
