package embed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"parley/shared/wordvector"
	"parley/workers/internal/llm"
)

const (
	// Offline is the name of a model that computes vectors from the words of a text, without a
	// service.
	Offline = "offline"

	offlineSize  = 256 // number of dimensions of an offline vector, unless the request specifies another number
	bytesOfToken = 4   // average number of bytes of a token in English text
)

// Request is a request for the vectors of texts, in which the client chooses the model and the
// number of dimensions.
type Request struct {
	Model      string
	Texts      []string
	Dimensions int // 0 means the default number of the model
}

// Vectors is the result of a Request.
type Vectors struct {
	Model       string // name of the model as configured
	List        [][]float32
	InputTokens int64
	Estimated   bool // true if InputTokens is an estimate, because the service has not reported the number of tokens
}

// Find returns the configured name of a model. model may be given with or without its provider. If
// there is no such model, the error is an *llm.Error.
func (e *Embedder) Find(model string) (string, error) {
	switch {
	case model == Offline:
		return Offline, nil
	case e == nil:
		unset := llm.NewUnused(llm.KindNotConfigured, errNoModel)
		unset.Message = "no embeddings model is configured: set EMBEDDINGS_MODEL, or use the model " + Offline + ", which needs no service"
		return "", unset
	case model != e.model && model != e.name:
		unknown := llm.NewUnused(llm.KindUnknownModel, fmt.Errorf("embeddings model %q", model))
		unknown.Message = "this service uses the embeddings model " + e.model
		return "", unknown
	}
	return e.model, nil
}

// Compute returns the vectors of all texts as the service sends them, in the order of the texts. It
// neither truncates texts nor scales vectors. An error is an *llm.Error, or ctx's error if ctx is
// done. The field Unused of an *llm.Error is set if the service has done no work.
func (e *Embedder) Compute(ctx context.Context, r Request) (Vectors, error) {
	model, err := e.Find(r.Model)
	if err != nil {
		return Vectors{}, err
	}
	if model == Offline {
		return offline(r), nil
	}

	answer, err := e.call(ctx, r)
	if err != nil {
		return Vectors{}, err
	}
	ordered, err := inOrder(answer, len(r.Texts))
	if err != nil {
		return Vectors{}, llm.NewError(llm.KindBadResponse, err)
	}

	out := Vectors{Model: model, InputTokens: answer.Usage.PromptTokens}
	for _, numbers := range ordered {
		vector, err := narrow(numbers, len(ordered[0]))
		if err != nil {
			return Vectors{}, llm.NewError(llm.KindBadResponse, err)
		}
		out.List = append(out.List, vector)
	}
	if out.InputTokens < 1 {
		out.InputTokens, out.Estimated = estimate(r.Texts), true
	}
	return out, nil
}

// narrow converts a vector to 32-bit numbers. It fails if a number is invalid, or if the vector
// does not have the given size.
func narrow(numbers []float64, size int) ([]float32, error) {
	if len(numbers) != size {
		return nil, fmt.Errorf("received a vector with %d dimensions, want %d", len(numbers), size)
	}
	vector := make([]float32, size)
	for i, x := range numbers {
		if vector[i] = float32(x); math.IsNaN(x) || math.IsInf(float64(vector[i]), 0) {
			return nil, errors.New("a vector contains an invalid number")
		}
	}
	return vector, nil
}

// offline computes vectors from the words of the texts, without a service. Texts that share words
// have similar vectors. It never fails.
func offline(r Request) Vectors {
	size := offlineSize
	if r.Dimensions > 0 {
		size = r.Dimensions
	}
	out := Vectors{Model: Offline, InputTokens: estimate(r.Texts)}
	for _, text := range r.Texts {
		out.List = append(out.List, wordvector.Vector(text, size))
	}
	return out
}

// estimate returns the approximate number of tokens in the texts.
func estimate(texts []string) (tokens int64) {
	for _, text := range texts {
		tokens += int64(max(len(strings.TrimSpace(text))/bytesOfToken, 1))
	}
	return tokens
}
